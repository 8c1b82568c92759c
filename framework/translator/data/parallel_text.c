#include "data/parallel_text.h"

#include "data/unicode.h"

/* Tokenises both sides and passes the pair on, unless it is too long and drop_long is set. */
static enum qkv_status add_pair(struct qkv_parallel_text *text, int64_t line, struct qkv_error *error)
{
    struct qkv_pair_side *source = &text->source, *target = &text->target;
    /* The lines are valid text, so only memory can be missing. */
    if (qkv_tokenize(&source->tokens, source->text, source->raw, source->size, NULL) ||
        qkv_tokenize(&target->tokens, target->text, target->raw, target->size, NULL))
        return qkv_error_set(error, "%s: out of memory", text->path);
    text->read++;
    text->line = line;
    bool long_source = source->tokens.count > source->text->max_length;
    bool long_target = target->tokens.count > target->text->max_length;
    if (text->options.drop_long && (long_source || long_target)) {
        text->long_sources += long_source;
        text->long_targets += long_target;
        return QKV_OK;
    }
    text->kept++;
    return text->add(text, error);
}

/* Whether a side is empty or has only white space. */
static bool is_blank(const struct qkv_pair_side *side)
{
    for (const char *c = side->raw, *end = c + side->size; c < end;) {
        int32_t point;
        c += qkv_point(c, &point);
        if (!qkv_is_space(point)) return false;
    }
    return true;
}

/* ---- reading ---- */

static enum qkv_status check_sides(const struct qkv_parallel_text *text, const struct qkv_pair_lines *pairs,
                                   struct qkv_error *error)
{
    const struct qkv_lines *source = &pairs->source, *target = &pairs->target;
    long long number = source->number;
    bool blank_source = is_blank(&text->source);
    if (!blank_source && !is_blank(&text->target)) return QKV_OK;
    if (!pairs->is_table)
        return qkv_error_set(error, "%s:%lld:1: the line is empty",
                             blank_source ? source->path : target->path, number);
    if (blank_source)
        return qkv_error_set(error, "%s:%lld:1: the source side is empty", source->path, number);
    return qkv_error_set(error, "%s:%lld:%zu: the target side is empty", source->path, number,
                         text->source.size + 2);
}

static enum qkv_status read_pairs(struct qkv_parallel_text *text, struct qkv_pair_lines *pairs,
                                  struct qkv_error *error)
{
    struct qkv_pair_texts texts;
    bool found;
    enum qkv_status status;
    while (!(status = qkv_pair_lines_next(pairs, &texts, &found, error)) && found) {
        text->source.raw = texts.source;
        text->source.size = texts.source_size;
        text->target.raw = texts.target;
        text->target.size = texts.target_size;
        if (check_sides(text, pairs, error) || add_pair(text, pairs->source.number, error))
            return QKV_INVALID;
    }
    return status;
}

enum qkv_status qkv_parallel_text_read(struct qkv_parallel_text *text, struct qkv_error *error)
{
    struct qkv_pair_lines_options options = {.third_column = text->options.third_column};
    const char *const language[2] = {text->source.text->lang, text->target.text->lang};
    struct qkv_pair_lines pairs;
    if (qkv_pair_lines_open(&pairs, text->path, language, options, error)) return QKV_INVALID;
    enum qkv_status status = read_pairs(text, &pairs, error);
    qkv_pair_lines_close(&pairs);
    if (status || text->kept) return status;
    return qkv_error_set(error,
                         "%s: each of its %lld pairs is longer than data.src.max_length (%lld) or "
                         "data.trg.max_length (%lld) tokens",
                         text->path, (long long)text->read, (long long)text->source.text->max_length,
                         (long long)text->target.text->max_length);
}

void qkv_parallel_text_release(struct qkv_parallel_text *text)
{
    qkv_tokens_release(&text->source.tokens);
    qkv_tokens_release(&text->target.tokens);
}
