/* A language model of characters, which learns a text and continues it: a transformer decoder alone (Radford et al. 2018).
 *
 *     cc character_model.c $(pkg-config --cflags --libs qkv) -o character_model
 *     ./character_model TEXT_FILE "The " [UPDATES]
 *
 * Characters are bytes. Training is data parallel: the same numbers with any number of threads. While the model writes, it
 * keeps keys and values, so that each character costs one row. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHARACTERS = 256, WIDTH = 64, HEADS = 4, LAYERS = 2, MAX_READ = 1 << 22, MAX_WRITTEN = 200 };
enum { SHARDS = 4, PIECES = 4, LENGTH = 64, TOKENS = PIECES * LENGTH }; /* of a shard */

struct language_model {
    struct qkv_parameters parameters;
    struct qkv_embedding embedding; /* its table is the output layer as well */
    struct qkv_multi_head attention[LAYERS];
    struct qkv_feed_forward inner[LAYERS];
    struct qkv_residual around_attention[LAYERS], around_inner[LAYERS];
};

struct cache { /* keys and values of the characters so far */
    float keys[LAYERS][MAX_WRITTEN * WIDTH], values[LAYERS][MAX_WRITTEN * WIDTH];
    int32_t position; /* of the next character */
};

static enum qkv_status make_model(struct language_model *model, struct qkv_error *error)
{
    struct qkv_parameters *parameters = &model->parameters;
    const struct qkv_initial initial = {QKV_INITIALIZER_XAVIER_UNIFORM, 1};
    const struct qkv_embedding_options embedding = {CHARACTERS, WIDTH, false, {QKV_INITIALIZER_NORMAL, 1}};
    const struct qkv_norm_options norm = {QKV_NORM_LAYER, WIDTH, 1e-5};
    const struct qkv_feed_forward_options inner = {WIDTH, 4 * WIDTH, QKV_ACTIVATION_GELU,
                                                   0,     initial,   initial};
    struct qkv_multi_head_options attention = {.width = WIDTH, .initial = initial, .output_initial = initial};
    attention.key_width = attention.value_width = WIDTH / HEADS;
    /* ALiBi (Press et al. 2022): heads see near characters better; no table of positions can be too short. */
    attention.rule = (struct qkv_attention_rule){.heads = HEADS, .causal = true, .alibi = true};
    qkv_embedding_init(&model->embedding, parameters, &embedding, "embedding");
    for (int i = 0; i < LAYERS; i++) {
        static const char *const names[LAYERS][4] = {{"see1", "norm1", "inner1", "inner_norm1"},
                                                     {"see2", "norm2", "inner2", "inner_norm2"}};
        qkv_multi_head_init(&model->attention[i], parameters, &attention, names[i][0]);
        qkv_residual_init(&model->around_attention[i], parameters, &norm, QKV_NORM_PRE, 0, names[i][1]);
        qkv_feed_forward_init(&model->inner[i], parameters, &inner, names[i][2]);
        qkv_residual_init(&model->around_inner[i], parameters, &norm, QKV_NORM_PRE, 0, names[i][3]);
    }
    if (qkv_parameters_allocate(parameters, QKV_FLOAT32, error)) return QKV_INVALID;
    qkv_parameters_initialize(parameters, 1);
    return QKV_OK;
}

/* Stores x [1, WIDTH] as row *row of `to` and gives all rows; without a row, x. */
static struct qkv_tensor *keep(struct qkv_graph *graph, struct qkv_tensor *x, float *to, int32_t *row)
{
    return row ? qkv_store_rows(graph, qkv_wrap(graph, QKV_SHAPE(MAX_WRITTEN, WIDTH), to), x, row) : x;
}

/* ids [tokens] of some pieces of text -> hidden states [tokens, WIDTH]; with a cache: of one more character. */
static struct qkv_tensor *apply(const struct language_model *model, struct qkv_graph *graph,
                                const int32_t *ids, struct qkv_segments pieces, struct cache *cache)
{
    int32_t *row = cache ? &cache->position : NULL;
    const int64_t first = 0, so_far = cache ? cache->position + 1 : 0;
    const struct qkv_segments keys = cache ? (struct qkv_segments){1, &first, &so_far} : pieces;
    struct qkv_tensor *x = qkv_embedding_apply(&model->embedding, graph, ids, cache ? 1 : TOKENS);
    for (int i = 0; i < LAYERS; i++) {
        const struct qkv_multi_head *layer = &model->attention[i];
        struct qkv_tensor *inside = qkv_residual_input(&model->around_attention[i], graph, x);
        struct qkv_tensor *key = qkv_multi_head_key(layer, graph, inside, pieces, NULL);
        struct qkv_tensor *value = qkv_multi_head_value(layer, graph, inside);
        struct qkv_attention_projections projections = {.queries = pieces, .keys = keys};
        projections.query = qkv_multi_head_query(layer, graph, inside, pieces, NULL);
        projections.key = keep(graph, key, cache ? cache->keys[i] : NULL, row);
        projections.value = keep(graph, value, cache ? cache->values[i] : NULL, row);
        struct qkv_tensor *result = qkv_multi_head_attend(layer, graph, &projections, NULL);
        x = qkv_residual_output(&model->around_attention[i], graph, x, result);
        inside = qkv_residual_input(&model->around_inner[i], graph, x);
        result = qkv_feed_forward_apply(&model->inner[i], graph, inside);
        x = qkv_residual_output(&model->around_inner[i], graph, x, result);
    }
    return x;
}

struct training {
    const struct language_model *model;
    const unsigned char *text;
    int64_t size;
    uint32_t update, updates;
};

static int64_t count_tokens(void *context, int shard, int shards)
{
    (void)context, (void)shard, (void)shards;
    return TOKENS;
}

/* The sum of the cross entropies of all characters of a shard. */
static struct qkv_tensor *build_loss(void *context, struct qkv_shard *shard)
{
    const struct training *training = context;
    const struct qkv_random random = {.seed = 7, .step = training->update};
    const uint64_t starts = (uint64_t)(training->size - LENGTH);
    int64_t start[PIECES], length[PIECES];
    int32_t ids[TOKENS], next[TOKENS]; /* the graph copies them */
    for (int p = 0; p < PIECES; p++) {
        const uint64_t at = qkv_random_below(random, (uint64_t)(shard->index * PIECES + p), starts);
        start[p] = p * LENGTH;
        length[p] = LENGTH;
        for (uint64_t i = 0; i < LENGTH; i++) {
            ids[(uint64_t)start[p] + i] = training->text[at + i];
            next[(uint64_t)start[p] + i] = training->text[at + i + 1];
        }
    }
    const struct qkv_segments pieces = {PIECES, start, length};
    struct qkv_tensor *hidden = apply(training->model, shard->graph, ids, pieces, NULL);
    struct qkv_tensor *table = qkv_graph_parameter(shard->graph, training->model->embedding.table);
    return qkv_linear_cross_entropy(shard->graph, hidden, table, NULL, true, next, 0, 1);
}

static enum qkv_status train(struct training *training, struct qkv_parameters *parameters,
                             struct qkv_error *error)
{
    const struct qkv_optimizer_options settings = {
        .optimizer = QKV_OPTIMIZER_ADAM, .adam_betas = {0.9, 0.98}, .adam_epsilon = 1e-8};
    const struct qkv_shard_loss loss = {.context = training, .begin = count_tokens, .build = build_loss};
    struct qkv_optimizer optimizer = {0};
    struct qkv_workers *workers = qkv_workers_new(0, error);
    struct qkv_data_parallel *parallel = qkv_data_parallel_new(parameters, workers, SHARDS, 0, error);
    enum qkv_status status = parallel ? QKV_OK : QKV_INVALID;
    if (!status) status = qkv_optimizer_init(&optimizer, &settings, parameters, error);
    for (training->update = 1; !status && training->update <= training->updates; training->update++) {
        struct qkv_shard_sums sums;
        int blocks;
        status = qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, error);
        if (status) break;
        void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
        const double tokens = (double)sums.items;
        qkv_optimizer_step(&optimizer, parameters, workers, blocks, gradients, 1 / tokens, 5e-3);
        if (training->update % 100 == 0)
            printf("update %u  %.3f bits a character\n", training->update,
                   sums.loss / tokens * 1.442695 /* 1 / ln 2 */);
    }
    qkv_optimizer_release(&optimizer);
    qkv_data_parallel_free(parallel);
    qkv_workers_free(workers);
    return status;
}

/* Draws each character by its probability. */
static enum qkv_status write_on(const struct language_model *model, const char *text, struct qkv_error *error)
{
    static struct cache cache;
    const int64_t start = 0, length = 1, given = (int64_t)strlen(text);
    const struct qkv_segments one = {1, &start, &length};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    if (!graph) return qkv_error_set(error, "out of memory");
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    int32_t character = '\n';
    for (; cache.position < MAX_WRITTEN; cache.position++) {
        double uniform = qkv_random_uniform((struct qkv_random){.seed = 3}, (uint64_t)cache.position);
        double probability[CHARACTERS];
        if (cache.position < given) character = (unsigned char)text[cache.position];
        putchar(character);
        qkv_graph_reset(graph);
        struct qkv_tensor *hidden = apply(model, graph, &character, one, &cache);
        struct qkv_tensor *table = qkv_graph_parameter(graph, model->embedding.table);
        struct qkv_tensor *next = qkv_softmax(graph, qkv_matmul(graph, hidden, table, false, true));
        if (qkv_graph_check(graph, error)) break;
        qkv_forward(graph);
        qkv_tensor_read(next, probability);
        for (character = 0; character < CHARACTERS - 1; character++)
            if ((uniform -= probability[character]) < 0) break;
    }
    enum qkv_status status = qkv_graph_check(graph, error);
    putchar('\n');
    qkv_graph_free(graph);
    return status;
}

int main(int count, char **arguments)
{
    static struct language_model model;
    static unsigned char text[MAX_READ];
    struct qkv_error error = {""};
    if (count < 3) return fprintf(stderr, "Usage: character_model TEXT_FILE BEGINNING [UPDATES]\n"), 2;
    FILE *file = qkv_file_stream(arguments[1], true, &error);
    struct training training = {&model, text, .updates = count > 3 ? (uint32_t)atoi(arguments[3]) : 1000};
    if (file) training.size = (int64_t)fread(text, 1, MAX_READ, file);
    enum qkv_status status = file ? make_model(&model, &error) : QKV_INVALID;
    if (!status && training.size <= LENGTH) status = qkv_error_set(&error, "%s is short", arguments[1]);
    if (!status) status = train(&training, &model.parameters, &error);
    if (!status) status = write_on(&model, arguments[2], &error);
    if (status) fprintf(stderr, "character_model: %s\n", error.message);
    if (file) fclose(file);
    qkv_parameters_release(&model.parameters);
    return status ? 2 : 0;
}
