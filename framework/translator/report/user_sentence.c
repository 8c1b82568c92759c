#include "report/user_sentence.h"

#include <string.h>

enum qkv_status qkv_too_many_tokens(const char *what, int64_t count, int64_t longest, struct qkv_error *error)
{
    return qkv_error_set(error, "%s has %lld tokens, but the model has positions for %lld", what,
                         (long long)count, (long long)longest);
}

enum qkv_status qkv_user_sentence_encode(struct qkv_sentence *sentence, const struct qkv_run *run,
                                         bool is_target, const char *what, const char *text,
                                         struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    struct qkv_error inner;
    if (qkv_sentence_encode(sentence, is_target ? &data->trg : &data->src,
                            is_target ? &run->target : &run->source, text, strlen(text), &inner))
        return qkv_error_set(error, "%s: %s", what, inner.message);
    const int64_t count = sentence->tokens.count;
    if (!count) return qkv_error_set(error, "%s contains no words", what);
    const int64_t longest = qkv_model_max_length(run->model) - 1; /* </s> or <s> takes one position */
    return count > longest ? qkv_too_many_tokens(what, count, longest, error) : QKV_OK;
}
