#include "qkv/corpus.h"

#include "config/path.h"
#include "core/grow.h"
#include "data/bpe_dropout.h"
#include "data/unicode.h"
#include "qkv/random.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* The sentence of one side of the current pair. */
struct sentence {
    const struct qkv_text_config *text;
    struct qkv_tokens tokens;
    const char *raw; /* the line, or its part before or after the tab */
    size_t size;     /* bytes of `raw`, without the NUL */
};

struct reading {
    struct qkv_corpus *corpus;
    struct qkv_corpus_options options;
    struct sentence source, target;
};

static enum qkv_status no_memory(const char *path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: out of memory", path);
}

/* ---- adding a pair ---- */

static bool add_sentence(struct qkv_corpus_side *side, int64_t index, const struct sentence *sentence)
{
    int64_t begin = side->start[index], count = sentence->tokens.count;
    if (!QKV_RESERVE(side->start, side->start_capacity, index + 2)) return false;
    if (!QKV_RESERVE(side->ids, side->ids_capacity, begin + count)) return false;
    for (int64_t i = 0; i < count; i++)
        if ((side->ids[begin + i] = qkv_types_add(&side->types, sentence->tokens.token[i], 1)) < 0)
            return false;
    side->start[index + 1] = begin + count;
    if (count > side->longest) side->longest = count;
    return true;
}

static bool add_raw(struct qkv_corpus_side *side, int64_t index, const struct sentence *sentence)
{
    int64_t begin = side->raw_start[index], end = begin + (int64_t)sentence->size + 1;
    if (!QKV_RESERVE(side->raw_start, side->raw_start_capacity, index + 2)) return false;
    if (!QKV_RESERVE(side->raw, side->raw_capacity, end)) return false;
    memcpy(side->raw + begin, sentence->raw, sentence->size + 1);
    side->raw_start[index + 1] = end;
    return true;
}

/* Adds the words of a side with BPE dropout. */
static bool add_words(const struct qkv_corpus_side *side, int64_t index, const struct sentence *sentence)
{
    return !side->dropout || qkv_bpe_dropout_add(side->dropout, index, sentence->raw, sentence->size);
}

/* Tokenises the raw text of both sides and adds the pair, unless it is too long and drop_long is
 * set. */
static enum qkv_status add_pair(struct reading *reading, int64_t line, const char *path,
                                struct qkv_error *error)
{
    struct qkv_corpus *corpus = reading->corpus;
    struct sentence *source = &reading->source, *target = &reading->target;
    /* The lines are valid text, so only memory can be missing. */
    if (qkv_tokenize(&source->tokens, source->text, source->raw, source->size, NULL) ||
        qkv_tokenize(&target->tokens, target->text, target->raw, target->size, NULL))
        return no_memory(path, error);
    corpus->read++;
    bool long_source = source->tokens.count > source->text->max_length;
    bool long_target = target->tokens.count > target->text->max_length;
    if (reading->options.drop_long && (long_source || long_target)) {
        corpus->long_sources += long_source;
        corpus->long_targets += long_target;
        return QKV_OK;
    }
    int64_t index = corpus->count;
    if (!QKV_RESERVE(corpus->line, corpus->line_capacity, index + 1) ||
        !add_sentence(&corpus->source, index, source) || !add_sentence(&corpus->target, index, target))
        return no_memory(path, error);
    if (reading->options.keep_raw &&
        (!add_raw(&corpus->source, index, source) || !add_raw(&corpus->target, index, target)))
        return no_memory(path, error);
    if (!add_words(&corpus->source, index, source) || !add_words(&corpus->target, index, target))
        return no_memory(path, error);
    corpus->line[index] = line;
    corpus->count++;
    return QKV_OK;
}

/* True of a side that is empty or white space. */
static bool is_blank(const struct sentence *sentence)
{
    for (const char *c = sentence->raw, *end = c + sentence->size; c < end;) {
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

static enum qkv_status split_at_tab(struct reading *reading, const struct qkv_lines *lines,
                                    struct qkv_error *error)
{
    struct qkv_pair_texts texts;
    if (qkv_pair_split(lines, reading->options.third_column, &texts, error)) return QKV_INVALID;
    reading->source.raw = texts.source;
    reading->source.size = texts.source_size;
    reading->target.raw = texts.target;
    reading->target.size = texts.target_size;
    if (is_blank(&reading->source))
        return qkv_error_set(error, "%s:%lld:1: the source side is empty", lines->path,
                             (long long)lines->number);
    if (is_blank(&reading->target))
        return qkv_error_set(error, "%s:%lld:%zu: the target side is empty", lines->path,
                             (long long)lines->number, texts.source_size + 2);
    return QKV_OK;
}

static enum qkv_status read_table(struct reading *reading, const char *path, struct qkv_error *error)
{
    struct qkv_lines lines;
    if (qkv_lines_open(&lines, path, error)) return QKV_INVALID;
    bool found;
    enum qkv_status status;
    while (!(status = qkv_lines_next(&lines, &found, error)) && found) {
        if ((status = split_at_tab(reading, &lines, error))) break;
        if ((status = add_pair(reading, lines.number, path, error))) break;
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
    if (!path) return no_memory(prefix, error);
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

static enum qkv_status set_sentence(struct sentence *sentence, const struct qkv_lines *lines,
                                    struct qkv_error *error)
{
    sentence->raw = lines->line;
    sentence->size = lines->size;
    if (!is_blank(sentence)) return QKV_OK;
    return qkv_error_set(error, "%s:%lld:1: the line is empty", lines->path, (long long)lines->number);
}

static enum qkv_status read_both(struct reading *reading, struct qkv_lines *source, struct qkv_lines *target,
                                 struct qkv_error *error)
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
        if (set_sentence(&reading->source, source, error) || set_sentence(&reading->target, target, error) ||
            add_pair(reading, source->number, source->path, error))
            return QKV_INVALID;
    }
}

static enum qkv_status read_pair_of_files(struct reading *reading, const char *prefix,
                                          struct qkv_error *error)
{
    struct qkv_lines source, target;
    if (open_side(&source, prefix, reading->source.text->lang, error)) return QKV_INVALID;
    enum qkv_status status = open_side(&target, prefix, reading->target.text->lang, error);
    if (!status) {
        status = read_both(reading, &source, &target, error);
        qkv_lines_close(&target);
    }
    qkv_lines_close(&source);
    return status;
}

/* ---- public functions ---- */

static bool ends_in(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && !strcmp(text + size - end_size, end);
}

/* The offsets of an empty side. */
static bool begin_side(struct qkv_corpus_side *side, const struct qkv_text_config *text,
                       struct qkv_corpus_options options)
{
    if (!QKV_RESERVE(side->start, side->start_capacity, 1)) return false;
    side->start[0] = 0;
    bool drops =
        options.bpe_dropout && options.drop_long && text->level == QKV_LEVEL_BPE && text->bpe_dropout > 0;
    if (drops && !(side->dropout = qkv_bpe_dropout_new(text))) return false;
    if (!options.keep_raw) return true;
    if (!QKV_RESERVE(side->raw_start, side->raw_start_capacity, 1)) return false;
    side->raw_start[0] = 0;
    return true;
}

static bool end_side(struct qkv_corpus_side *side)
{
    return !side->dropout || qkv_bpe_dropout_add_types(side->dropout, &side->types);
}

enum qkv_status qkv_corpus_read(struct qkv_corpus *corpus, const char *path,
                                const struct qkv_data_config *data, struct qkv_corpus_options options,
                                struct qkv_error *error)
{
    *corpus = (struct qkv_corpus){0};
    struct reading reading = {
        .corpus = corpus,
        .options = options,
        .source = {.text = &data->src},
        .target = {.text = &data->trg},
    };
    enum qkv_status status;
    bool no_merges = (data->src.level == QKV_LEVEL_BPE && !data->src.bpe) ||
                     (data->trg.level == QKV_LEVEL_BPE && !data->trg.bpe);
    if (no_merges)
        status =
            qkv_error_set(error, "%s: level bpe needs merges; qkv_corpus_merges learns or reads them", path);
    else if (options.key && !qkv_path_is_text(path))
        status = qkv_error_set(error, "%s: there is no such text: set %s to its path", path, options.key);
    else if (!begin_side(&corpus->source, &data->src, options) ||
             !begin_side(&corpus->target, &data->trg, options))
        status = no_memory(path, error);
    else if (!strcmp(path, "-") || ends_in(path, ".tsv") || ends_in(path, ".tsv.gz"))
        status = read_table(&reading, path, error);
    else
        status = read_pair_of_files(&reading, path, error);
    if (!status && !corpus->count)
        status = qkv_error_set(error,
                               "%s: each of its %lld pairs is longer than data.src.max_length (%lld) or "
                               "data.trg.max_length (%lld) tokens",
                               path, (long long)corpus->read, (long long)data->src.max_length,
                               (long long)data->trg.max_length);
    if (!status && (!end_side(&corpus->source) || !end_side(&corpus->target)))
        status = no_memory(path, error);
    qkv_tokens_release(&reading.source.tokens);
    qkv_tokens_release(&reading.target.tokens);
    if (status) qkv_corpus_release(corpus);
    return status;
}

enum qkv_status qkv_corpus_vocabularies(const struct qkv_corpus *corpus, const struct qkv_data_config *data,
                                        struct qkv_vocabulary *source, struct qkv_vocabulary *target,
                                        struct qkv_error *error)
{
    if (corpus->encoded) return qkv_error_set(error, "vocabularies are built before a corpus is encoded");
    const struct qkv_types *const texts[2] = {&corpus->source.types, &corpus->target.types};
    const struct qkv_text_config *src = &data->src, *trg = &data->trg;
    bool joint = data->joint_vocabulary;
    if (joint && (src->voc_limit != trg->voc_limit || src->voc_min_freq != trg->voc_min_freq))
        return qkv_error_set(
            error,
            "data.joint_vocabulary is one vocabulary, so data.src and data.trg must agree on voc_limit "
            "(%lld, %lld) and voc_min_freq (%lld, %lld)",
            (long long)src->voc_limit, (long long)trg->voc_limit, (long long)src->voc_min_freq,
            (long long)trg->voc_min_freq);
    if (qkv_vocabulary_build(source, joint ? 2 : 1, texts, src->voc_limit, src->voc_min_freq, error))
        return QKV_INVALID;
    if (!qkv_vocabulary_build(target, joint ? 2 : 1, joint ? texts : texts + 1, trg->voc_limit,
                              trg->voc_min_freq, error))
        return QKV_OK;
    qkv_vocabulary_release(source);
    return QKV_INVALID;
}

/* Replaces in side->ids the number of each type by its id in the vocabulary. Looks up each type only once. */
static bool encode_side(struct qkv_corpus_side *side, int64_t count, const struct qkv_vocabulary *vocabulary)
{
    int32_t *ids = malloc(((size_t)side->types.size + 1) * sizeof *ids);
    if (!ids) return false;
    for (int64_t type = 0; type < side->types.size; type++)
        ids[type] = qkv_vocabulary_id(vocabulary, qkv_types_token(&side->types, type));
    for (int64_t i = 0; count && i < side->start[count]; i++) {
        side->ids[i] = ids[side->ids[i]];
        side->unknown += side->ids[i] == QKV_UNKNOWN;
    }
    free(ids);
    qkv_types_release(&side->types);
    return !side->dropout || qkv_bpe_dropout_encode(side->dropout, side, count, vocabulary);
}

/* Checksum of ids as little-endian numbers, with -1 after each sentence. */
static uLong side_checksum(const struct qkv_corpus_side *side, int64_t count, uLong sum)
{
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = side->start[i]; k <= side->start[i + 1]; k++) {
            uint32_t id = k < side->start[i + 1] ? (uint32_t)side->ids[k] : UINT32_MAX;
            const Bytef bytes[4] = {(Bytef)id, (Bytef)(id >> 8), (Bytef)(id >> 16), (Bytef)(id >> 24)};
            sum = crc32_z(sum, bytes, sizeof bytes);
        }
    }
    return side->raw_start ? crc32_z(sum, (const Bytef *)side->raw, (z_size_t)side->raw_start[count]) : sum;
}

enum qkv_status qkv_corpus_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                  const struct qkv_vocabulary *target, struct qkv_error *error)
{
    if (corpus->encoded) return qkv_error_set(error, "the corpus is encoded already");
    if (!encode_side(&corpus->source, corpus->count, source) ||
        !encode_side(&corpus->target, corpus->count, target)) {
        qkv_corpus_release(corpus); /* one side may hold ids already, the other not */
        return qkv_error_set(error, "out of memory");
    }
    corpus->encoded = true;
    uLong sum = side_checksum(&corpus->source, corpus->count, crc32_z(0, NULL, 0));
    corpus->checksum = (uint32_t)side_checksum(&corpus->target, corpus->count, sum);
    return QKV_OK;
}

static void draw_side(struct qkv_corpus_side *side, int64_t count, uint64_t seed, uint32_t number,
                      int64_t epoch)
{
    struct qkv_random random = {seed, QKV_STREAM_PIECES | number << 8, (uint32_t)epoch};
    if (side->dropout) qkv_bpe_dropout_draw(side->dropout, side, count, random);
}

void qkv_corpus_draw(struct qkv_corpus *corpus, uint64_t seed, int64_t epoch)
{
    if (!corpus->encoded) return;
    draw_side(&corpus->source, corpus->count, seed, 0, epoch);
    draw_side(&corpus->target, corpus->count, seed, 1, epoch);
}

static const char *raw_line(const struct qkv_corpus *corpus, const struct qkv_corpus_side *side, int64_t i)
{
    return side->raw_start && i >= 0 && i < corpus->count ? side->raw + side->raw_start[i] : NULL;
}

const char *qkv_corpus_source(const struct qkv_corpus *corpus, int64_t i)
{
    return raw_line(corpus, &corpus->source, i);
}

const char *qkv_corpus_target(const struct qkv_corpus *corpus, int64_t i)
{
    return raw_line(corpus, &corpus->target, i);
}

uint32_t qkv_corpus_checksum(const struct qkv_corpus *corpus)
{
    return corpus->encoded ? corpus->checksum : 0;
}

static void release_side(struct qkv_corpus_side *side)
{
    free(side->start);
    free(side->ids);
    free(side->raw);
    free(side->raw_start);
    qkv_bpe_dropout_free(side->dropout);
    qkv_types_release(&side->types);
}

void qkv_corpus_release(struct qkv_corpus *corpus)
{
    release_side(&corpus->source);
    release_side(&corpus->target);
    free(corpus->line);
    *corpus = (struct qkv_corpus){0};
}
