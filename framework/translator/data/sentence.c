/* Single sentences as ids, and other spellings of their words, which the vocabulary may have. */
#include "core/memory.h"
#include "data/unicode.h"
#include "qkv/corpus.h"

static enum qkv_status no_memory(struct qkv_sentence *sentence, struct qkv_error *error)
{
    sentence->tokens.count = 0;
    return qkv_no_memory(error);
}

static enum qkv_status encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                              const struct qkv_vocabulary *vocabulary, const char *line, size_t size,
                              struct qkv_error *error)
{
    sentence->unknown = 0;
    if (qkv_tokenize(&sentence->tokens, text, line, size, error)) return QKV_INVALID;
    int64_t count = sentence->tokens.count;
    if (!QKV_RESERVE(sentence->ids, sentence->ids_capacity, count)) return no_memory(sentence, error);
    for (int64_t i = 0; i < count; i++) {
        sentence->ids[i] = qkv_vocabulary_id(vocabulary, sentence->tokens.token[i]);
        sentence->unknown += sentence->ids[i] == QKV_UNKNOWN;
    }
    return QKV_OK;
}

/* ---- the spellings of a word ---- */

/* Marks that look alike. Word processors and phones replace those of the keyboard, `other`, by typographic ones, and back. */
static const struct {
    int32_t mark, other;
} ALIKE[] = {
    {0x2019, '\''}, {0x2018, '\''}, {0x201C, '"'}, {0x201D, '"'}, {0x201E, '"'},
    {0x2010, '-'},  {0x2011, '-'},  {0x2013, '-'}, {0x2014, '-'}, {'\'', 0x2019},
};

/* Marks around a sentence or a part of one, and those that end it. */
static const char AROUND[] = "\"'(),-:;[]«»¡¿–—‘’“”„…、「」『』，：；\u060C\u061B",
                  ENDS[] = ".?!।。？！\u061F\u06D4";

enum {
    ADDED = 1,           /* code points, at most, that a spelling adds to a word */
    LONGEST_WORD = 1000, /* code points; longer ones would take long */
};

/* Finds the spelling of a word that has the fewest unknown tokens. */
struct speller {
    const struct qkv_text_config *text;
    const struct qkv_vocabulary *vocabulary;
    struct qkv_sentence encoded;  /* the spelling that was tried last */
    int32_t *best, *word, *tried; /* [length of the line + ADDED]: the best spelling so far, others */
    int64_t length, unknown;      /* code points and unknown tokens of `best` */
    char *bytes;                  /* of the spelling that was tried last */
    bool failed;                  /* out of memory */
};

/* Takes a spelling if it has fewer unknown tokens than the best so far. */
static void try_spelling(struct speller *s, const int32_t *points, int64_t count)
{
    if (!s->unknown || s->failed) return;
    size_t size = (size_t)(qkv_utf8_encode(points, count, s->bytes) - s->bytes);
    /* The line is valid text, so only memory can be missing. */
    s->failed = encode(&s->encoded, s->text, s->vocabulary, s->bytes, size, NULL);
    if (s->failed || s->encoded.unknown >= s->unknown) return;
    memmove(s->best, points, (size_t)count * sizeof *points);
    s->length = count;
    s->unknown = s->encoded.unknown;
}

/* Tries a spelling, which may be the best, and the same with other marks that look alike; if `cases`, all this also in lower
 * case, with a capital, and in capitals. */
static void try_variants(struct speller *s, const int32_t *points, int64_t count, bool cases)
{
    const int64_t capitals[] = {0, 0, 1, count};
    for (int c = 0; c < (cases ? 4 : 1); c++)
        for (size_t m = 0; m <= sizeof ALIKE / sizeof *ALIKE; m++) {
            bool differs = !m;
            for (int64_t i = 0; i < count; i++) {
                int32_t point = c ? qkv_point_in_case(points[i], i < capitals[c]) : points[i];
                bool is_mark = m && point == ALIKE[m - 1].mark;
                s->tried[i] = is_mark ? ALIKE[m - 1].other : point;
                differs |= is_mark;
            }
            if (differs) try_spelling(s, s->tried, count);
        }
}

static bool is_droppable(int32_t point)
{
    char mark[5];
    qkv_utf8_encode(&point, 1, mark);
    return strstr(AROUND, mark) || strstr(ENDS, mark);
}

/* Tries a word in other cases, without the marks around it and, at the end of a line, with a mark that ends a sentence. */
static void try_as_trained(struct speller *s, bool is_last)
{
    int64_t begin = 0, end = s->length;
    memcpy(s->word, s->best, (size_t)end * sizeof *s->word);
    try_variants(s, s->word, end, true);
    while (begin < end && is_droppable(s->word[begin])) begin++;
    while (begin < end && is_droppable(s->word[end - 1])) end--;
    try_variants(s, s->word + begin, end - begin, true);
    for (const char *mark = ENDS; is_last && begin < end && *mark;) {
        mark += qkv_point(mark, &s->word[end]);
        try_variants(s, s->word + begin, end + 1 - begin, true);
    }
}

/* ---- a line ---- */

/* The line on the heap, each word in the spelling with the fewest unknown tokens. NULL: out of memory. */
static char *respell(const char *line, size_t size, const struct qkv_text_config *text,
                     const struct qkv_vocabulary *vocabulary, bool as_trained)
{
    const size_t points = size + ADDED, words = (size + 1) / 2;
    struct speller s = {.text = text, .vocabulary = vocabulary};
    int32_t *buffer = malloc(3 * points * sizeof *buffer);
    char *copy = malloc(4 * (size + words * ADDED) + 1), *to = copy;
    if (buffer) s.best = buffer, s.word = buffer + points, s.tried = s.word + points;
    s.bytes = malloc(4 * points + 1);
    s.failed = !buffer || !copy || !s.bytes;
    size_t trimmed = size;
    while (trimmed && line[trimmed - 1] == ' ') trimmed--;
    for (const char *at = line, *end = line + size; !s.failed && at < end;) {
        const char *space = memchr(at, ' ', (size_t)(end - at)), *word_end = space ? space : end;
        s.length = qkv_utf8_decode(at, (size_t)(word_end - at), s.best);
        s.unknown = INT64_MAX;
        try_variants(&s, s.best, s.length, false);
        if (as_trained && s.length <= LONGEST_WORD) try_as_trained(&s, word_end >= line + trimmed);
        to = qkv_utf8_encode(s.best, s.length, to);
        at = word_end;
        if (space) *to++ = *at++;
    }
    while (!s.failed && to > copy && to[-1] == ' ') to--;
    if (!s.failed) *to = '\0';
    qkv_sentence_release(&s.encoded);
    free(buffer);
    free(s.bytes);
    if (!s.failed) return copy;
    free(copy);
    return NULL;
}

enum qkv_status qkv_sentence_encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                    const struct qkv_vocabulary *vocabulary, const char *line, size_t size,
                                    struct qkv_error *error)
{
    free(sentence->respelled);
    sentence->respelled = NULL;
    enum qkv_status status = encode(sentence, text, vocabulary, line, size, error);
    int64_t unknown = sentence->unknown;
    if (status || !unknown) return status;
    char *respelled = respell(line, size, text, vocabulary, sentence->as_trained);
    if (!respelled) return no_memory(sentence, error);
    status = encode(sentence, text, vocabulary, respelled, strlen(respelled), error);
    if (!status && sentence->unknown < unknown && sentence->tokens.count) {
        sentence->respelled = respelled;
        return QKV_OK;
    }
    free(respelled);
    return status ? status : encode(sentence, text, vocabulary, line, size, error);
}

void qkv_sentence_release(struct qkv_sentence *sentence)
{
    qkv_tokens_release(&sentence->tokens);
    free(sentence->ids);
    free(sentence->respelled);
    *sentence = (struct qkv_sentence){0};
}
