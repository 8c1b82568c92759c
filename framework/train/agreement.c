/* What the processes of a training must have in common: with other text or another vocabulary in one of them, the result would
 * be that of no config. */
#include "train/training.h"

#include "qkv/kernels.h"
#include "qkv/version.h"
#include "train/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum fact { VERSION, KERNELS, CONFIG, TRAIN, DEV, LINKS, SOURCE, TARGET, SOURCE_CODES, TARGET_CODES, FACTS };

static const char *const NAMES[FACTS] = {
    [VERSION] = "the version of qkv",
    [KERNELS] = "the kernels (QKV_KERNELS)",
    [CONFIG] = "the config",
    [TRAIN] = "data.train",
    [DEV] = "data.dev",
    [LINKS] = "data.train_links",
    [SOURCE] = "the source vocabulary",
    [TARGET] = "the target vocabulary",
    [SOURCE_CODES] = "data.src.codes",
    [TARGET_CODES] = "data.trg.codes",
};

/* What a process says of itself. */
struct statement {
    enum qkv_status status; /* of its preparation */
    struct qkv_error error;
    char fact[FACTS][64];
};

static bool add_key(void *context, const char *path, const char *value)
{
    uLong *sum = context;
    *sum = crc32_z(*sum, (const Bytef *)path, strlen(path) + 1);
    *sum = crc32_z(*sum, (const Bytef *)value, strlen(value) + 1);
    return true;
}

static void describe_sum(char text[64], uLong sum)
{
    snprintf(text, 64, "checksum %08lx", sum);
}

static void describe_pairs(char text[64], int64_t pairs, uint32_t sum)
{
    snprintf(text, 64, "%lld pairs, checksum %08lx", (long long)pairs, (unsigned long)sum);
}

static void describe_kernels(char text[64])
{
    struct qkv_kernel_names names;
    if (!qkv_kernels_in_use(&names, NULL))
        snprintf(text, 64, "%s%s", names.float32, names.is_float32_by_blas ? " with OpenBLAS" : "");
}

/* Says what a prepared training has. */
static void describe(const struct training *training, char fact[FACTS][64])
{
    uLong sum = 0;
    snprintf(fact[VERSION], 64, "%s", qkv_version());
    describe_kernels(fact[KERNELS]);
    qkv_config_each(training->config, QKV_KEYS_WITH_EFFECT, add_key, &sum);
    describe_sum(fact[CONFIG], sum);
    describe_pairs(fact[TRAIN], training->train.count, qkv_corpus_checksum(&training->train));
    describe_pairs(fact[DEV], training->dev.count, qkv_corpus_checksum(&training->dev));
    if (training->links.pairs)
        describe_pairs(fact[LINKS], training->links.pairs, qkv_token_links_checksum(&training->links));
    describe_sum(fact[SOURCE], qkv_vocabulary_checksum(&training->source));
    describe_sum(fact[TARGET], qkv_vocabulary_checksum(&training->target));
    for (int side = 0; side < 2; side++)
        if (training->bpe[side])
            describe_sum(fact[SOURCE_CODES + side], qkv_bpe_checksum(training->bpe[side]));
}

/* Compares the statements [count] of all processes; process 0 prefers its own mistakes to those of others. */
static enum qkv_status compare(const struct qkv_processes *processes, const struct statement *statement,
                               struct qkv_error *error)
{
    const struct statement *first = &statement[0];
    if (first->status) return first->status;
    for (int i = 1; i < qkv_processes_count(processes); i++) {
        const char *name = qkv_exchange_name(processes, i);
        if (statement[i].status) {
            qkv_error_set(error, "%s: %s", name, statement[i].error.message);
            return statement[i].status;
        }
        for (int k = 0; k < FACTS; k++)
            if (strcmp(first->fact[k], statement[i].fact[k]) != 0)
                return qkv_error_set(error, "%s: %s on %s, but %s on %s: all processes need the same",
                                     NAMES[k], first->fact[k], qkv_exchange_name(processes, 0),
                                     statement[i].fact[k], name);
    }
    return QKV_OK;
}

enum qkv_status qkv_training_agree(struct training *training, enum qkv_status status, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    int count = qkv_processes_count(processes), rank = qkv_processes_rank(processes);
    if (!processes) return status;
    struct statement *statement = calloc((size_t)count, sizeof *statement);
    training->wants_stop = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(bool));
    training->sent = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(int64_t));
    if (!statement || !training->wants_stop || !training->sent) {
        free(statement);
        qkv_processes_give_up(processes);
        return qkv_error_set(error, "out of memory for %d processes", count);
    }
    statement[rank].status = status;
    if (status)
        statement[rank].error = *error;
    else
        describe(training, statement[rank].fact);
    enum qkv_status agreed = qkv_exchange_collect(processes, statement, sizeof *statement, count, error);
    if (!agreed && rank == 0) agreed = compare(processes, statement, error);
    free(statement);
    if (qkv_exchange_is_broken(processes)) return QKV_INVALID;
    agreed = qkv_processes_share_status(processes, agreed);
    if (rank > 0) *error = (struct qkv_error){""}; /* process 0 has it */
    training->has_followers = !agreed && rank == 0;
    return agreed;
}
