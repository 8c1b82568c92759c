/* Sentence pairs, one by one, as text and as tokens: from a table, or from two line-aligned files. */
#include "data/corpus.h"

#include "config/path.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/prepared.h"
#include "data/unicode.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

/* ---- opening ---- */

/* Opens prefix.lang or prefix.lang.gz. */
static enum qkv_status open_side(struct qkv_lines *lines, const char *prefix, const char *lang,
                                 struct qkv_error *error)
{
    if (!lang) return qkv_error_set(error, "%s: data.src.lang and data.trg.lang must be set", prefix);
    size_t size = strlen(prefix) + strlen(lang) + sizeof "..gz";
    char *path = malloc(size);
    if (!path) return qkv_no_memory(error);
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
                                "prefix of two files it needs %s, which does not exist; a text without "
                                "translations needs a config with data.text",
                          prefix, path);
    } else if (missing) {
        result = qkv_error_set(
            error,
            "%s: there is no such file, and no %s or %s.gz (a data path is x.tsv, x.tsv.gz, or the common "
            "prefix of two files)",
            prefix, path, path);
    } else {
        if (!plain && zipped) strcat(path, ".gz");
        result = qkv_lines_open(lines, path, error);
    }
    free(path);
    return result;
}

/* Whether a path names a table, and not the common prefix of two files. */
static bool is_table(const char *path, bool any_name)
{
    struct stat status;
    return !strcmp(path, "-") || qkv_ends_in(path, ".tsv") || qkv_ends_in(path, ".tsv.gz") ||
           (any_name && !stat(path, &status) && !S_ISDIR(status.st_mode));
}

enum qkv_status qkv_pair_lines_open(struct qkv_pair_lines *pairs, const char *path,
                                    const char *const language[2], struct qkv_pair_lines_options options,
                                    struct qkv_error *error)
{
    *pairs = (struct qkv_pair_lines){.is_table = is_table(path, options.any_name),
                                     .third_column = options.third_column};
    if (qkv_is_prepared(path)) return qkv_prepared_refuse(path, error);
    if (pairs->is_table) return qkv_lines_open(&pairs->source, path, error);
    if (open_side(&pairs->source, path, language[0], error)) return QKV_INVALID;
    if (!open_side(&pairs->target, path, language[1], error)) return QKV_OK;
    qkv_lines_close(&pairs->source);
    return QKV_INVALID;
}

void qkv_pair_lines_close(struct qkv_pair_lines *pairs)
{
    qkv_lines_close(&pairs->source);
    if (!pairs->is_table) qkv_lines_close(&pairs->target);
}

/* ---- a line of a table ---- */

/* Splits the current line at its tab. */
static enum qkv_status split_at_tab(const struct qkv_pair_lines *pairs, struct qkv_pair_texts *texts,
                                    struct qkv_error *error)
{
    const struct qkv_lines *lines = &pairs->source;
    long long number = lines->number;
    char *tab = memchr(lines->line, '\t', lines->size), *end = lines->line + lines->size;
    if (!tab)
        return qkv_error_set(error, "%s:%lld:%zu: the line has no tab; a line is source<TAB>target",
                             lines->path, number, lines->size + 1);
    char *second = memchr(tab + 1, '\t', (size_t)(end - tab - 1));
    if (second && !pairs->third_column)
        return qkv_error_set(error,
                             "%s:%lld:%td: the line has a second tab; a line is source<TAB>target "
                             "(cut -f1,2 takes two columns)",
                             lines->path, number, second - lines->line + 1);
    if (second) end = second;
    *tab = *end = '\0';
    *texts = (struct qkv_pair_texts){lines->line, tab + 1};
    return QKV_OK;
}

/* ---- a line of each of two files ---- */

/* Reports that two files have different numbers of lines. The current line of the longer file is the first one without a
 * counterpart. Reads the longer file to its end to count its lines. */
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

static enum qkv_status next_of_both(struct qkv_pair_lines *pairs, bool *found, struct qkv_error *error)
{
    struct qkv_lines *source = &pairs->source, *target = &pairs->target;
    bool found_target;
    if (qkv_lines_next(source, found, error) || qkv_lines_next(target, &found_target, error))
        return QKV_INVALID;
    if ((!*found && qkv_lines_check_read(source, error)) ||
        (!found_target && qkv_lines_check_read(target, error)))
        return QKV_INVALID;
    if (*found && !found_target) return different_length(source, target->path, target->number, error);
    if (!*found && found_target) return different_length(target, source->path, source->number, error);
    return QKV_OK;
}

enum qkv_status qkv_pair_lines_next(struct qkv_pair_lines *pairs, struct qkv_pair_texts *texts, bool *found,
                                    struct qkv_error *error)
{
    const struct qkv_lines *source = &pairs->source, *target = &pairs->target;
    if (pairs->is_table ? qkv_lines_next(&pairs->source, found, error) : next_of_both(pairs, found, error))
        return QKV_INVALID;
    if (!*found) return qkv_lines_check_read(source, error);
    if (pairs->is_table) return split_at_tab(pairs, texts, error);
    *texts = (struct qkv_pair_texts){source->line, target->line};
    return QKV_OK;
}

/* ---- tokens ---- */

/* Whether a side of the current pair is empty or has only white space. */
static bool is_blank(const struct qkv_parallel_text *text, int side)
{
    for (const char *c = text->raw[side]; *c;) {
        int32_t point;
        c += qkv_point(c, &point);
        if (!qkv_is_space(point)) return false;
    }
    return true;
}

static enum qkv_status check_sides(const struct qkv_parallel_text *text, struct qkv_error *error)
{
    const struct qkv_lines *source = &text->pairs.source, *target = &text->pairs.target;
    long long number = source->number;
    bool blank_source = is_blank(text, 0);
    if (!blank_source && !is_blank(text, 1)) return QKV_OK;
    if (!text->pairs.is_table)
        return qkv_error_set(error, "%s:%lld:1: the line is empty",
                             blank_source ? source->path : target->path, number);
    if (blank_source)
        return qkv_error_set(error, "%s:%lld:1: the source side is empty", source->path, number);
    return qkv_error_set(error, "%s:%lld:%zu: the target side is empty", source->path, number,
                         text->size[0] + 2);
}

/* ---- a text without pairs ---- */

static bool has_pairs(const struct qkv_parallel_text *text)
{
    return text->data->text == QKV_TEXT_PAIRS;
}

/* Reads the next line of all files as the target of a pair. A blank one, with which no paragraph goes on, is between two
 * files of paragraphs. */
static enum qkv_status read_line(struct qkv_parallel_text *text, bool *found, struct qkv_error *error)
{
    struct qkv_lines *lines = &text->pairs.source;
    *found = false;
    text->raw[1] = "", text->size[1] = 0;
    while (!*found) {
        if (lines->path && qkv_lines_next(lines, found, error)) return QKV_INVALID;
        if (*found) text->raw[1] = lines->line, text->size[1] = lines->size;
        if (*found || text->opened == text->files) break;
        *found = lines->path && text->data->text == QKV_TEXT_PARAGRAPHS;
        qkv_lines_close(lines);
        if (qkv_lines_open(lines, text->file[text->opened++], error)) return QKV_INVALID;
    }
    return QKV_OK;
}

/* Finds the files of the text. If only a part is wanted, reads them once to count their bytes. */
static enum qkv_status open_text(struct qkv_parallel_text *text, struct qkv_error *error)
{
    text->pairs.is_table = true; /* one file at a time */
    text->train_bytes = INT64_MAX;
    if (qkv_is_prepared(text->path)) return qkv_prepared_refuse(text->path, error);
    text->file = qkv_path_files(&text->arena, text->path, &text->files);
    if (!text->file) return qkv_no_memory(error);
    if (!text->files) return qkv_error_set(error, "%s: the folder has no files", text->path);
    if (text->options.part == QKV_PART_ALL) return QKV_OK;
    if (!strcmp(text->path, "-"))
        return qkv_error_set(error, "<stdin>: cannot be read twice, as data.dev_share needs: name a file");
    int64_t bytes = 0;
    enum qkv_status status;
    bool found;
    while (!(status = read_line(text, &found, error)) && found) bytes += (int64_t)text->size[1] + 1;
    text->train_bytes = (int64_t)ceil((1 - text->data->dev_share) * (double)bytes);
    qkv_lines_close(&text->pairs.source);
    text->opened = 0;
    return status;
}

/* Reads the next line of the wanted part as the target of a pair. A paragraph belongs to the part in which it begins. */
static enum qkv_status next_line(struct qkv_parallel_text *text, bool *found, struct qkv_error *error)
{
    bool has_paragraphs = text->data->text == QKV_TEXT_PARAGRAPHS;
    do {
        if (read_line(text, found, error)) return QKV_INVALID;
        if (!text->is_in_paragraph) text->is_dev = text->bytes >= text->train_bytes;
        text->is_in_paragraph = has_paragraphs && !is_blank(text, 1);
        text->bytes += (int64_t)text->size[1] + 1;
    } while (*found && text->options.part == QKV_PART_DEV && !text->is_dev);
    if (text->is_dev && text->options.part == QKV_PART_TRAIN) {
        *found = false;
        text->raw[1] = "", text->size[1] = 0;
    }
    return QKV_OK;
}

/* Adds the current line to the paragraph, after a space. */
static bool add_to_paragraph(struct qkv_parallel_text *text, size_t *size)
{
    if (!QKV_RESERVE(text->paragraph, text->paragraph_capacity, (int64_t)(*size + text->size[1] + 2)))
        return false;
    if (*size) text->paragraph[(*size)++] = ' ';
    memcpy(text->paragraph + *size, text->raw[1], text->size[1] + 1);
    *size += text->size[1];
    return true;
}

/* Reads the next text, as the target of a pair: a line, of running text also a blank one, or a paragraph. */
static enum qkv_status next_text(struct qkv_parallel_text *text, bool *found, struct qkv_error *error)
{
    const enum qkv_text_form form = text->data->text;
    size_t size = 0;
    text->raw[0] = "", text->size[0] = 0;
    for (;;) {
        if (next_line(text, found, error)) return QKV_INVALID;
        bool is_done = !*found || form == QKV_TEXT_RUNNING, is_empty = is_blank(text, 1);
        if (is_done || (form == QKV_TEXT_LINES && !is_empty)) break;
        if (is_empty && size) break;
        if (!is_empty && !add_to_paragraph(text, &size)) return qkv_no_memory(error);
    }
    if (!size) return QKV_OK;
    text->raw[1] = text->paragraph, text->size[1] = size;
    *found = true;
    return QKV_OK;
}

/* Reads the next pair as text. */
static enum qkv_status next_pair(struct qkv_parallel_text *text, bool *found, struct qkv_error *error)
{
    struct qkv_pair_texts texts;
    if (!has_pairs(text)) return next_text(text, found, error);
    if (qkv_pair_lines_next(&text->pairs, &texts, found, error)) return QKV_INVALID;
    if (!*found) return QKV_OK;
    text->raw[0] = texts.source, text->size[0] = strlen(texts.source);
    text->raw[1] = texts.target, text->size[1] = strlen(texts.target);
    return check_sides(text, error);
}

/* Fails when nothing is left of a text. */
static enum qkv_status check_text_end(const struct qkv_parallel_text *text, struct qkv_error *error)
{
    if (text->kept) return QKV_OK;
    if (text->read)
        return qkv_error_set(error,
                             "%s: each of its %lld texts is longer than data.trg.max_length (%lld) tokens",
                             text->path, (long long)text->read, (long long)text->config[1]->max_length);
    if (text->options.part != QKV_PART_ALL)
        return qkv_error_set(error, "%s: data.dev_share, %g, leaves no line for %s", text->path,
                             text->data->dev_share,
                             text->options.part == QKV_PART_DEV ? "validation" : "training");
    return qkv_error_set(error, "%s: the file has no text", text->path);
}

static enum qkv_status check_end(const struct qkv_parallel_text *text, struct qkv_error *error)
{
    if (!has_pairs(text)) return check_text_end(text, error);
    if (text->kept) return QKV_OK;
    return qkv_error_set(error,
                         "%s: each of its %lld pairs is longer than data.src.max_length (%lld) or "
                         "data.trg.max_length (%lld) tokens",
                         text->path, (long long)text->read, (long long)text->config[0]->max_length,
                         (long long)text->config[1]->max_length);
}

enum qkv_status qkv_parallel_text_next(struct qkv_parallel_text *text, bool *found, struct qkv_error *error)
{
    struct qkv_pair_lines *pairs = &text->pairs;
    struct qkv_pair_lines_options options = {.third_column = text->options.third_column};
    const char *const language[2] = {text->config[0]->lang, text->config[1]->lang};
    if (!pairs->source.path &&
        (has_pairs(text) ? qkv_pair_lines_open(pairs, text->path, language, options, error)
                         : open_text(text, error)))
        return QKV_INVALID;
    for (bool is_long = true; is_long;) {
        if (qkv_check_interrupt(error) || next_pair(text, found, error)) return QKV_INVALID;
        if (!*found) return check_end(text, error);
        text->read++;
        is_long = false;
        for (int side = 0; side < 2; side++) {
            struct qkv_tokens *tokens = &text->tokens[side];
            /* The lines are valid text, so only memory can be missing. */
            if (qkv_tokenize(tokens, text->config[side], text->raw[side], text->size[side], NULL))
                return qkv_no_memory(error);
            if (!text->options.drop_long || text->data->text == QKV_TEXT_RUNNING ||
                tokens->count <= text->config[side]->max_length)
                continue;
            text->long_one[side]++;
            is_long = true;
        }
    }
    text->kept++;
    return QKV_OK;
}

void qkv_parallel_text_release(struct qkv_parallel_text *text)
{
    qkv_pair_lines_close(&text->pairs);
    for (int side = 0; side < 2; side++) qkv_tokens_release(&text->tokens[side]);
    free(text->paragraph);
    qkv_arena_release(&text->arena);
}
