/* A language model continues a text by the search in one batch, window by window. */

#include "core/memory.h"
#include "models/network.h"

/* The text so far. */
struct text {
    const struct qkv_completion *completion;
    int32_t *ids; /* [count]: the first is not part of the text: <s>, or the line end before it */
    int64_t count;
};

static void add_token(void *context, int32_t id)
{
    struct text *text = context;
    text->ids[text->count++] = id;
    text->completion->token(text->completion->context, id);
}

/* Continues the text until it has `length` tokens, it ends, or the window is full. *ended: it has no more tokens. */
static enum qkv_status fill_window(struct text *text, struct qkv_decoding *decoding, int64_t window,
                                   int64_t number, int64_t length, bool *ended, struct qkv_error *error)
{
    const struct qkv_completion *completion = text->completion;
    const int64_t positions = completion->runs_on ? window : decoding->max_length;
    const int64_t begin = completion->runs_on && text->count >= positions ? text->count - positions / 2 : 0;
    if (completion->begin) *completion->begin = begin;
    const struct qkv_ids prefix = {text->count - begin - 1, text->ids + begin + 1};
    const int64_t numbers = completion->number << 24 | number, most = length - begin - 1;
    const struct qkv_search_options options = {
        .beam_size = 1,
        .n_best = 1,
        .max_output_length = most < positions - 1 ? most : positions - 1,
        .skip_scores = true,
        .sampling = completion->sampling,
        .prefixes = &prefix,
        .numbers = &numbers,
        .first = text->ids + begin,
        .runs_on = completion->runs_on,
        .token = add_token,
        .context = text,
    };
    struct qkv_batch batch = {0};
    struct qkv_batch_view view;
    struct qkv_translations translations = {0};
    enum qkv_status status = qkv_batch_make(&batch, 1, NULL, NULL, error);
    if (!status) {
        if (completion->masked) batch.target_masked = completion->masked + begin;
        qkv_batch_shard(&batch, 0, 1, &view);
        status = qkv_search(decoding, &view, &options, &translations, error);
    }
    *ended = status || !completion->runs_on;
    qkv_translations_release(&translations);
    qkv_batch_release(&batch);
    return status;
}

enum qkv_status qkv_complete(const struct qkv_completion *completion, struct qkv_ids prompt,
                             struct qkv_error *error)
{
    struct text text = {.completion = completion};
    struct qkv_decoding *decoding = completion->ensemble.count
                                        ? qkv_decoding_new_ensemble(completion->ensemble, error)
                                        : qkv_decoding_new(completion->model);
    int64_t length = 1 + prompt.length + completion->max_length, number = 0;
    enum qkv_status status = QKV_OK;
    bool ended = false;
    text.ids = malloc((size_t)length * sizeof *text.ids);
    if (!decoding || !text.ids) {
        status = qkv_no_memory(error);
    } else if (!completion->runs_on && prompt.length + 1 >= decoding->max_length) {
        status = qkv_error_set(error, "the text has %lld tokens, but the model has positions for %lld",
                               (long long)prompt.length, (long long)decoding->max_length - 2);
    } else {
        text.ids[text.count++] = completion->runs_on ? QKV_END : QKV_BEGIN;
        for (int64_t i = 0; i < prompt.length; i++) text.ids[text.count++] = prompt.ids[i];
    }
    int64_t window = completion->window;
    if (!status && window > decoding->max_length) window = decoding->max_length;
    while (!status && !ended && text.count < length)
        status = fill_window(&text, decoding, window, number++, length, &ended, error);
    qkv_decoding_free(decoding);
    free(text.ids);
    return status;
}
