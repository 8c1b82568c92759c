#include "log_probs.h"

#include "print.h"

#include "draw/text.h"
#include "qkv/file.h"
#include "report/json_text.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static bool has_extension(const char *path, const char *extension)
{
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot + 1, extension);
}

int log_probs_check(const char *path)
{
    if (has_extension(path, "tsv") || has_extension(path, "json")) return QKV_OK;
    return print_error("--log-probs %s: must be a file whose name ends in .tsv or .json", path);
}

/* Token `t` of the target of sentence i, as the model reads it; </s> after the last one. */
static const char *token(const struct log_probs *l, int64_t i, int64_t t)
{
    const struct qkv_corpus_side *side = &l->corpus->target;
    int64_t at = side->start[i] + t;
    return qkv_vocabulary_token(&l->run->target, at < side->start[i + 1] ? side->ids[at] : QKV_END);
}

/* Appends a row: line, number of tokens, sum, tokens and log-probabilities, the last two with spaces between. */
static void append_row(const struct log_probs *l, int64_t i, struct bytes *scratch, struct bytes *out)
{
    const struct qkv_sentence_score score = qkv_evaluator_sentence(l->evaluator, i);
    const double *numbers = qkv_evaluator_log_probabilities(l->evaluator, i);
    qkv_bytes_format(out, "%lld\t%lld\t", (long long)l->corpus->line[i], (long long)score.tokens);
    qkv_bytes_number(out, -score.negative_log_likelihood);
    scratch->size = 0;
    for (int64_t t = 0; t < score.tokens; t++) {
        if (t) qkv_bytes_text(scratch, " ");
        qkv_bytes_text(scratch, token(l, i, t));
    }
    qkv_bytes_text(out, "\t");
    if (scratch->failed)
        out->failed = true;
    else
        qkv_text_field(out, scratch->data, '\t');
    for (int64_t t = 0; t < score.tokens; t++) {
        qkv_bytes_text(out, t ? " " : "\t");
        qkv_bytes_number(out, numbers[t]);
    }
    qkv_bytes_text(out, "\n");
}

/* Appends an object for the sentence. */
static void append_object(const struct log_probs *l, int64_t i, struct bytes *out)
{
    const struct qkv_sentence_score score = qkv_evaluator_sentence(l->evaluator, i);
    const double *numbers = qkv_evaluator_log_probabilities(l->evaluator, i);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "line", (double)l->corpus->line[i]);
    cJSON_AddNumberToObject(object, "log_prob", -score.negative_log_likelihood);
    cJSON *tokens = cJSON_AddArrayToObject(object, "tokens");
    for (int64_t t = 0; t < score.tokens; t++)
        cJSON_AddItemToArray(tokens, cJSON_CreateString(token(l, i, t)));
    cJSON_AddItemToObject(object, "log_probs", cJSON_CreateDoubleArray(numbers, (int)score.tokens));
    if (json_memory_is_out())
        out->failed = true;
    else
        qkv_json_append(out, object);
    cJSON_Delete(object);
}

/* Appends a member of the object, and frees its value. */
static void append_member(struct bytes *out, const char *key, cJSON *value)
{
    if (json_memory_is_out()) out->failed = true;
    qkv_bytes_format(out, "\t\"%s\":\t", key);
    if (!out->failed) qkv_json_append(out, value);
    qkv_bytes_text(out, ",\n");
    cJSON_Delete(value);
}

/* Appends the members of the object before the sentences. */
static void append_head(const struct log_probs *l, struct bytes *out)
{
    double sum = 0, tokens = 0;
    for (int64_t i = 0; i < l->corpus->count; i++) {
        const struct qkv_sentence_score score = qkv_evaluator_sentence(l->evaluator, i);
        sum -= score.negative_log_likelihood;
        tokens += (double)score.tokens;
    }
    qkv_bytes_text(out, "{\n");
    append_member(out, "run", cJSON_CreateString(l->run->config.name));
    append_member(out, "checkpoint", cJSON_CreateString(l->run->checkpoint));
    append_member(out, "test", cJSON_CreateString(l->test));
    append_member(out, "tokens", cJSON_CreateNumber(tokens));
    append_member(out, "log_prob", cJSON_CreateNumber(sum));
    qkv_bytes_text(out, "\t\"sentences\":\t[");
}

enum qkv_status log_probs_write(const struct log_probs *l, const char *path, struct qkv_error *error)
{
    bool json = has_extension(path, "json");
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    struct bytes out = {0}, scratch = {0};
    if (json)
        append_head(l, &out);
    else
        qkv_bytes_text(&out, "line\ttoken_count\tlog_prob\ttokens\tlog_probs\n");
    for (int64_t i = 0; i < l->corpus->count && !out.failed; i++) {
        if (json && i) qkv_bytes_text(&out, ", ");
        if (json)
            append_object(l, i, &out);
        else
            append_row(l, i, &scratch, &out);
        if (!out.failed) fwrite(out.data, 1, out.size, writer.file);
        out.size = 0;
    }
    if (json) qkv_bytes_text(&out, "]\n}\n");
    bool complete = !out.failed;
    if (complete) fwrite(out.data, 1, out.size, writer.file);
    free(out.data);
    free(scratch.data);
    if (complete) return qkv_file_commit(&writer, error);
    qkv_file_abandon(&writer);
    return qkv_error_set(error, "%s: out of memory for log-probabilities", path);
}
