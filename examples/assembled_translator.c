/* A translator assembled by hand, without a config file and a run folder: text, vocabularies, a transformer, its training,
 * and beam search.
 *
 *     cc assembled_translator.c $(pkg-config --cflags --libs qkv) -o assembled_translator
 *     ./assembled_translator PAIRS.tsv UPDATES "the cat is sleeping"
 *
 * PAIRS.tsv has a sentence, a tab, and its translation on each line. Of the sentence, the program prints the three best
 * translations that a beam of 8 finds, with their log-probabilities. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 4, BEAM = 8, N_BEST = 3 };

struct translator {
    struct qkv_arena arena; /* texts of the config */
    struct qkv_config config;
    struct qkv_corpus corpus;
    struct qkv_vocabulary source, target;
    struct qkv_model *model;
    struct qkv_workers *workers;
};

/* The sizes of the model; a command would read them from YAML. */
static enum qkv_status configure(struct translator *t, const char *path, struct qkv_error *error)
{
    struct qkv_messages messages = {0};
    if (qkv_config_default(&t->config, &t->arena, "assembled")) return qkv_error_set(error, "out of memory");
    t->config.data.train = path;
    t->config.data.src.lang = "source";
    t->config.data.trg.lang = "target";
    struct qkv_stack_config *stacks[] = {&t->config.model.encoder, &t->config.model.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->num_layers = 1;
        stacks[i]->num_heads = 4;
        stacks[i]->hidden_size = 64;
        stacks[i]->ff_size = 128;
        stacks[i]->layer_norm = QKV_NORM_PRE;
    }
    t->config.training.learning_rate = 3e-3;
    if (qkv_config_finish(&t->config, &t->arena, &messages))
        return qkv_error_set(error, "%s", messages.text[0]);
    return QKV_OK;
}

static enum qkv_status read_text(struct translator *t, struct qkv_error *error)
{
    const struct qkv_data_config *data = &t->config.data;
    const struct qkv_corpus_options options = {.drop_long = true};
    if (qkv_corpus_read(&t->corpus, data->train, data, options, error) ||
        qkv_corpus_vocabularies(&t->corpus, data, &t->source, &t->target, error))
        return QKV_INVALID;
    return qkv_corpus_encode(&t->corpus, &t->source, &t->target, error);
}

static enum qkv_status train(struct translator *t, int64_t updates, struct qkv_error *error)
{
    const struct qkv_batches_options options = {QKV_BATCH_SENTENCE, 64, QKV_BATCH_ORDER_SHUFFLED, 1};
    struct qkv_batches batches = {0};
    struct qkv_batch batch = {0};
    const struct qkv_optimizer_options adam = qkv_optimizer_options_from_config(&t->config.training);
    struct qkv_optimizer optimizer = {0};
    struct qkv_shard_sums sums;
    struct qkv_parameters *parameters = &t->model->parameters;
    struct qkv_batch_loss of_batch = {.model = t->model, .batch = &batch, .objective.smoothing = 0.1};
    const struct qkv_shard_loss loss = qkv_batch_loss(&of_batch);
    struct qkv_data_parallel *parallel =
        qkv_data_parallel_new(parameters, t->workers, SHARDS, QKV_GRADIENTS_BY_SIZE, error);
    enum qkv_status status = parallel ? QKV_OK : QKV_INVALID;
    if (!status) status = qkv_batches_init(&batches, &t->corpus, options, error);
    if (!status) status = qkv_optimizer_init(&optimizer, &adam, parameters, error);
    int64_t next = 0;
    for (int64_t update = 0; !status && update < updates; update++) {
        const struct qkv_random dropout = {.seed = 1, .step = (uint32_t)update};
        if (next == batches.count) {
            qkv_batches_epoch(&batches, batches.epoch + 1);
            next = 0;
        }
        status = qkv_batches_get(&batches, next++, &batch, error);
        if (!status) status = qkv_data_parallel_step(parallel, &loss, &dropout, false, &sums, error);
        if (status) break;
        int blocks;
        void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
        qkv_optimizer_step(&optimizer, parameters, t->workers, blocks, gradients, 1.0 / (double)sums.items,
                           t->config.training.learning_rate);
        if (update % 100 == 99 || update + 1 == updates)
            printf("update %lld  cross-entropy %.3f\n", (long long)update + 1,
                   sums.further[QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD] / (double)sums.items);
    }
    qkv_optimizer_release(&optimizer);
    qkv_batch_release(&batch);
    qkv_batches_release(&batches);
    qkv_data_parallel_free(parallel);
    return status;
}

static enum qkv_status translate(struct translator *t, const char *text, struct qkv_error *error)
{
    const struct qkv_search_options search = {.beam_size = BEAM, .n_best = N_BEST};
    struct qkv_sentence source = {0};
    const struct qkv_hypothesis *best;
    struct qkv_translator *translator = qkv_translator_new(t->model, t->workers, error);
    enum qkv_status status = translator ? QKV_OK : QKV_INVALID;
    if (!status)
        status = qkv_sentence_encode(&source, &t->config.data.src, &t->source, text, strlen(text), error);
    const struct qkv_ids ids = {source.tokens.count, source.ids};
    if (!status) status = qkv_translator_run(translator, 1, &ids, 1, &search, &best, error);
    for (int h = 0; !status && h < N_BEST; h++) {
        printf("%.3f ", best[h].score);
        for (int64_t i = 0; i < best[h].length; i++)
            printf(" %s", qkv_vocabulary_token(&t->target, best[h].ids[i]));
        printf("\n");
    }
    qkv_sentence_release(&source);
    qkv_translator_free(translator);
    return status;
}

int main(int count, char **arguments)
{
    struct translator t = {0};
    struct qkv_error error = {""};
    if (count != 4) return fprintf(stderr, "Usage: assembled_translator PAIRS.tsv UPDATES SENTENCE\n"), 2;
    enum qkv_status status = configure(&t, arguments[1], &error);
    if (!status) status = read_text(&t, &error);
    if (!status) t.workers = qkv_workers_new(0, &error);
    if (t.workers)
        t.model = qkv_model_new(&t.config.model, t.source.size, t.target.size, QKV_FLOAT32, &error);
    if (!status && !t.model) status = QKV_INVALID;
    if (!status) {
        qkv_parameters_initialize(&t.model->parameters, 1);
        status = train(&t, atoll(arguments[2]), &error);
    }
    if (!status) status = translate(&t, arguments[3], &error);
    if (status) fprintf(stderr, "assembled_translator: %s\n", error.message);
    qkv_model_free(t.model);
    qkv_workers_free(t.workers);
    qkv_vocabulary_release(&t.source);
    qkv_vocabulary_release(&t.target);
    qkv_corpus_release(&t.corpus);
    qkv_arena_release(&t.arena);
    return status ? 2 : 0;
}
