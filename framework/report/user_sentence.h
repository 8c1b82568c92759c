/* Private to report and the tools: sentences that a user gives for a run. */
#ifndef QKV_REPORT_USER_SENTENCE_H
#define QKV_REPORT_USER_SENTENCE_H

#include "qkv/corpus.h"
#include "qkv/run.h"

/* Tokenises a source or target sentence. Messages call it `what`. Fails for text that is not valid UTF-8, without words, or
 * longer than the model has positions for. */
enum qkv_status qkv_user_sentence_encode(struct qkv_sentence *sentence, const struct qkv_run *run,
                                         bool is_target, const char *what, const char *text,
                                         struct qkv_error *error);

/* Says that `what` has more tokens than the model has positions for. Neither number counts </s> or <s>. Returns QKV_INVALID. */
enum qkv_status qkv_too_many_tokens(const char *what, int64_t count, int64_t longest,
                                    struct qkv_error *error);

#endif
