/* Private: a language model continues a text. */
#pragma once

#include "qkv/model.h"

struct qkv_completion {
    const struct qkv_model *model;
    /* Running text: </s> ends a line, and the text goes on; the model sees at least the last half of `window` tokens, at most
     * all of them. Otherwise </s> ends the text, which begins with <s>, and `window` is not read. */
    bool runs_on;
    int64_t window;
    int64_t max_length; /* tokens to write at most */
    struct qkv_sampling_options sampling;
    int64_t number; /* of the text: each has samples of its own; from 0 to 2^20 - 1 */
    /* Called for each token as it is chosen */
    void (*token)(void *context, int32_t id);
    void *context;
};

/* Continues the prompt, ids without <s>; of running text, with </s> at the end of each line but the last. The tokens depend on
 * the model, the prompt and the options alone. Fails for a prompt that leaves no position, and as qkv_search does. */
enum qkv_status qkv_complete(const struct qkv_completion *completion, struct qkv_ids prompt,
                             struct qkv_error *error);
