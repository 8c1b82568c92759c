/* Parallel text as ids: a whole corpus in memory. */
#include "data/corpus.h"

#include "config/path.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/prepared.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <zlib.h>

/* ---- reading ---- */

/* Adds the tokens of a sentence to a side, and what the options keep of it. False when there is no memory. */
static bool add_sentence(struct qkv_corpus_side *side, int64_t index, const struct qkv_tokens *tokens,
                         const char *raw, size_t size, const struct qkv_corpus_options *options)
{
    int64_t count = tokens->count, begin = index ? side->start[index] : 0;
    if (!QKV_RESERVE(side->start, side->start_capacity, index + 2) ||
        !QKV_RESERVE(side->ids, side->ids_capacity, begin + count))
        return false;
    side->start[index] = begin;
    side->start[index + 1] = begin + count;
    if (!qkv_tokens_count(tokens, &side->types, side->ids + begin)) return false;
    if (options->keep_words) {
        if (!QKV_RESERVE(side->word, side->word_capacity, begin + count)) return false;
        for (int64_t i = 0; i < count; i++) side->word[begin + i] = (int32_t)tokens->word[i];
    }
    if (options->keep_raw) {
        int64_t first = index ? side->raw_start[index] : 0, end = first + (int64_t)size + 1;
        if (!QKV_RESERVE(side->raw_start, side->raw_start_capacity, index + 2) ||
            !QKV_RESERVE(side->raw, side->raw_capacity, end))
            return false;
        memcpy(side->raw + first, raw, size + 1);
        side->raw_start[index] = first;
        side->raw_start[index + 1] = end;
    }
    return !side->dropout || qkv_bpe_dropout_add(side->dropout, index, raw, size);
}

/* The type of a line end of running text, until the corpus is encoded. */
enum { LINE_END = -1 };

/* Adds a line of running text, and its end. False when there is no memory. */
static bool add_line(struct qkv_corpus *corpus, const struct qkv_tokens *tokens)
{
    struct qkv_corpus_side *side = &corpus->target;
    if (!QKV_RESERVE(side->start, side->start_capacity, 2)) return false;
    int64_t used = corpus->count ? side->start[1] : 0, count = tokens->count;
    if (!QKV_RESERVE(side->ids, side->ids_capacity, used + count + 2)) return false;
    if (!used) side->ids[used++] = LINE_END;
    if (!qkv_tokens_count(tokens, &side->types, side->ids + used)) return false;
    used += count;
    side->ids[used++] = LINE_END;
    side->start[0] = 0;
    side->start[1] = used;
    corpus->count = 1;
    return true;
}

/* Makes windows of running text, from `first` tokens after its beginning: all of it, or as many complete ones as any first
 * below `context` leaves. The arrays have room for the former. */
static void make_windows(struct qkv_corpus *corpus, int64_t tokens, int64_t first, bool is_all)
{
    int64_t length = corpus->context, *start = corpus->target.start;
    int64_t count = is_all ? (tokens + length - 1) / length : (tokens - length + 1) / length;
    for (int64_t i = 0; i <= count; i++) start[i] = 1 + first + i * length;
    if (is_all) start[count] = 1 + tokens;
    corpus->count = count;
}

/* Divides encoded running text into windows. */
static bool divide(struct qkv_corpus *corpus)
{
    struct qkv_corpus_side *source = &corpus->source, *target = &corpus->target;
    int64_t tokens = target->start[1] - 1, count = (tokens + corpus->context - 1) / corpus->context;
    if (!QKV_RESERVE(target->start, target->start_capacity, count + 1) ||
        !QKV_RESERVE(source->start, source->start_capacity, count + 1))
        return false;
    memset(source->start, 0, (size_t)(count + 1) * sizeof *source->start);
    corpus->tokens = tokens;
    make_windows(corpus, tokens, 0, true);
    target->longest = (tokens < corpus->context ? tokens : corpus->context) - 1;
    return true;
}

/* Counts the characters of a line, and its end. */
static void count_characters(struct qkv_corpus *corpus, const struct qkv_parallel_text *text)
{
    corpus->characters++;
    corpus->words += text->tokens[1].words;
    for (size_t i = 0; i < text->size[1]; i++) corpus->characters += (text->raw[1][i] & 0xC0) != 0x80;
}

/* Adds the current pair of a text. False when there is no memory. */
static bool add_pair(struct qkv_corpus *corpus, const struct qkv_parallel_text *text)
{
    const struct qkv_corpus_options *options = &text->options;
    struct qkv_corpus_side *sides[2] = {&corpus->source, &corpus->target};
    int64_t index = corpus->count;
    bool stores = !options->types_only, is_running = corpus->sides.runs_on;
    int64_t most = options->max_pairs, used = is_running && index ? corpus->target.start[1] : index;
    if (stores && most && (is_running ? used / corpus->context : used) >= most) return true;
    count_characters(corpus, text);
    if (stores && is_running) return add_line(corpus, &text->tokens[1]);
    if (stores && !QKV_RESERVE(corpus->line, corpus->line_capacity, index + 1)) return false;
    for (int i = 0; i < 2; i++) {
        const struct qkv_tokens *tokens = &text->tokens[i];
        if (tokens->count > sides[i]->longest) sides[i]->longest = tokens->count;
        char *composed = NULL; /* references are compared with translations, which are in normal form C */
        if (i && stores && options->keep_raw && !(composed = qkv_text_compose(text->raw[i], text->size[i])))
            return false;
        const char *raw = composed ? composed : text->raw[i];
        bool added = stores ? add_sentence(sides[i], index, tokens, raw, strlen(raw), options)
                            : qkv_tokens_count(tokens, &sides[i]->types, NULL);
        free(composed);
        if (!added) return false;
    }
    if (stores) corpus->line[index] = text->pairs.source.number;
    corpus->count++;
    return true;
}

static enum qkv_status read_text(struct qkv_corpus *corpus, const char *path,
                                 const struct qkv_data_config *data, struct qkv_corpus_options options,
                                 struct qkv_error *error)
{
    struct qkv_parallel_text text = {
        .path = path, .data = data, .options = options, .config = {&data->src, &data->trg}};
    struct qkv_corpus_side *sides[2] = {&corpus->source, &corpus->target};
    enum qkv_status status = QKV_OK;
    bool found = true, complete = true;
    for (int i = 0; i < 2; i++) {
        const struct qkv_text_config *side = text.config[i];
        if (!options.bpe_dropout || !options.drop_long || side->level != QKV_LEVEL_BPE ||
            !(side->bpe_dropout > 0))
            continue;
        if (options.keep_words)
            return qkv_error_set(
                error,
                "%s: BPE dropout changes which word a token is part of: read the corpus without "
                "options.bpe_dropout, or without options.keep_words",
                path);
        complete = complete && (sides[i]->dropout = qkv_bpe_dropout_new(side));
    }
    while (complete && found && !(status = qkv_parallel_text_next(&text, &found, error)) && found)
        complete = add_pair(corpus, &text);
    corpus->read = text.read;
    if (complete && !status && !corpus->sides.has_source && !corpus->target.types.size)
        status = qkv_error_set(error, "%s: the file has no text", path);
    corpus->long_sources = text.long_one[0];
    corpus->long_targets = text.long_one[1];
    qkv_parallel_text_release(&text);
    for (int i = 0; i < 2 && complete && !status; i++)
        complete = !sides[i]->dropout || qkv_bpe_dropout_add_types(sides[i]->dropout, &sides[i]->types);
    return complete ? status : qkv_no_memory(error);
}

enum qkv_status qkv_corpus_read(struct qkv_corpus *corpus, const char *path,
                                const struct qkv_data_config *data, struct qkv_corpus_options options,
                                struct qkv_error *error)
{
    if (options.types_only) options.keep_raw = options.keep_words = false; /* there are no sentences */
    *corpus = (struct qkv_corpus){
        .types_only = options.types_only, .sides = qkv_sides_of(data, NULL), .context = data->context};
    enum qkv_status status;
    bool no_merges = (data->src.level == QKV_LEVEL_BPE && !data->src.bpe) ||
                     (data->trg.level == QKV_LEVEL_BPE && !data->trg.bpe);
    if (no_merges)
        status =
            qkv_error_set(error, "%s: level bpe needs merges; qkv_corpus_merges learns or reads them", path);
    else if (options.key && !qkv_path_is_text(path))
        status = qkv_error_set(error, "%s: there is no such text: set %s to its path", path, options.key);
    else if (qkv_is_prepared(path) && corpus->sides.has_source)
        status = qkv_prepared_open(corpus, path, data, options, error);
    else
        status = read_text(corpus, path, data, options, error);
    if (status) qkv_corpus_release(corpus);
    return status;
}

/* ---- ids ---- */

enum qkv_status qkv_corpus_vocabularies(const struct qkv_corpus *corpus, const struct qkv_data_config *data,
                                        struct qkv_vocabulary *source, struct qkv_vocabulary *target,
                                        struct qkv_error *error)
{
    if (corpus->encoded) return qkv_error_set(error, "vocabularies are built before a corpus is encoded");
    if (corpus->prepared) return qkv_prepared_vocabularies(corpus, source, target, error);
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
        side->ids[i] = side->ids[i] == LINE_END ? QKV_END : ids[side->ids[i]];
        side->unknown += side->ids[i] == QKV_UNKNOWN;
    }
    free(ids);
    qkv_types_release(&side->types);
    return !side->dropout || qkv_bpe_dropout_encode(side->dropout, side, count, vocabulary);
}

uLong qkv_ids_checksum(uLong sum, const int32_t *ids, int64_t count)
{
    for (int64_t i = 0; i <= count; i++) {
        uint32_t id = i < count ? (uint32_t)ids[i] : UINT32_MAX;
        const Bytef bytes[4] = {(Bytef)id, (Bytef)(id >> 8), (Bytef)(id >> 16), (Bytef)(id >> 24)};
        sum = crc32_z(sum, bytes, sizeof bytes);
    }
    return sum;
}

static uLong side_checksum(const struct qkv_corpus_side *side, int64_t count, uLong sum)
{
    for (int64_t i = 0; i < count; i++)
        sum = qkv_ids_checksum(sum, side->ids + side->start[i], side->start[i + 1] - side->start[i]);
    return side->raw_start ? crc32_z(sum, (const Bytef *)side->raw, (z_size_t)side->raw_start[count]) : sum;
}

enum qkv_status qkv_corpus_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                  const struct qkv_vocabulary *target, struct qkv_error *error)
{
    if (corpus->encoded) return qkv_error_set(error, "the corpus is encoded already");
    if (corpus->types_only) return qkv_error_set(error, "a corpus of types only has no sentences to encode");
    if (corpus->prepared) return qkv_prepared_encode(corpus, source, target, error);
    int64_t sources = corpus->sides.runs_on ? 0 : corpus->count;
    if (!encode_side(&corpus->source, sources, source) ||
        !encode_side(&corpus->target, corpus->count, target)) {
        qkv_corpus_release(corpus); /* one side may hold ids already, the other not */
        return qkv_no_memory(error);
    }
    corpus->encoded = true;
    uLong sum = side_checksum(&corpus->source, sources, crc32_z(0, NULL, 0));
    corpus->checksum = (uint32_t)side_checksum(&corpus->target, corpus->count, sum);
    if (!corpus->sides.runs_on || divide(corpus)) return QKV_OK;
    qkv_corpus_release(corpus);
    return qkv_no_memory(error);
}

void qkv_corpus_resample(struct qkv_corpus *corpus, uint64_t seed, int64_t epoch)
{
    struct qkv_corpus_side *sides[2] = {&corpus->source, &corpus->target};
    bool is_shifted = corpus->tokens && corpus->tokens >= 2 * corpus->context;
    if (!corpus->encoded) return;
    corpus->resampled += sides[0]->dropout || sides[1]->dropout || is_shifted;
    if (is_shifted) {
        struct qkv_random random = {seed, QKV_STREAM_PIECES | 2u << 8, (uint32_t)epoch};
        int64_t first = (int64_t)qkv_random_below(random, 0, (uint64_t)corpus->context);
        make_windows(corpus, corpus->tokens, first, false);
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct qkv_random random = {seed, QKV_STREAM_PIECES | i << 8, (uint32_t)epoch};
        if (sides[i]->dropout) qkv_bpe_dropout_draw(sides[i]->dropout, sides[i], corpus->count, random);
    }
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
    free(side->word);
    free(side->raw);
    free(side->raw_start);
    qkv_bpe_dropout_free(side->dropout);
    qkv_types_release(&side->types);
}

void qkv_corpus_release(struct qkv_corpus *corpus)
{
    if (corpus->prepared) qkv_prepared_close(corpus);
    release_side(&corpus->source);
    release_side(&corpus->target);
    free(corpus->line);
    *corpus = (struct qkv_corpus){0};
}
