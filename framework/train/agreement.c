/* What the processes of a training must have in common: with other text or another vocabulary in one of them, the result would
 * be that of no config. */
#include "train/training.h"

#include "core/exchange.h"
#include "train/statement.h"

#include <string.h>
#include <zlib.h>

static bool add_key(void *context, const char *path, const char *value)
{
    uLong *sum = context;
    *sum = crc32_z(*sum, (const Bytef *)path, strlen(path) + 1);
    *sum = crc32_z(*sum, (const Bytef *)value, strlen(value) + 1);
    return true;
}

static void add_pairs(struct qkv_statement *statement, const char *name, int64_t pairs, uint32_t sum)
{
    qkv_statement_add(statement, name, "%lld pairs, checksum %08lx", (long long)pairs, (unsigned long)sum);
}

/* Says what a prepared training has. */
static void describe(const struct training *training, struct qkv_statement *statement)
{
    uLong sum = 0;
    qkv_config_each(training->config, QKV_KEYS_WITH_EFFECT, add_key, &sum);
    qkv_statement_add_build(statement);
    qkv_statement_add_checksum(statement, "the config", (uint32_t)sum);
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

enum qkv_status qkv_training_agree(struct training *training, enum qkv_status status, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    int count = qkv_processes_count(processes);
    if (!processes) return status;
    training->wants_stop = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(bool));
    training->sent = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(int64_t));
    if (!training->wants_stop || !training->sent) {
        qkv_processes_give_up(processes);
        return qkv_error_set(error, "out of memory for %d processes", count);
    }
    struct qkv_statement statement = {.status = status};
    if (status)
        statement.error = *error;
    else
        describe(training, &statement);
    enum qkv_status agreed = qkv_statements_compare(processes, &statement, error);
    training->has_followers = !agreed && qkv_processes_rank(processes) == 0;
    return agreed;
}
