#include "qkv/corpus.h"

#include "config/path.h"
#include "core/grow.h"
#include "data/bpe_dropout.h"
#include "data/ids_checksum.h"
#include "data/parallel_text.h"
#include "data/prepared.h"
#include "qkv/random.h"

#include <string.h>
#include <zlib.h>

static enum qkv_status no_memory(const char *path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: out of memory", path);
}

/* ---- adding a pair ---- */

static bool add_sentence(struct qkv_corpus_side *side, int64_t index, const struct qkv_pair_side *sentence)
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

static bool add_raw(struct qkv_corpus_side *side, int64_t index, const struct qkv_pair_side *sentence)
{
    int64_t begin = side->raw_start[index], end = begin + (int64_t)sentence->size + 1;
    if (!QKV_RESERVE(side->raw_start, side->raw_start_capacity, index + 2)) return false;
    if (!QKV_RESERVE(side->raw, side->raw_capacity, end)) return false;
    memcpy(side->raw + begin, sentence->raw, sentence->size + 1);
    side->raw_start[index + 1] = end;
    return true;
}

/* Stores for each token the word that it belongs to. */
static bool add_word_of_tokens(struct qkv_corpus_side *side, int64_t index,
                               const struct qkv_pair_side *sentence)
{
    int64_t begin = side->start[index], count = sentence->tokens.count;
    if (!QKV_RESERVE(side->word, side->word_capacity, begin + count)) return false;
    for (int64_t i = 0; i < count; i++) side->word[begin + i] = (int32_t)sentence->tokens.word[i];
    return true;
}

/* Stores the words of a sentence if its side has BPE dropout. */
static bool add_words(const struct qkv_corpus_side *side, int64_t index, const struct qkv_pair_side *sentence)
{
    return !side->dropout || qkv_bpe_dropout_add(side->dropout, index, sentence->raw, sentence->size);
}

static enum qkv_status add_pair(struct qkv_parallel_text *text, struct qkv_error *error)
{
    struct qkv_corpus *corpus = text->context;
    const struct qkv_pair_side *source = &text->source, *target = &text->target;
    int64_t index = corpus->count;
    if (text->options.max_pairs && index >= text->options.max_pairs) return QKV_OK;
    if (!QKV_RESERVE(corpus->line, corpus->line_capacity, index + 1) ||
        !add_sentence(&corpus->source, index, source) || !add_sentence(&corpus->target, index, target))
        return no_memory(text->path, error);
    if (text->options.keep_raw &&
        (!add_raw(&corpus->source, index, source) || !add_raw(&corpus->target, index, target)))
        return no_memory(text->path, error);
    if (text->options.keep_words && (!add_word_of_tokens(&corpus->source, index, source) ||
                                     !add_word_of_tokens(&corpus->target, index, target)))
        return no_memory(text->path, error);
    if (!add_words(&corpus->source, index, source) || !add_words(&corpus->target, index, target))
        return no_memory(text->path, error);
    corpus->line[index] = text->line;
    corpus->count++;
    return QKV_OK;
}

/* Counts the tokens of a sentence without storing it. */
static bool count_tokens(struct qkv_corpus_side *side, const struct qkv_tokens *tokens)
{
    for (int64_t i = 0; i < tokens->count; i++)
        if (qkv_types_add(&side->types, tokens->token[i], 1) < 0) return false;
    if (tokens->count > side->longest) side->longest = tokens->count;
    return true;
}

static enum qkv_status count_pair(struct qkv_parallel_text *text, struct qkv_error *error)
{
    struct qkv_corpus *corpus = text->context;
    corpus->count++;
    if (count_tokens(&corpus->source, &text->source.tokens) &&
        count_tokens(&corpus->target, &text->target.tokens))
        return QKV_OK;
    return no_memory(text->path, error);
}

/* ---- public functions ---- */

/* Sets the offsets of an empty side, and prepares BPE dropout. */
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

static enum qkv_status read_text(struct qkv_corpus *corpus, const char *path,
                                 const struct qkv_data_config *data, struct qkv_corpus_options options,
                                 struct qkv_error *error)
{
    struct qkv_parallel_text text = {
        .path = path,
        .options = options,
        .source = {.text = &data->src},
        .target = {.text = &data->trg},
        .add = options.types_only ? count_pair : add_pair,
        .context = corpus,
    };
    if (!begin_side(&corpus->source, &data->src, options) ||
        !begin_side(&corpus->target, &data->trg, options))
        return no_memory(path, error);
    if (options.keep_words && (corpus->source.dropout || corpus->target.dropout))
        return qkv_error_set(error,
                             "%s: BPE dropout changes which word a token is part of: read the corpus without "
                             "options.bpe_dropout, or without options.keep_words",
                             path);
    enum qkv_status status = qkv_parallel_text_read(&text, error);
    qkv_parallel_text_release(&text);
    corpus->read = text.read;
    corpus->long_sources = text.long_sources;
    corpus->long_targets = text.long_targets;
    if (!status && (!end_side(&corpus->source) || !end_side(&corpus->target))) return no_memory(path, error);
    return status;
}

enum qkv_status qkv_corpus_read(struct qkv_corpus *corpus, const char *path,
                                const struct qkv_data_config *data, struct qkv_corpus_options options,
                                struct qkv_error *error)
{
    if (options.types_only) options.keep_raw = options.keep_words = false; /* there are no sentences */
    *corpus = (struct qkv_corpus){.types_only = options.types_only};
    enum qkv_status status;
    bool no_merges = (data->src.level == QKV_LEVEL_BPE && !data->src.bpe) ||
                     (data->trg.level == QKV_LEVEL_BPE && !data->trg.bpe);
    if (no_merges)
        status =
            qkv_error_set(error, "%s: level bpe needs merges; qkv_corpus_merges learns or reads them", path);
    else if (options.key && !qkv_path_is_text(path))
        status = qkv_error_set(error, "%s: there is no such text: set %s to its path", path, options.key);
    else if (qkv_is_prepared(path))
        status = qkv_prepared_open(corpus, path, data, options, error);
    else
        status = read_text(corpus, path, data, options, error);
    if (status) qkv_corpus_release(corpus);
    return status;
}

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
        side->ids[i] = ids[side->ids[i]];
        side->unknown += side->ids[i] == QKV_UNKNOWN;
    }
    free(ids);
    qkv_types_release(&side->types);
    return !side->dropout || qkv_bpe_dropout_encode(side->dropout, side, count, vocabulary);
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

void qkv_corpus_resample(struct qkv_corpus *corpus, uint64_t seed, int64_t epoch)
{
    if (!corpus->encoded) return;
    if (corpus->source.dropout || corpus->target.dropout) corpus->resampled++;
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
