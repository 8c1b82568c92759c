#include "data/parallel_text.h"

#include "data/unicode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* True of a side that is empty or white space. */
static bool is_blank(const struct qkv_pair_side *side)
{
    for (const char *c = side->raw, *end = c + side->size; c < end;) {
        int32_t point;
        c += qkv_point(c, &point);
        if (!qkv_is_space(point)) return false;
    }
    return true;
}

/* ---- x.tsv, x.tsv.gz ---- */

enum qkv_status qkv_pair_split(const struct qkv_lines *lines, bool third_column, struct qkv_pair_texts *texts,
                               struct qkv_error *error)
{
    const char *path = lines->path;
    long long number = lines->number;
    char *tab = memchr(lines->line, '\t', lines->size), *end = lines->line + lines->size;
    if (!tab)
        return qkv_error_set(error, "%s:%lld:%zu: the line has no tab; a line is source<TAB>target", path,
                             number, lines->size + 1);
    char *second = memchr(tab + 1, '\t', (size_t)(end - tab - 1));
    if (second && !third_column)
        return qkv_error_set(error, "%s:%lld:%td: the line has a second tab; a line is source<TAB>target",
                             path, number, second - lines->line + 1);
    if (second) end = second;
    *tab = *end = '\0';
    *texts =
        (struct qkv_pair_texts){lines->line, tab + 1, (size_t)(tab - lines->line), (size_t)(end - tab - 1)};
    return QKV_OK;
}

static enum qkv_status split_at_tab(struct qkv_parallel_text *text, const struct qkv_lines *lines,
                                    struct qkv_error *error)
{
    struct qkv_pair_texts texts;
    if (qkv_pair_split(lines, text->options.third_column, &texts, error)) return QKV_INVALID;
    text->source.raw = texts.source;
    text->source.size = texts.source_size;
    text->target.raw = texts.target;
    text->target.size = texts.target_size;
    if (is_blank(&text->source))
        return qkv_error_set(error, "%s:%lld:1: the source side is empty", lines->path,
                             (long long)lines->number);
    if (is_blank(&text->target))
        return qkv_error_set(error, "%s:%lld:%zu: the target side is empty", lines->path,
                             (long long)lines->number, texts.source_size + 2);
    return QKV_OK;
}

static enum qkv_status read_table(struct qkv_parallel_text *text, struct qkv_error *error)
{
    struct qkv_lines lines;
    if (qkv_lines_open(&lines, text->path, error)) return QKV_INVALID;
    bool found;
    enum qkv_status status;
    while (!(status = qkv_lines_next(&lines, &found, error)) && found) {
        if ((status = split_at_tab(text, &lines, error))) break;
        if ((status = add_pair(text, lines.number, error))) break;
    }
    if (!status) status = qkv_lines_check_read(&lines, error);
    qkv_lines_close(&lines);
    return status;
}

/* ---- two line-aligned files ---- */

/* Opens prefix.lang or prefix.lang.gz. */
static enum qkv_status open_side(struct qkv_lines *lines, const char *prefix, const char *lang,
                                 struct qkv_error *error)
{
    if (!lang) return qkv_error_set(error, "%s: data.src.lang and data.trg.lang must be set", prefix);
    size_t size = strlen(prefix) + strlen(lang) + sizeof "..gz";
    char *path = malloc(size);
    if (!path) return qkv_error_set(error, "%s: out of memory", prefix);
    struct stat status;
    enum qkv_status result;
    snprintf(path, size, "%s.%s.gz", prefix, lang);
    bool zipped = !stat(path, &status);
    path[size - sizeof ".gz"] = '\0';
    bool plain = !stat(path, &status), missing = !plain && errno == ENOENT && !zipped;
    if (missing && !stat(prefix, &status)) {
        result =
            qkv_error_set(error,
                          S_ISDIR(status.st_mode)
                              ? "%s: cannot be read: it is a folder"
                              : "%s: the name of a file of pairs must end in .tsv or .tsv.gz; as the common "
                                "prefix of two files it needs %s, which does not exist",
                          prefix, path);
    } else if (missing) {
        result = qkv_error_set(
            error,
            "%s: there is no such file, and no %s.gz (a data path is x.tsv, x.tsv.gz, or the common "
            "prefix of two files)",
            path, path);
    } else {
        if (!plain && zipped) strcat(path, ".gz");
        result = qkv_lines_open(lines, path, error);
    }
    free(path);
    return result;
}

/* Reports that two files have different lengths. The current line of the longer file is the first that the shorter file
 * does not have. Reads the longer one to its end to count its lines. */
static enum qkv_status different_length(struct qkv_lines *longer, const char *shorter, int64_t shorter_count,
                                        struct qkv_error *error)
{
    int64_t first = longer->number;
    bool found = true;
    while (found)
        if (qkv_lines_next(longer, &found, error)) return QKV_INVALID;
    return qkv_error_set(error, "%s:%lld:1: the line has no counterpart: %s has %lld lines, but %s has %lld",
                         longer->path, (long long)first, longer->path, (long long)longer->number, shorter,
                         (long long)shorter_count);
}

static enum qkv_status set_side(struct qkv_pair_side *side, const struct qkv_lines *lines,
                                struct qkv_error *error)
{
    side->raw = lines->line;
    side->size = lines->size;
    if (!is_blank(side)) return QKV_OK;
    return qkv_error_set(error, "%s:%lld:1: the line is empty", lines->path, (long long)lines->number);
}

static enum qkv_status read_both(struct qkv_parallel_text *text, struct qkv_lines *source,
                                 struct qkv_lines *target, struct qkv_error *error)
{
    for (;;) {
        bool found_source, found_target;
        if (qkv_lines_next(source, &found_source, error) || qkv_lines_next(target, &found_target, error))
            return QKV_INVALID;
        if ((!found_source && qkv_lines_check_read(source, error)) ||
            (!found_target && qkv_lines_check_read(target, error)))
            return QKV_INVALID;
        if (!found_source && !found_target) return QKV_OK;
        if (!found_target) return different_length(source, target->path, target->number, error);
        if (!found_source) return different_length(target, source->path, source->number, error);
        if (set_side(&text->source, source, error) || set_side(&text->target, target, error) ||
            add_pair(text, source->number, error))
            return QKV_INVALID;
    }
}

static enum qkv_status read_pair_of_files(struct qkv_parallel_text *text, struct qkv_error *error)
{
    struct qkv_lines source, target;
    if (open_side(&source, text->path, text->source.text->lang, error)) return QKV_INVALID;
    enum qkv_status status = open_side(&target, text->path, text->target.text->lang, error);
    if (!status) {
        status = read_both(text, &source, &target, error);
        qkv_lines_close(&target);
    }
    qkv_lines_close(&source);
    return status;
}

/* ---- reading ---- */

static bool ends_in(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && !strcmp(text + size - end_size, end);
}

enum qkv_status qkv_parallel_text_read(struct qkv_parallel_text *text, struct qkv_error *error)
{
    const char *path = text->path;
    bool is_table = !strcmp(path, "-") || ends_in(path, ".tsv") || ends_in(path, ".tsv.gz");
    if (is_table ? read_table(text, error) : read_pair_of_files(text, error)) return QKV_INVALID;
    if (text->kept) return QKV_OK;
    return qkv_error_set(error,
                         "%s: each of its %lld pairs is longer than data.src.max_length (%lld) or "
                         "data.trg.max_length (%lld) tokens",
                         path, (long long)text->read, (long long)text->source.text->max_length,
                         (long long)text->target.text->max_length);
}

void qkv_parallel_text_release(struct qkv_parallel_text *text)
{
    qkv_tokens_release(&text->source.tokens);
    qkv_tokens_release(&text->target.tokens);
}
