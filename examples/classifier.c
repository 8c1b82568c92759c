/* A classifier: a bidirectional LSTM, whose states attention sums up (Yang et al. 2016), says in which of two languages a
 * sentence is written, from its characters, and which of them it looked at.
 *
 *     cc classifier.c $(pkg-config --cflags --libs qkv) -o classifier
 *     ./classifier PAIRS.tsv "the cat" "el gato"
 *
 * A line of PAIRS.tsv is a sentence (class 1), a tab, and its translation (class 2). Every tenth line is for the test. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHARACTERS = 256, WIDTH = 16, CLASSES = 2, LONGEST = 80, UPDATES = 60 };
enum { SHARDS = 4, SENTENCES = 8, TOKENS = SENTENCES * LONGEST }; /* of a shard */

struct classifier {
    struct qkv_parameters parameters;
    struct qkv_embedding embedding, query; /* query: one row, with which each sentence is looked at */
    struct qkv_recurrent forward, backward;
    struct qkv_single_head_attention attention;
    struct qkv_dense classes;
};

/* Sentences as a graph takes them: packed one after another. */
struct sentences {
    int64_t count, tokens, start[SENTENCES], length[SENTENCES], row[SENTENCES], one[SENTENCES];
    int32_t ids[TOKENS], queries[SENTENCES], classes[SENTENCES];
};

static enum qkv_status make_classifier(struct classifier *c, struct qkv_error *error)
{
    struct qkv_parameters *parameters = &c->parameters;
    const struct qkv_initial initial = {QKV_INITIALIZER_XAVIER_UNIFORM, 1},
                             normal = {QKV_INITIALIZER_NORMAL, 1};
    const struct qkv_embedding_options embedding = {CHARACTERS, WIDTH, true, normal},
                                       query = {1, WIDTH, true, normal};
    const struct qkv_recurrent_options cell = {
        QKV_CELL_LSTM, WIDTH, WIDTH, .forget_bias = 1, .initial = initial, .recurrent = initial};
    const struct qkv_single_head_attention_options attention = {
        QKV_ATTENTION_SCORE_ADDITIVE, WIDTH, 2 * WIDTH, .key_width = WIDTH, .initial = initial};
    const struct qkv_dense_options classes = {2 * WIDTH, CLASSES, true, QKV_ACTIVATION_NONE, initial};
    qkv_embedding_init(&c->embedding, parameters, &embedding, "embedding");
    qkv_embedding_init(&c->query, parameters, &query, "query");
    qkv_recurrent_init(&c->forward, parameters, &cell, "forward");
    qkv_recurrent_init(&c->backward, parameters, &cell, "backward");
    qkv_single_head_attention_init(&c->attention, parameters, &attention, "attention");
    qkv_dense_init(&c->classes, parameters, &classes, "classes");
    if (qkv_parameters_allocate(parameters, QKV_FLOAT32, error)) return QKV_INVALID;
    qkv_parameters_initialize(parameters, 1);
    return QKV_OK;
}

static struct qkv_tensor *run(const struct qkv_recurrent *cell, struct qkv_graph *graph, struct qkv_tensor *x,
                              struct qkv_segments sentences, bool reverse)
{
    struct qkv_tensor *gates = qkv_recurrent_gates(cell, graph, x);
    return qkv_recurrent_hidden(cell, graph, qkv_recurrent_run(cell, graph, gates, NULL, sentences, reverse));
}

/* Logits [count, CLASSES]. *attention: the node whose weights say which characters count. */
static struct qkv_tensor *apply(const struct classifier *c, struct qkv_graph *graph,
                                const struct sentences *s, struct qkv_tensor **attention)
{
    const struct qkv_segments keys = {s->count, s->start, s->length}, queries = {s->count, s->row, s->one};
    struct qkv_tensor *x = qkv_embedding_apply(&c->embedding, graph, s->ids, s->tokens); /* [N, WIDTH] */
    struct qkv_tensor *forward = run(&c->forward, graph, x, keys, false);
    struct qkv_tensor *states = qkv_concat(graph, forward, run(&c->backward, graph, x, keys, true), 1);
    struct qkv_tensor *query =
        qkv_embedding_apply(&c->query, graph, s->queries, s->count); /* [count, WIDTH] */
    const struct qkv_attention_inputs inputs = {query, states, .queries = queries, .keys = keys};
    struct qkv_tensor *key = qkv_single_head_attention_keys(&c->attention, graph, states);
    struct qkv_tensor *sum = qkv_single_head_attention_apply(&c->attention, graph, key, &inputs, attention);
    return qkv_dense_apply(&c->classes, graph, sum);
}

static void add(struct sentences *s, const char *text, int32_t class)
{
    size_t length = strlen(text);
    s->start[s->count] = s->tokens;
    s->length[s->count] = (int64_t)(length < LONGEST ? length : LONGEST);
    s->row[s->count] = s->count;
    s->one[s->count] = 1;
    s->queries[s->count] = 0;
    s->classes[s->count] = class;
    for (int64_t i = 0; i < s->length[s->count]; i++) s->ids[s->tokens++] = (unsigned char)text[i];
    s->count++;
}

/* ---- training ---- */

struct training {
    const struct classifier *classifier;
    const struct qkv_pairs *pairs;
    uint32_t update;
};

static bool is_for_test(int64_t line)
{
    return line % 10 == 9;
}

static int64_t count_sentences(void *context, int shard, int shards)
{
    (void)context, (void)shard, (void)shards;
    return SENTENCES;
}

/* The sum of the cross entropies of the sentences of a shard. */
static struct qkv_tensor *build_loss(void *context, struct qkv_shard *shard)
{
    const struct training *training = context;
    const struct qkv_random random = {.seed = 5, .step = training->update};
    struct sentences s = {0};
    struct qkv_tensor *attention;
    for (uint64_t i = (uint64_t)shard->index << 32; s.count < SENTENCES; i++) {
        int64_t line = (int64_t)qkv_random_below(random, i, (uint64_t)training->pairs->count);
        const int class = (int)s.count % CLASSES;
        if (!is_for_test(line)) add(&s, qkv_pairs_text(training->pairs, line, class), class);
    }
    struct qkv_tensor *logits = apply(training->classifier, shard->graph, &s, &attention);
    return qkv_cross_entropy(shard->graph, logits, s.classes, 0, 1);
}

static enum qkv_status train(struct training *training, struct qkv_parameters *parameters,
                             struct qkv_error *error)
{
    const struct qkv_optimizer_options settings = {
        .optimizer = QKV_OPTIMIZER_ADAM, .adam_betas = {0.9, 0.98}, .adam_epsilon = 1e-8};
    const struct qkv_shard_loss loss = {.context = training, .begin = count_sentences, .build = build_loss};
    struct qkv_optimizer optimizer = {0};
    struct qkv_workers *workers = qkv_workers_new(0, error);
    struct qkv_data_parallel *parallel = qkv_data_parallel_new(parameters, workers, SHARDS, 0, error);
    enum qkv_status status = parallel ? QKV_OK : QKV_INVALID;
    if (!status) status = qkv_optimizer_init(&optimizer, &settings, parameters, error);
    for (training->update = 1; !status && training->update <= UPDATES; training->update++) {
        struct qkv_shard_sums sums;
        int blocks;
        status = qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, error);
        if (status) break;
        void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
        const double count = (double)sums.items;
        qkv_optimizer_step(&optimizer, parameters, workers, blocks, gradients, 1 / count, 1e-2);
        if (training->update % 20 == 0) printf("update %u  loss %.4f\n", training->update, sums.loss / count);
    }
    qkv_optimizer_release(&optimizer);
    qkv_data_parallel_free(parallel);
    qkv_workers_free(workers);
    return status;
}

/* ---- using it ---- */

/* The class of a text; prints what it looked at, unless `is_quiet`. */
static int classify(const struct classifier *c, struct qkv_graph *graph, const char *text, bool is_quiet)
{
    struct sentences s = {0};
    struct qkv_tensor *attention;
    double logits[CLASSES];
    int64_t rows, characters;
    add(&s, text, 0);
    qkv_graph_reset(graph);
    struct qkv_tensor *result = apply(c, graph, &s, &attention);
    qkv_forward(graph);
    qkv_tensor_read(result, logits);
    const int class = logits[1] > logits[0];
    const float *weights = qkv_attention_weights_of(attention, 0, 0, &rows, &characters);
    if (is_quiet || !weights) return class;
    printf("%s  class %d\n", text, class + 1);
    for (int64_t i = 0; i < characters; i++) /* tenths, below each character */
        putchar(weights[i] < 0.05f ? '.' : '0' + (int)(weights[i] * 9.99f));
    printf("\n");
    return class;
}

int main(int count, char **arguments)
{
    static struct classifier classifier;
    struct qkv_error error = {""};
    struct qkv_pairs pairs;
    int64_t right = 0, tested = 0;
    if (count < 2) return fprintf(stderr, "Usage: classifier PAIRS.tsv [SENTENCE...]\n"), 2;
    enum qkv_status status = qkv_pairs_read(&pairs, (struct qkv_pairs_request){.path = arguments[1]}, &error);
    if (status) return fprintf(stderr, "classifier: %s\n", error.message), 2;
    struct training training = {&classifier, &pairs, 0};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    status = graph ? make_classifier(&classifier, &error) : qkv_error_set(&error, "out of memory");
    if (!status) status = train(&training, &classifier.parameters, &error);
    if (!status) qkv_graph_bind(graph, &classifier.parameters, NULL, false);
    for (int64_t line = 0; !status && line < pairs.count; line++)
        for (int class = 0; is_for_test(line) && class < CLASSES; class ++, tested++)
            right += classify(&classifier, graph, qkv_pairs_text(&pairs, line, class), true) == class;
    if (!status) printf("%lld of %lld are right\n", (long long)right, (long long)tested);
    for (int i = 2; !status && i < count; i++) classify(&classifier, graph, arguments[i], false);
    if (status) fprintf(stderr, "classifier: %s\n", error.message);
    qkv_graph_free(graph);
    qkv_parameters_release(&classifier.parameters);
    qkv_pairs_release(&pairs);
    return status ? 2 : 0;
}
