#include "data/tokenizer.h"

#include "core/memory.h"
#include "core/text.h"
#include "data/unicode.h"

static const struct qkv_tokenizer *tokenizer_of(const struct qkv_text_config *text)
{
    static const struct qkv_tokenizer *const tokenizers[] = {
#define TOKENIZER(id, name, help) &qkv_tokenizer_##name,
#include "qkv/tokenizers.def"
#undef TOKENIZER
    };
    return (size_t)text->level < sizeof tokenizers / sizeof *tokenizers ? tokenizers[text->level] : NULL;
}

/* The character that a level adds to tokens; "": none. */
static const char *added_mark(const struct qkv_text_config *text)
{
    if (text->plain_marks) return "";
    return text->level == QKV_LEVEL_CHAR ? QKV_SPACE : text->split_punctuation ? QKV_JOINER : "";
}

/* Adds the escape behind each `added` mark of the line. Returns the number of code points; -1 when there is no memory. */
static int64_t escape(struct qkv_tokens *tokens, int64_t count, const char *added)
{
    int32_t mark = 0, after;
    int64_t marks = 0;
    if (*added) qkv_point(added, &mark);
    for (int64_t i = 0; i < count; i++) marks += tokens->points[i] == mark;
    if (!marks) return count;
    qkv_point(QKV_ESCAPE, &after);
    if (!QKV_RESERVE(tokens->points, tokens->points_capacity, count + marks)) return -1;
    for (int64_t from = count, to = count + marks; from < to;) {
        int32_t point = tokens->points[--from];
        if (point == mark) tokens->points[--to] = after;
        tokens->points[--to] = point;
    }
    return count + marks;
}

/* Takes the escape behind each `added` mark away. */
static void unescape(char *line, const char *added)
{
    const size_t size = strlen(added);
    char *to = line;
    for (const char *at = line; size && (*to = *at);) {
        bool is_mark = !strncmp(at, added, size);
        memmove(to, at, is_mark ? size : 1);
        to += is_mark ? size : 1;
        at += is_mark ? size : 1;
        if (is_mark && qkv_is_escaped(at)) at += sizeof QKV_ESCAPE - 1;
    }
}

enum qkv_status qkv_tokenize(struct qkv_tokens *tokens, const struct qkv_text_config *text, const char *line,
                             size_t size, struct qkv_error *error)
{
    tokens->count = tokens->words = tokens->text_size = 0;
    const struct qkv_tokenizer *tokenizer = tokenizer_of(text);
    if (!tokenizer) return qkv_error_set(error, "there is no level %d of tokens", (int)text->level);
    if (text->level == QKV_LEVEL_BPE && !text->bpe)
        return qkv_error_set(error, "level bpe needs merges; a run that is open has them");
    size_t valid = qkv_text_valid_size(line, size);
    if (valid < size) return qkv_text_refuse("", line, size, valid, error);
    int64_t count = -1;
    if (QKV_RESERVE(tokens->points, tokens->points_capacity, (int64_t)size + 1))
        count = qkv_utf8_decode(line, size, tokens->points);
    if (count >= 0) count = qkv_normalize(&tokens->points, &tokens->points_capacity, count, text->lowercase);
    if (count >= 0) count = escape(tokens, count, added_mark(text));
    if (count < 0 || !tokenizer->split(tokens, text, count)) {
        tokens->count = tokens->words = tokens->text_size = 0;
        return qkv_no_memory(error);
    }
    const char *token = tokens->text;
    for (int64_t i = 0; i < tokens->count; i++, token += strlen(token) + 1) tokens->token[i] = token;
    return QKV_OK;
}

bool qkv_looks_tokenized(const char *line)
{
    static const char *const marks[] = {" @-@ ", "&apos;", "&quot;", "&#91;", "&#93;", "&#124;"};
    size_t length = strlen(line);
    while (length && line[length - 1] == ' ') length--;
    if (length > 2 && line[length - 1] == '.' && line[length - 2] == ' ') return true;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(line, marks[i])) return true;
    return false;
}

static const struct qkv_cut_mark CUT_MARKS[QKV_CUT_MARKS] = {
    {"", "@@", "un@@", "sed -E 's/(@@ )|(@@ ?$)//g'"},
    {"##", "", "##ing", "sed 's/ ##//g'"},
    {"\u2581", "", "\u2581the", "sed 's/ //g; s/\u2581/ /g'"},
    {"", "\uFFED", "walk\uFFED", "sed -E 's/ ?\uFFED ?//g'"},
    {"\uFFED", "", "\uFFED.", "sed -E 's/ ?\uFFED ?//g'"},
};

/* Whether a word of the line has the mark, and more. ## at the beginning of a line is that of a heading. */
static bool has_cut(const char *line, const struct qkv_cut_mark *cut)
{
    size_t begins = strlen(cut->begin), ends = strlen(cut->end);
    for (const char *word = line, *end; *word; word = end + strspn(end, " ")) {
        end = word + strcspn(word, " ");
        if ((size_t)(end - word) > begins + ends && !memcmp(word, cut->begin, begins) &&
            !memcmp(end - ends, cut->end, ends) && (word > line || *cut->begin != '#'))
            return true;
    }
    return false;
}

void qkv_cuts_add(struct qkv_cuts *cuts, const char *line)
{
    cuts->lines++;
    for (int m = 0; m < QKV_CUT_MARKS; m++) cuts->cut[m] += has_cut(line, &CUT_MARKS[m]);
}

const struct qkv_cut_mark *qkv_cuts_usual(const struct qkv_cuts *cuts)
{
    enum { FEW = 20 /* plain text has such a mark in fewer than one of this many lines */ };
    for (int m = 0; m < QKV_CUT_MARKS; m++)
        if (cuts->cut[m] && cuts->cut[m] * FEW >= cuts->lines) return &CUT_MARKS[m];
    return NULL;
}

/* Joins tokens to a line of text, and sets the word of each; NULL when there is no memory or no such level. */
static char *join(const struct qkv_text_config *text, int64_t count, const char *const *tokens, int64_t *word,
                  struct qkv_arena *arena)
{
    size_t size = 1;
    for (int64_t i = 0; i < count; i++) size += strlen(tokens[i]) + 2; /* 2: a no-break space */
    char *line = qkv_arena_allocate(arena, size);
    const struct qkv_tokenizer *tokenizer = tokenizer_of(text);
    if (!line || !word || !tokenizer) return NULL;
    *line = '\0';
    if (!tokenizer->join(text, count, tokens, line, word, arena)) return NULL;
    unescape(line, added_mark(text));
    return line;
}

static int64_t *word_numbers(int64_t count, struct qkv_arena *arena)
{
    return qkv_arena_allocate(arena, (size_t)(count > 0 ? count : 0) * sizeof(int64_t));
}

char *qkv_detokenize(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                     struct qkv_arena *arena)
{
    return join(text, count, tokens, word_numbers(count, arena), arena);
}

const int64_t *qkv_token_words(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                               struct qkv_arena *arena)
{
    int64_t *word = word_numbers(count, arena);
    return join(text, count, tokens, word, arena) ? word : NULL;
}

const char *qkv_token_shown(const char *token, struct qkv_arena *arena)
{
    struct qkv_bare_token bare = qkv_token_bare(token);
    return bare.joins && bare.size ? qkv_arena_format(arena, "%.*s", (int)bare.size, bare.text) : token;
}
