#include "page/module/training.h"

#include "config/config_keys.h"
#include "config/value.h"
#include "datasets/generate/sequences.h"
#include "qkv/attention_collect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pairs ---- */

enum { PAIRS = 2000, SYMBOLS = 10, SHORTEST = 3, LONGEST = 8, DATA_SEED = 42 };

static int task_of(const char *name)
{
    static const char *const names[] = {
#define SEQUENCE_TASK(name, help) #name,
#include "datasets/generate/sequences.def"
#undef SEQUENCE_TASK
    };
    int task = 0;
    while (task < SEQUENCE_TASKS && strcmp(name, names[task]) != 0) task++;
    return task;
}

char *page_generate(const char *task, struct qkv_error *error)
{
    const struct sequence_request request = {.request = {.seed = DATA_SEED, .count = {PAIRS}},
                                             .task = (enum sequence_task)task_of(task),
                                             .symbols = SYMBOLS,
                                             .shortest = SHORTEST,
                                             .longest = LONGEST,
                                             .longest_test = LONGEST};
    struct sequences sequences;
    const size_t longest =
        2 * 2 * LONGEST + 1; /* bytes of a line: symbols of one digit, each with what follows it */
    char *text, *end;
    if (request.task == SEQUENCE_TASKS) {
        qkv_error_set(error, "there is no task %s", task);
        return NULL;
    }
    if (sequences_begin(&sequences, &request, error)) return NULL;
    struct dice dice = sequences_dice(&sequences, TRAIN);
    end = text = malloc(PAIRS * longest);
    if (!text) qkv_error_set(error, "out of memory");
    for (int i = 0; text && i < PAIRS; i++) {
        bool known;
        if (sequences_next(&sequences, TRAIN, &dice, &known, error)) {
            free(text);
            text = NULL;
        } else {
            end += sprintf(end, "%s\t%s\n", sequences.source, sequences.target);
        }
    }
    sequences_release(&sequences);
    return text;
}

/* ---- the model ---- */

/* One layer on each side, of width 32. Dropout is off, as a small model on many pairs does not overfit. */
static const char *const SETTINGS[][2] = {
    {"data.train", "pairs.tsv"},
    {"data.src.lang", "source"},
    {"data.trg.lang", "target"},
    {"model.encoder.num_layers", "1"},
    {"model.encoder.num_heads", "2"},
    {"model.encoder.hidden_size", "32"},
    {"model.encoder.ff_size", "64"},
    {"model.encoder.dropout", "0"},
    {"model.encoder.attention.dropout", "0"},
    {"model.encoder.embeddings.dropout", "0"},
    {"model.decoder.num_layers", "1"},
    {"model.decoder.num_heads", "1"},
    {"model.decoder.hidden_size", "32"},
    {"model.decoder.ff_size", "64"},
    {"model.decoder.dropout", "0"},
    {"model.decoder.attention.dropout", "0"},
    {"model.decoder.embeddings.dropout", "0"},
    {"training.batch_size", "32"},
    {"training.shards", "1"},
    {"training.updates", "1000000"},
};

static enum qkv_status make_config(struct page_training *t, uint64_t seed, struct qkv_error *error)
{
    struct qkv_messages messages = {0};
    struct qkv_collector collector = {.arena = &t->arena};
    if (qkv_config_default(&t->config, &t->arena, "page")) return qkv_error_set(error, "out of memory");
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) {
        const struct qkv_key *key = qkv_schema_find(&qkv_config_schema, SETTINGS[i][0]);
        if (!key || !qkv_value_read_text(key, SETTINGS[i][1], (struct qkv_place){.name = "page"}, &t->config,
                                         &t->arena, &collector))
            return qkv_error_set(error, "%s cannot be %s", SETTINGS[i][0], SETTINGS[i][1]);
    }
    t->config.training.random_seed = (int64_t)seed;
    if (!qkv_config_finish(&t->config, &t->arena, &messages)) return QKV_OK;
    return qkv_error_set(error, "%s", messages.text[0]);
}

static enum qkv_status read_pairs(struct page_training *t, struct qkv_error *error)
{
    struct training *training = &t->training;
    const struct qkv_data_config *data = &t->config.data;
    const struct qkv_corpus_options options = {.drop_long = true};
    if (qkv_corpus_read(&training->train, data->train, data, options, error)) return QKV_INVALID;
    if (qkv_corpus_vocabularies(&training->train, data, &training->source, &training->target, error))
        return QKV_INVALID;
    return qkv_corpus_encode(&training->train, &training->source, &training->target, error);
}

/* Opens the sentence whose map is shown: with the model that is trained, so that it changes with each update. */
static enum qkv_status open_sentence(struct page_training *t, struct qkv_error *error)
{
    struct page_translation *sentence = &t->sentence;
    sentence->run.config = t->config;
    sentence->run.source = t->training.source;
    sentence->run.target = t->training.target;
    sentence->run.model = t->training.model;
    sentence->decoding = qkv_decoding_new(sentence->run.model);
    if (!sentence->decoding) return qkv_error_set(error, "out of memory");
    sentence->collector = qkv_attention_collector_new(sentence->run.model, error);
    return sentence->collector ? QKV_OK : QKV_INVALID;
}

enum qkv_status page_training_begin(struct page_training *t, const char *pairs, size_t size, uint64_t seed,
                                    struct qkv_error *error)
{
    page_training_release(t);
    t->training.config = &t->config;
    page_set_file(pairs, size);
    if (make_config(t, seed, error) || read_pairs(t, error) || qkv_training_make_model(&t->training, error) ||
        qkv_training_make_optimizer(&t->training, error) || open_sentence(t, error)) {
        page_training_release(t);
        return QKV_INVALID;
    }
    qkv_training_plan_epoch(&t->training);
    return QKV_OK;
}

enum qkv_status page_train(struct page_training *t, int64_t updates, double learning_rate,
                           struct qkv_error *error)
{
    t->loss_count = 0;
    if (!t->training.model) return qkv_error_set(error, "there is nothing to train");
    if (!(learning_rate > 0 && learning_rate <= 1))
        return qkv_error_set(error, "the learning rate must be above 0 and at most 1");
    t->training.schedule.learning_rate = learning_rate;
    while (t->loss_count < updates && t->loss_count < PAGE_MAX_LOSSES) {
        struct update_sums sums;
        enum qkv_status status = qkv_training_update(&t->training, &sums, error);
        if (status) return status;
        t->losses[t->loss_count++] = sums.loss / (double)sums.tokens;
    }
    return QKV_OK;
}

void page_training_release(struct page_training *t)
{
    struct page_translation *sentence = &t->sentence;
    qkv_attention_collector_free(sentence->collector);
    qkv_decoding_free(sentence->decoding);
    qkv_translations_release(&sentence->translations);
    qkv_sentence_release(&sentence->source);
    qkv_sentence_release(&sentence->target);
    qkv_batch_release(&sentence->batch);
    qkv_arena_release(&sentence->arena);
    qkv_training_release_model(&t->training);
    qkv_vocabulary_release(&t->training.source);
    qkv_vocabulary_release(&t->training.target);
    qkv_corpus_release(&t->training.train);
    qkv_arena_release(&t->arena);
    *t = (struct page_training){0};
}
