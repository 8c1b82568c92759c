/* Sets of sentence pairs: describing, cleaning, splitting. */
#include "core/memory.h"
#include "core/numbers.h"
#include "core/text.h"
#include "data/pairs.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <strings.h>

/* ---- numbers of sentences ---- */

/* Sentences of a side have the same number when they have the same letters and digits, in lower case. */
struct numbers {
    int32_t *number[2]; /* [count]: of the sentence of each pair */
    bool *is_new;       /* [count]: false for a pair that is equal to an earlier one, in every character */
    struct qkv_arena arena; /* owns the arrays */
    struct qkv_types types[2];
};

/* Working memory for a sentence that is compared. */
struct buffer {
    int32_t *points;
    char *text;
    int64_t points_capacity, text_capacity;
};

/* Returns the letters, marks and digits of a sentence in lower case; or the sentence itself if it has none, such as "?!" or an
 * emoji. NULL when memory runs out. */
static const char *comparable(struct buffer *buffer, const char *text)
{
    size_t size = strlen(text);
    if (!QKV_RESERVE(buffer->points, buffer->points_capacity, (int64_t)size + 1)) return NULL;
    int64_t count = qkv_utf8_decode(text, size, buffer->points), kept = 0;
    count = qkv_normalize(&buffer->points, &buffer->points_capacity, count, true);
    if (count < 0) {
        buffer->points_capacity = 0;
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        if (!qkv_is_space(buffer->points[i]) && !qkv_is_punctuation(buffer->points[i]))
            buffer->points[kept++] = buffer->points[i];
    if (!kept) return text;
    if (!QKV_RESERVE(buffer->text, buffer->text_capacity, 4 * kept + 1)) return NULL;
    qkv_utf8_encode(buffer->points, kept, buffer->text);
    return buffer->text;
}

static void release_numbers(struct numbers *numbers)
{
    for (int side = 0; side < 2; side++) qkv_types_release(&numbers->types[side]);
    qkv_arena_release(&numbers->arena);
}

/* False when memory runs out. The caller releases the numbers even then. */
static bool number_sentences(struct numbers *numbers, const struct qkv_pairs *pairs)
{
    size_t count = (size_t)pairs->count;
    struct buffer buffer = {0};
    struct qkv_types different = {0};
    struct qkv_arena pair = {0};
    *numbers = (struct numbers){.arena = {0}};
    numbers->is_new = qkv_arena_allocate(&numbers->arena, count * sizeof *numbers->is_new);
    for (int side = 0; side < 2; side++)
        numbers->number[side] = qkv_arena_allocate(&numbers->arena, count * sizeof *numbers->number[side]);
    bool complete = numbers->is_new && numbers->number[0] && numbers->number[1];
    for (int64_t i = 0; i < pairs->count && complete; i++) {
        const char *text[] = {qkv_pairs_text(pairs, i, 0), qkv_pairs_text(pairs, i, 1)};
        int64_t before = different.size;
        qkv_arena_reset(&pair);
        const char *key =
            qkv_arena_format(&pair, "%s\t%s", text[0], text[1]); /* no sentence contains a tab */
        complete = key && qkv_types_add(&different, key, 1) >= 0;
        numbers->is_new[i] = different.size > before;
        for (int side = 0; side < 2 && complete; side++) {
            key = comparable(&buffer, text[side]);
            numbers->number[side][i] = key ? qkv_types_add(&numbers->types[side], key, 1) : -1;
            complete = numbers->number[side][i] >= 0;
        }
    }
    qkv_types_release(&different);
    qkv_arena_release(&pair);
    free(buffer.points);
    free(buffer.text);
    return complete;
}

/* ---- markup: HTML and names of sounds in sentences, as Anki exports them ---- */

enum { MAX_NAME = 8 /* of a tag or an entity */ };

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* The number of leading letters, at most MAX_NAME + 1. */
static size_t name_size(const char *text)
{
    size_t size = 0;
    while (size <= MAX_NAME && is_letter(text[size])) size++;
    return size;
}

/* Bytes of an entity, behind its &: `nbsp;`, `#39;` or `#x27;`. 0: there is none. */
static size_t entity_size(const char *text)
{
    size_t size = 0;
    if (*text != '#') {
        size = name_size(text);
    } else {
        bool is_hexadecimal = text[1] == 'x' || text[1] == 'X';
        const char *digits = text + 1 + is_hexadecimal;
        size_t count =
            is_hexadecimal ? strspn(digits, "0123456789abcdefABCDEF") : strspn(digits, "0123456789");
        if (count) size = (size_t)(digits - text) + count;
    }
    return size && size <= MAX_NAME && text[size] == ';' ? size + 1 : 0;
}

/* Bytes of the tag at the beginning of a text, such as <br>, </b>, <div class="x"> or [sound:x.mp3], or, with `entities`,
 * of the entity, such as &nbsp; or &#39;. 0: the text begins with none. */
static size_t markup_size(const char *text, bool entities)
{
    if (*text == '&') {
        size_t size = entities ? entity_size(text + 1) : 0;
        return size ? size + 1 : 0;
    }
    if (!strncmp(text, "[sound:", 7)) {
        const char *end = text + strcspn(text, "]");
        return *end ? (size_t)(end - text) + 1 : 0;
    }
    if (*text != '<') return 0;
    const char *name = text + 1 + (text[1] == '/');
    size_t size = name_size(name);
    if (!size || size > MAX_NAME || !name[size] || !strchr("> /", name[size])) return 0;
    const char *end = name + strcspn(name, "<>");
    return *end == '>' ? (size_t)(end - text) + 1 : 0;
}

static bool is_one_of(const char *name, size_t size, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == size && !strncasecmp(name, names[i], size)) return true;
    return false;
}

/* Writes what stands for a tag: nothing if it only changes the look of letters, else a space. Returns its bytes. */
static size_t replace_tag(const char *tag, char *to)
{
    static const char *const inlines[] = {"a",    "b",      "em",  "font", "i", "s",
                                          "span", "strong", "sub", "sup",  "u"};
    const char *name = tag + 1 + (tag[1] == '/');
    if (is_one_of(name, name_size(name), inlines, sizeof inlines / sizeof *inlines)) return 0;
    *to = ' ';
    return 1;
}

/* Writes the character of an entity `size` bytes long. Returns its bytes; 0: the entity is not known. */
static size_t replace_entity(const char *entity, size_t size, char to[5])
{
    static const struct {
        const char *name;
        char byte;
    } known[] = {{"nbsp", ' '}, {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    if (entity[1] == '#') {
        bool is_hexadecimal = entity[2] == 'x' || entity[2] == 'X';
        long value = strtol(entity + 2 + is_hexadecimal, NULL, is_hexadecimal ? 16 : 10);
        if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
        bool is_blank =
            value < ' ' || (value >= 0x7F && value <= 0xA0); /* control characters, no-break space */
        int32_t point = is_blank ? ' ' : (int32_t)value;
        return (size_t)(qkv_utf8_encode(&point, 1, to) - to);
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (!is_one_of(entity + 1, size - 2, &known[k].name, 1)) continue;
        *to = known[k].byte;
        return 1;
    }
    return 0;
}

/* Removes repeated spaces, and white space at the ends. */
static void tidy_spaces(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++)
        if (*at != ' ' || at[1] != ' ') *to++ = *at;
    struct pairs_field rest = qkv_pairs_trim((struct pairs_field){text, (size_t)(to - text)});
    memmove(text, rest.text, rest.size);
    text[rest.size] = '\0';
}

/* Removes the markup of a sentence in place: what replaces it is never longer. Returns whether there was any. */
static bool remove_markup(char *text, bool entities)
{
    char *to = text, character[5];
    bool is_changed = false;
    for (const char *at = text; *at;) {
        size_t size = markup_size(at, entities), kept = 0;
        if (size && *at != '[')
            kept = *at == '<' ? replace_tag(at, character) : replace_entity(at, size, character);
        if (!size || (!kept && *at == '&')) {
            *to++ = *at++;
            continue;
        }
        memcpy(to, character, kept);
        to += kept;
        at += size;
        is_changed = true;
    }
    *to = '\0';
    if (is_changed) tidy_spaces(text);
    return is_changed;
}

int64_t qkv_pairs_remove_markup(struct qkv_pairs *pairs, const struct qkv_pairs_statistics *facts)
{
    int64_t kept = 0, changed = 0;
    for (int64_t i = 0; i < pairs->count; i++) {
        bool is_changed = false, is_empty = false;
        for (int side = 0; side < 2; side++) {
            char *text = pairs->text + pairs->start[side][i];
            is_changed = remove_markup(text, !facts->side[side].is_tokenized) || is_changed;
            is_empty = is_empty || !*text;
            pairs->start[side][kept] = pairs->start[side][i];
        }
        changed += is_changed;
        kept += !is_empty;
    }
    pairs->count = kept;
    return changed;
}

/* ---- describing ---- */

/* Scripts, by the code points of their letters, and whether they write spaces between words. */
enum { JAPANESE = 18, CHINESE, UNKNOWN };
static const struct {
    const char *name;
    bool has_spaces;
    int32_t range[2][2]; /* the first and last letter */
} SCRIPTS[] = {
    {"Latin", true, {{0x41, 0x24F}, {0x1E00, 0x1EFF}}},
    {"Greek", true, {{0x370, 0x3FF}, {0x1F00, 0x1FFF}}},
    {"Cyrillic", true, {{0x400, 0x52F}}},
    {"Armenian", true, {{0x530, 0x58F}}},
    {"Hebrew", true, {{0x590, 0x5FF}}},
    {"Arabic", true, {{0x600, 0x77F}}},
    {"Devanagari", true, {{0x900, 0x97F}}},
    {"Bengali", true, {{0x980, 0x9FF}}},
    {"Tamil", true, {{0xB80, 0xBFF}}},
    {"Telugu", true, {{0xC00, 0xC7F}}},
    {"Thai", false, {{0xE00, 0xE7F}}},
    {"Lao", false, {{0xE80, 0xEFF}}},
    {"Tibetan", false, {{0xF00, 0xFFF}}},
    {"Myanmar", false, {{0x1000, 0x109F}}},
    {"Georgian", true, {{0x10A0, 0x10FF}}},
    {"Ethiopic", true, {{0x1200, 0x139F}}},
    {"Khmer", false, {{0x1780, 0x17FF}}},
    {"Hangul", true, {{0x1100, 0x11FF}, {0xAC00, 0xD7FF}}},
    {"Japanese", false, {{0x3040, 0x30FF}}},
    {"Chinese", false, {{0x3400, 0x9FFF}, {0x20000, 0x3FFFF}}},
    {"unknown", true, {{0}}},
};

static int script_of(int32_t point)
{
    int script = 0;
    for (; script < UNKNOWN; script++)
        for (int r = 0; r < 2; r++)
            if (point >= SCRIPTS[script].range[r][0] && point <= SCRIPTS[script].range[r][1]) return script;
    return script;
}

enum { CODE_POINTS = 0x110000 };

/* Counts over one side of the pairs. */
struct counts {
    bool *is_used;                /* [CODE_POINTS] */
    int64_t letters[UNKNOWN + 1]; /* by script */
    int64_t tokenized;            /* sentences that look tokenised */
    struct qkv_cuts cuts;
};

static void count_sentence(struct qkv_pairs_side *side, struct counts *counts, const char *text)
{
    int64_t words = qkv_utf8_count_words(text, text + strlen(text), false);
    counts->tokenized += qkv_looks_tokenized(text);
    qkv_cuts_add(&counts->cuts, text);
    while (*text) {
        int32_t point;
        text += qkv_point(text, &point);
        side->characters++;
        if (qkv_is_space(point)) continue;
        side->alphabet += !counts->is_used[point];
        counts->is_used[point] = true;
        if (qkv_is_letter(point)) counts->letters[script_of(point)]++;
    }
    side->words += words;
    if (words > side->longest) side->longest = words;
}

static bool describe_side(const struct qkv_pairs *pairs, int side, struct qkv_pairs_side *facts)
{
    struct counts counts = {.is_used = calloc(CODE_POINTS, sizeof(bool))};
    if (!counts.is_used) return false;
    *facts = (struct qkv_pairs_side){0};
    for (int64_t i = 0; i < pairs->count; i++) count_sentence(facts, &counts, qkv_pairs_text(pairs, i, side));
    int64_t letters = 0, max = 0;
    int script = UNKNOWN;
    for (int s = 0; s <= UNKNOWN; s++) {
        letters += counts.letters[s];
        if (counts.letters[s] <= max) continue;
        max = counts.letters[s];
        script = s;
    }
    /* Japanese mixes its syllables with Chinese characters. */
    int64_t japanese = counts.letters[JAPANESE], chinese = counts.letters[CHINESE];
    if (script == CHINESE && japanese * 10 > chinese) script = JAPANESE;
    if (script == JAPANESE) max = japanese + chinese;
    facts->script = SCRIPTS[script].name;
    facts->script_share = letters ? (double)max / (double)letters : 0;
    facts->has_spaces = SCRIPTS[script].has_spaces;
    facts->is_tokenized = counts.tokenized * 2 > pairs->count;
    facts->cut = qkv_cuts_usual(&counts.cuts);
    free(counts.is_used);
    return true;
}

static bool has_markup(const char *text, bool entities)
{
    while (*text && !markup_size(text, entities)) text++;
    return *text;
}

enum qkv_status qkv_pairs_describe(const struct qkv_pairs *pairs, struct qkv_pairs_statistics *facts,
                                   struct qkv_error *error)
{
    struct numbers numbers;
    *facts = (struct qkv_pairs_statistics){0};
    bool complete = number_sentences(&numbers, pairs) && describe_side(pairs, 0, &facts->side[0]) &&
                    describe_side(pairs, 1, &facts->side[1]);
    for (int64_t i = 0; i < pairs->count && complete; i++) {
        facts->repeated += !numbers.is_new[i];
        facts->copied += !strcmp(qkv_pairs_text(pairs, i, 0), qkv_pairs_text(pairs, i, 1));
        facts->markup += has_markup(qkv_pairs_text(pairs, i, 0), !facts->side[0].is_tokenized) ||
                         has_markup(qkv_pairs_text(pairs, i, 1), !facts->side[1].is_tokenized);
        facts->shared += numbers.types[0].frequency[numbers.number[0][i]] > 1 ||
                         numbers.types[1].frequency[numbers.number[1][i]] > 1;
    }
    release_numbers(&numbers);
    return complete ? QKV_OK : qkv_no_memory(error);
}

/* ---- cleaning ---- */

static bool is_unbalanced(double source, double target, double ratio)
{
    enum { TIMES = 3, SLACK = 10 /* characters: a short sentence may well be three times as long */ };
    double expected = source * ratio;
    return expected > TIMES * target + SLACK || target > TIMES * expected + SLACK;
}

/* Keeps the pairs whose `wanted` is true, in their order. */
static void keep(struct qkv_pairs *pairs, const bool *wanted)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < pairs->count; i++) {
        for (int side = 0; side < 2; side++) pairs->start[side][kept] = pairs->start[side][i];
        kept += wanted[i];
    }
    pairs->count = kept;
}

enum qkv_status qkv_pairs_clean(struct qkv_pairs *pairs, struct qkv_pairs_removed *removed,
                                struct qkv_error *error)
{
    struct numbers numbers;
    *removed = (struct qkv_pairs_removed){0};
    bool complete = number_sentences(&numbers, pairs);
    double total[2] = {0, 0};
    for (int64_t i = 0; i < pairs->count; i++)
        for (int side = 0; side < 2; side++)
            total[side] += (double)qkv_utf8_count(qkv_pairs_text(pairs, i, side));
    for (int64_t i = 0; i < pairs->count && complete; i++) {
        bool unbalanced =
            is_unbalanced((double)qkv_utf8_count(qkv_pairs_text(pairs, i, 0)),
                          (double)qkv_utf8_count(qkv_pairs_text(pairs, i, 1)), total[1] / total[0]);
        removed->repeated += !numbers.is_new[i];
        removed->unbalanced += numbers.is_new[i] && unbalanced;
        numbers.is_new[i] = numbers.is_new[i] && !unbalanced;
    }
    if (complete) keep(pairs, numbers.is_new);
    release_numbers(&numbers);
    return complete ? QKV_OK : qkv_no_memory(error);
}

/* ---- splitting ---- */

/* Groups of pairs that share sentences: disjoint sets with path halving (Tarjan and van Leeuwen 1984). */
struct groups {
    int64_t *parent; /* [count]: another pair of the group; the root is its own parent */
    int64_t *size;   /* [count]: of the group, at its root */
    int64_t *order;  /* [count]: the pairs in random order */
    struct qkv_arena arena;
};

static int64_t root_of(struct groups *groups, int64_t pair)
{
    while (groups->parent[pair] != pair) pair = groups->parent[pair] = groups->parent[groups->parent[pair]];
    return pair;
}

static void join(struct groups *groups, int64_t a, int64_t b)
{
    a = root_of(groups, a);
    b = root_of(groups, b);
    if (a == b) return;
    if (groups->size[a] < groups->size[b]) {
        int64_t larger = b;
        b = a;
        a = larger;
    }
    groups->parent[b] = a;
    groups->size[a] += groups->size[b];
}

/* False when memory runs out. The caller releases the arena even then. */
static bool make_groups(struct groups *groups, const struct qkv_pairs *pairs)
{
    struct numbers numbers;
    int64_t count = pairs->count;
    groups->parent = qkv_arena_array(&groups->arena, count, sizeof *groups->parent);
    groups->size = qkv_arena_array(&groups->arena, count, sizeof *groups->size);
    /* At first, `order` holds for each sentence of a side the first pair with that sentence; there are at most `count`. */
    groups->order = qkv_arena_array(&groups->arena, count, sizeof *groups->order);
    bool complete = number_sentences(&numbers, pairs) && groups->parent && groups->size && groups->order;
    for (int64_t i = 0; i < count && complete; i++) {
        groups->parent[i] = i;
        groups->size[i] = 1;
    }
    for (int side = 0; side < 2 && complete; side++) {
        for (int64_t s = 0; s < numbers.types[side].size; s++) groups->order[s] = -1;
        for (int64_t i = 0; i < count; i++) {
            int64_t *first = &groups->order[numbers.number[side][i]];
            if (*first < 0) *first = i;
            join(groups, *first, i);
        }
    }
    release_numbers(&numbers);
    return complete;
}

/* Assigns groups of at most `largest` pairs, in random order, to a part until it has `wanted` pairs. */
static void fill_part(struct groups *groups, int64_t count, enum qkv_pairs_part chosen, int64_t wanted,
                      int64_t largest, enum qkv_pairs_part *part)
{
    int64_t has = 0;
    for (int64_t i = 0; i < count; i++)
        has += part[i] == chosen && root_of(groups, i) == i ? groups->size[i] : 0;
    for (int64_t k = 0; k < count && has < wanted; k++) {
        int64_t root = root_of(groups, groups->order[k]), size = groups->size[root];
        if (part[root] != QKV_PAIRS_TRAIN || size > largest || has + size > wanted) continue;
        part[root] = chosen;
        has += size;
    }
}

/* Fails when a part has no pairs. */
static enum qkv_status check_parts(const struct qkv_pairs *pairs, const enum qkv_pairs_part *part,
                                   struct qkv_error *error)
{
    int64_t count[QKV_PAIRS_PARTS] = {0};
    for (int64_t i = 0; i < pairs->count; i++) count[part[i]]++;
    if (count[QKV_PAIRS_TRAIN] && count[QKV_PAIRS_DEV] && count[QKV_PAIRS_TEST]) return QKV_OK;
    return qkv_error_set(
        error,
        "%s: its %lld pairs cannot be split so that no sentence is in two parts, because too many of "
        "them share a sentence; ask for a smaller dev and test set, or add pairs with other sentences",
        pairs->path[0], (long long)pairs->count);
}

enum qkv_status qkv_pairs_split(const struct qkv_pairs *pairs, struct qkv_pairs_parts wanted,
                                enum qkv_pairs_part *part, struct qkv_error *error)
{
    enum { MAX_SHARE = 10 /* a group is at most a tenth of a part, if there are enough such groups */ };
    const int64_t sizes[QKV_PAIRS_PARTS] = {0, wanted.dev, wanted.test};
    struct groups groups = {.arena = {0}};
    int64_t count = pairs->count;
    if (!pairs->path[0]) return qkv_error_set(error, "no sentence pairs were read");
    if (wanted.dev < 1 || wanted.test < 1 || wanted.dev > count - 2 || wanted.test > count - 1 - wanted.dev)
        return qkv_error_set(
            error,
            "%s: has %lld pairs; dev (%lld) and test (%lld) need at least one each and must leave one "
            "for training",
            pairs->path[0], (long long)count, (long long)wanted.dev, (long long)wanted.test);
    if (!make_groups(&groups, pairs)) {
        qkv_arena_release(&groups.arena);
        return qkv_no_memory(error);
    }
    for (int64_t i = 0; i < count; i++) {
        groups.order[i] = i;
        part[i] = QKV_PAIRS_TRAIN;
    }
    qkv_random_shuffle((struct qkv_random){.seed = wanted.seed, .stream = QKV_STREAM_SPLIT}, count,
                       groups.order);
    for (int p = QKV_PAIRS_DEV; p < QKV_PAIRS_PARTS; p++) {
        int64_t small = sizes[p] < MAX_SHARE ? 1 : sizes[p] / MAX_SHARE;
        fill_part(&groups, count, (enum qkv_pairs_part)p, sizes[p], small, part);
    }
    for (int p = QKV_PAIRS_DEV; p < QKV_PAIRS_PARTS; p++)
        fill_part(&groups, count, (enum qkv_pairs_part)p, sizes[p], sizes[p], part);
    for (int64_t i = 0; i < count; i++) part[i] = part[root_of(&groups, i)];
    qkv_arena_release(&groups.arena);
    return check_parts(pairs, part, error);
}
