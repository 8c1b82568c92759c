/* Private to report and the tools: encodes sentences that a user gives to a run. */
#ifndef QKV_REPORT_USER_SENTENCE_H
#define QKV_REPORT_USER_SENTENCE_H

#include "qkv/corpus.h"
#include "qkv/run.h"

/* Tokenises a source or target sentence, which messages call `what`. Fails for text that is not valid UTF-8, that has no words,
 * or that has more tokens than the model has positions. */
enum qkv_status qkv_user_sentence_encode(struct qkv_sentence *sentence, const struct qkv_run *run,
                                         bool is_target, const char *what, const char *text,
                                         struct qkv_error *error);

/* Sets the error that `what` has more tokens than the model has positions. Both numbers are without </s> and <s>. Returns
 * QKV_INVALID. */
enum qkv_status qkv_too_many_tokens(const char *what, int64_t count, int64_t longest,
                                    struct qkv_error *error);

#endif
