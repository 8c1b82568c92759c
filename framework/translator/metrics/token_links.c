/* Converts links between words to links between tokens. */
#include "qkv/token_links.h"

#include "core/grow.h"
#include "qkv/alignment.h"

#include <stdlib.h>
#include <zlib.h>

/* The tokens of one side of a pair. */
struct tokens {
    const int32_t *word; /* [count]: the word of each; -1: none */
    int64_t count;
};

static struct tokens tokens_of(const struct qkv_corpus_side *side, int64_t pair)
{
    return (struct tokens){side->word + side->start[pair], side->start[pair + 1] - side->start[pair]};
}

static int64_t word_count(struct tokens tokens)
{
    int64_t words = 0;
    for (int64_t i = 0; i < tokens.count; i++)
        if (tokens.word[i] >= words) words = tokens.word[i] + 1;
    return words;
}

/* The numbers of words of each pair of the file; -1 for pairs that the corpus dropped. */
static struct qkv_word_counts *count_words(const struct qkv_corpus *corpus, struct qkv_arena *arena)
{
    struct qkv_word_counts *words = qkv_arena_allocate(arena, (size_t)corpus->read * sizeof *words);
    for (int64_t i = 0; words && i < corpus->read; i++) words[i] = (struct qkv_word_counts){-1, -1};
    for (int64_t i = 0; words && i < corpus->count; i++)
        words[corpus->line[i] - 1] = (struct qkv_word_counts){word_count(tokens_of(&corpus->source, i)),
                                                              word_count(tokens_of(&corpus->target, i))};
    return words;
}

/* The number of source words that a target word is linked to. */
static int64_t count_links(const struct qkv_alignment *alignment, int64_t target)
{
    int64_t count = 0;
    for (int64_t i = 0; i < alignment->count; i++) count += alignment->links[i].target == target;
    return count;
}

static int64_t count_pieces(struct tokens tokens, int64_t word)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tokens.count; i++) count += tokens.word[i] == word;
    return count;
}

struct growing {
    struct qkv_token_links *links;
    int64_t count, capacity;
};

/* Adds the links between the pieces of two linked words. */
static bool add_pieces(struct growing *to, struct tokens source, struct tokens target,
                       const struct qkv_alignment_link *link, int64_t target_links)
{
    double share = 1.0 / (double)(target_links * count_pieces(source, link->source));
    for (int64_t t = 0; t < target.count; t++)
        for (int64_t s = 0; target.word[t] == link->target && s < source.count; s++) {
            if (source.word[s] != link->source) continue;
            if (!QKV_RESERVE(to->links->links, to->capacity, to->count + 1)) return false;
            to->links->links[to->count++] = (struct qkv_token_link){(int32_t)t, (int32_t)s, share};
        }
    return true;
}

static bool convert(struct qkv_token_links *links, const struct qkv_corpus *corpus,
                    const struct qkv_alignments *words)
{
    struct growing to = {.links = links};
    links->start = calloc((size_t)corpus->count + 1, sizeof *links->start);
    if (!links->start) return false;
    for (int64_t pair = 0; pair < corpus->count; pair++) {
        const struct qkv_alignment *alignment = &words->sentences[corpus->line[pair] - 1];
        struct tokens source = tokens_of(&corpus->source, pair), target = tokens_of(&corpus->target, pair);
        for (int64_t i = 0; i < alignment->count; i++)
            if (!add_pieces(&to, source, target, &alignment->links[i],
                            count_links(alignment, alignment->links[i].target)))
                return false;
        links->start[pair + 1] = to.count;
    }
    links->pairs = corpus->count;
    return true;
}

enum qkv_status qkv_token_links_read(struct qkv_token_links *links, const char *path,
                                     enum qkv_links_from from, const struct qkv_corpus *corpus,
                                     struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_alignments words = {0};
    *links = (struct qkv_token_links){0};
    if (!corpus->source.word || !corpus->target.word)
        return qkv_error_set(error, "%s: links need a corpus that keeps the words of its tokens", path);
    const struct qkv_word_counts *counts = count_words(corpus, &arena);
    enum qkv_status status = counts ? qkv_alignments_read(&words, path, from, counts, corpus->read, error)
                                    : qkv_error_set(error, "%s: out of memory", path);
    if (!status && !convert(links, corpus, &words)) {
        qkv_token_links_release(links);
        status = qkv_error_set(error, "%s: out of memory", path);
    }
    qkv_alignments_release(&words);
    qkv_arena_release(&arena);
    return status;
}

uint32_t qkv_token_links_checksum(const struct qkv_token_links *links)
{
    uLong sum = crc32_z(0, NULL, 0);
    for (int64_t pair = 0; pair < links->pairs; pair++)
        for (int64_t i = links->start[pair]; i < links->start[pair + 1]; i++) {
            const struct qkv_token_link *link = &links->links[i];
            const uint64_t numbers[] = {(uint64_t)pair, (uint64_t)link->source, (uint64_t)link->target};
            Bytef bytes[sizeof numbers];
            for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (Bytef)(numbers[k / 8] >> k % 8 * 8);
            sum = crc32_z(sum, bytes, sizeof bytes);
        }
    return (uint32_t)sum;
}

void qkv_token_links_release(struct qkv_token_links *links)
{
    free(links->start);
    free(links->links);
    *links = (struct qkv_token_links){0};
}
