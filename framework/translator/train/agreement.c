/* Checks that all processes of a training agree on build, config, texts and vocabularies: if one of them had another text or
 * vocabulary, no config would describe the result. */
#include "train/training.h"

#include "processes/gather.h"
#include "train/statement.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- configs ---- */

/* The path and the value of each key that has an effect, each with a terminating NUL. */
struct keys {
    char *text;
    size_t size;
};

static bool add_text(struct keys *keys, const char *text)
{
    size_t size = strlen(text) + 1;
    char *longer = realloc(keys->text, keys->size + size);
    if (!longer) return false;
    memcpy(longer + keys->size, text, size);
    *keys = (struct keys){longer, keys->size + size};
    return true;
}

static bool add_key(void *context, const char *path, const char *value)
{
    return add_text(context, path) && add_text(context, value);
}

/* The text after text `at`; NULL when `at` is the last one. */
static const char *next_text(const struct keys *keys, const char *at)
{
    const char *next = at + strlen(at) + 1;
    return next < keys->text + keys->size ? next : NULL;
}

static const char *value_of(const struct keys *keys, const char *path)
{
    const char *at = keys->size ? keys->text : NULL, *value;
    for (; at && (value = next_text(keys, at)); at = next_text(keys, value))
        if (!strcmp(at, path)) return value;
    return NULL;
}

/* Process 0 gathers the keys of all configs here, compares them with its own and keeps the first difference. */
struct configs {
    const struct qkv_processes *processes;
    struct keys keys; /* of this process */
    bool differ;
    struct qkv_error error;
};

static void compare_keys(struct configs *configs, int rank, const struct keys *keys)
{
    const char *path = configs->keys.size ? configs->keys.text : NULL, *value;
    for (; path && !configs->differ && (value = next_text(&configs->keys, path));
         path = next_text(&configs->keys, value)) {
        const char *other = value_of(keys, path);
        configs->differ = other && strcmp(value, other) != 0;
        if (configs->differ)
            qkv_statement_differs(configs->processes, path, value, rank, other, &configs->error);
    }
}

static void move_keys(void *context, int rank, struct qkv_parcel *parcel)
{
    struct configs *configs = context;
    struct keys keys = configs->keys;
    qkv_parcel_move(parcel, &keys.size, sizeof keys.size);
    if (parcel->is_received) {
        keys.text = parcel->bytes + parcel->size;
        compare_keys(configs, rank, &keys);
    } else {
        qkv_parcel_move(parcel, keys.text, keys.size);
    }
}

/* ---- everything that processes must have in common ---- */

static void add_pairs(struct qkv_statement *statement, const char *name, int64_t pairs, uint32_t sum)
{
    qkv_statement_add(statement, name, "%lld pairs, checksum %08lx", (long long)pairs, (unsigned long)sum);
}

/* Adds the checksums of config, texts, vocabularies and merges of a prepared training to the statement. */
static void describe(const struct training *training, const struct keys *keys,
                     struct qkv_statement *statement)
{
    qkv_statement_add_checksum(statement, "the config",
                               (uint32_t)crc32_z(0, (const Bytef *)keys->text, keys->size));
    add_pairs(statement, "data.train", training->train.count, qkv_corpus_checksum(&training->train));
    add_pairs(statement, "data.dev", training->dev.count, qkv_corpus_checksum(&training->dev));
    if (training->links.pairs)
        add_pairs(statement, "data.train_links", training->links.pairs,
                  qkv_token_links_checksum(&training->links));
    qkv_statement_add_checksum(statement, "the source vocabulary",
                               qkv_vocabulary_checksum(&training->source));
    qkv_statement_add_checksum(statement, "the target vocabulary",
                               qkv_vocabulary_checksum(&training->target));
    for (int side = 0; side < 2; side++)
        if (training->bpe[side])
            qkv_statement_add_checksum(statement, side ? "the target merges" : "the source merges",
                                       qkv_bpe_checksum(training->bpe[side]));
}

/* Compares version and kernels. Comes first, because another build may send the later messages in another format. */
static enum qkv_status compare_builds(struct qkv_processes *processes, struct qkv_error *error)
{
    struct qkv_statement build = {.status = QKV_OK};
    struct qkv_error inner = {""};
    qkv_statement_add_build(&build);
    enum qkv_status agreed = qkv_statements_compare(processes, &build, &inner);
    if (agreed) *error = inner;
    return agreed;
}

/* Compares the configs key by key, because the key that differs says more than a checksum. status: of the preparation of this
 * process; process 0 sets it to QKV_INVALID when configs differ. */
static enum qkv_status compare_configs(const struct training *training, struct configs *configs,
                                       enum qkv_status *status, struct qkv_error *error)
{
    const struct qkv_parcel_contents contents = {configs, move_keys};
    struct qkv_error inner = {""};
    if (!*status && qkv_config_each(training->config, QKV_KEYS_WITH_EFFECT, add_key, &configs->keys))
        *status = qkv_error_set(error, "out of memory for the keys of the config");
    if (*status) configs->keys.size = 0;
    if (qkv_gather(training->options->processes, &contents, QKV_OK, &inner)) {
        *error = inner;
        return QKV_INVALID;
    }
    if (*status || !configs->differ) return QKV_OK;
    *error = configs->error;
    *status = QKV_INVALID;
    return QKV_OK;
}

enum qkv_status qkv_training_agree(struct training *training, enum qkv_status status, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    int count = qkv_processes_count(processes);
    if (!processes) return status;
    training->wants_stop = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(bool));
    training->sent = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(int64_t));
    if (!training->wants_stop || !training->sent) {
        qkv_processes_abort(processes);
        return qkv_error_set(error, "out of memory for %d processes", count);
    }
    struct configs configs = {.processes = processes};
    enum qkv_status agreed = compare_builds(processes, error);
    if (!agreed) agreed = compare_configs(training, &configs, &status, error);
    struct qkv_statement statement = {.status = status};
    if (!agreed && status)
        statement.error = *error;
    else if (!agreed)
        describe(training, &configs.keys, &statement);
    free(configs.keys.text);
    if (!agreed) agreed = qkv_statements_compare(processes, &statement, error);
    training->has_followers = !agreed && qkv_processes_rank(processes) == 0;
    return agreed;
}
