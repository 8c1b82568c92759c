/* A small model that is trained in the page, on pairs of sentences that are a text in memory. The trainer is that of `qkv
 * train` (train/training.h), without files and threads. */
#include "page/module/module.h"

#include "config/config_keys.h"
#include "datasets/generate/sequences.h"
#include "train/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct qkv_config config;
static struct qkv_arena arena; /* of the config */
static struct training training;

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

/* Makes pairs by the task of `qkv generate` that the block names: lines source<TAB>target. */
int EXPORT(page_generate)(size_t size)
{
    (void)size; /* page_input ends the block with a NUL */
    const struct sequence_request request = {.request = {.seed = DATA_SEED, .count = {PAIRS}},
                                             .task = (enum sequence_task)task_of(page_bytes),
                                             .symbols = SYMBOLS,
                                             .shortest = SHORTEST,
                                             .longest = LONGEST,
                                             .longest_test = LONGEST};
    struct sequences sequences;
    enum { LINE = 2 * 2 * LONGEST + 1 }; /* bytes: symbols of one digit, each with what follows it */
    if (request.task == SEQUENCE_TASKS) return qkv_error_set(&page_error, "there is no task %s", page_bytes);
    if (sequences_begin(&sequences, &request, &page_error)) return QKV_INVALID;
    struct dice dice = sequences_dice(&sequences, TRAIN);
    char *text = page_sure(malloc(PAIRS * LINE)), *end = text;
    enum qkv_status status = QKV_OK;
    for (int i = 0; !status && i < PAIRS; i++) {
        bool known;
        status = sequences_next(&sequences, TRAIN, &dice, &known, &page_error);
        if (!status) end += sprintf(end, "%s\t%s\n", sequences.source, sequences.target);
    }
    if (!status) page_texts("pairs", 1, (const char *const[]){text}); /* as lines */
    free(text);
    sequences_release(&sequences);
    return status;
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

static enum qkv_status make_config(uint64_t seed)
{
    struct qkv_messages messages = {0};
    struct qkv_collector collector = {.arena = &arena};
    if (qkv_config_default(&config, &arena, "page")) return qkv_error_set(&page_error, "out of memory");
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) {
        const struct qkv_key *key = qkv_schema_find(&qkv_config_schema, SETTINGS[i][0]);
        QKV_BUG(!key || !qkv_value_read_text(key, SETTINGS[i][1], (struct qkv_place){.name = "page"}, &config,
                                             &collector),
                "%s cannot be %s", SETTINGS[i][0], SETTINGS[i][1]);
    }
    config.training.random_seed = (int64_t)seed;
    if (!qkv_config_finish(&config, &arena, &messages)) return QKV_OK;
    return qkv_error_set(&page_error, "%s", messages.text[0]);
}

static enum qkv_status read_pairs(void)
{
    const struct qkv_data_config *data = &config.data;
    const struct qkv_corpus_options options = {.drop_long = true};
    if (qkv_corpus_read(&training.train, data->train, data, options, &page_error) ||
        qkv_corpus_vocabularies(&training.train, data, &training.source, &training.target, &page_error))
        return QKV_INVALID;
    return qkv_corpus_encode(&training.train, &training.source, &training.target, &page_error);
}

static void release(void)
{
    page_translation_end();
    qkv_training_release_model(&training);
    qkv_vocabulary_release(&training.source);
    qkv_vocabulary_release(&training.target);
    qkv_corpus_release(&training.train);
    qkv_arena_release(&arena);
    training = (struct training){.config = &config};
}

/* Reads the pairs of the block and makes a model with random parameters, in place of the one before: it translates, and
 * changes with each update. Fails with the number of the line that is no pair; there is no model then. */
int EXPORT(page_begin)(size_t size, double seed)
{
    release();
    page_set_file(page_bytes, size);
    if (make_config((uint64_t)seed) || read_pairs() || qkv_training_make_model(&training, &page_error) ||
        qkv_training_make_optimizer(&training, &page_error)) {
        release();
        return QKV_INVALID;
    }
    qkv_training_plan_epoch(&training);
    page_translation.run = (struct qkv_run){.config = config,
                                            .sides = qkv_sides_of(&config.data, &config.model),
                                            .source = training.source,
                                            .target = training.target,
                                            .model = training.model};
    return page_translation_begin();
}

/* Does an update. Gives its loss: nats per target token. */
int EXPORT(page_update)(double learning_rate)
{
    struct update_sums sums;
    if (!training.model) return qkv_error_set(&page_error, "there is nothing to train");
    training.schedule.learning_rate = learning_rate;
    if (qkv_training_update(&training, &sums, &page_error)) return QKV_INVALID;
    *page_doubles("loss", 1) = sums.loss / (double)sums.tokens;
    return QKV_OK;
}
