#include "datasets/generate/lexicon.h"
#include "core/memory.h"

#include "data/lines.h"

#include <stdarg.h>

/* ---- phrases ---- */

int phrase_source(struct phrase *phrase, const char *word)
{
    QKV_BUG(phrase->count[SOURCE] == PHRASE_WORDS, "an English phrase is too long");
    int at = phrase->count[SOURCE]++;
    phrase->word[SOURCE][at] = word;
    if (at > 0 && !strcmp(phrase->word[SOURCE][at - 1], "a") && strchr("aeiou", word[0]))
        phrase->word[SOURCE][at - 1] = "an";
    return at;
}

/* True of an i sound: "iglesia" and "hijo", but not "hielo". */
static bool begins_with_i(const char *word)
{
    if (word[0] == 'h') return word[1] == 'i' && word[2] != 'e' && word[2] != 'a';
    return word[0] == 'i';
}

int phrase_target(struct phrase *phrase, const char *word)
{
    QKV_BUG(phrase->count[TARGET] == PHRASE_WORDS, "a Spanish phrase is too long");
    int last = phrase->count[TARGET] - 1;
    if (last >= 0 && !strcmp(word, "el")) {
        bool to = !strcmp(phrase->word[TARGET][last], "a"), of = !strcmp(phrase->word[TARGET][last], "de");
        if (to || of) {
            phrase->word[TARGET][last] = to ? "al" : "del";
            return last;
        }
    }
    if (last >= 0 && !strcmp(phrase->word[TARGET][last], "y") && begins_with_i(word))
        phrase->word[TARGET][last] = "e";
    phrase->word[TARGET][phrase->count[TARGET]] = word;
    return phrase->count[TARGET]++;
}

void phrase_link(struct phrase *phrase, int source, int target)
{
    if (source < 0 || target < 0) return;
    for (int i = 0; i < phrase->link_count; i++)
        if (phrase->link[i].source == source && phrase->link[i].target == target) return;
    QKV_BUG(phrase->link_count == PHRASE_LINKS, "a phrase has too many links");
    phrase->link[phrase->link_count++] = (struct link){source, target};
}

int phrase_linked(struct phrase *phrase, int source, const char *word)
{
    int target = phrase_target(phrase, word);
    phrase_link(phrase, source, target);
    return target;
}

void phrase_place_side(struct phrase *phrase, const struct phrase *part, enum side side,
                       struct placement *placement)
{
    for (int i = 0; i < part->count[side]; i++)
        placement->at[side][i] =
            (side == SOURCE ? phrase_source : phrase_target)(phrase, part->word[side][i]);
}

void phrase_place_links(struct phrase *phrase, const struct phrase *part, const struct placement *placement)
{
    for (int i = 0; i < part->link_count; i++)
        phrase_link(phrase, placement->at[SOURCE][part->link[i].source],
                    placement->at[TARGET][part->link[i].target]);
}

void phrase_place(struct phrase *phrase, const struct phrase *part)
{
    struct placement placement;
    phrase_place_side(phrase, part, SOURCE, &placement);
    phrase_place_side(phrase, part, TARGET, &placement);
    phrase_place_links(phrase, part, &placement);
}

char *phrase_text(const struct phrase *phrase, enum side side, struct qkv_arena *arena)
{
    const char *const *words = phrase->word[side];
    size_t size = 1;
    for (int i = 0; i < phrase->count[side]; i++) size += strlen(words[i]) + 1;
    char *text = qkv_arena_zeroed(arena, size), *end = text;
    for (int i = 0; text && i < phrase->count[side]; i++) end += sprintf(end, i ? " %s" : "%s", words[i]);
    return text;
}

static int compare_links(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    return x->source != y->source ? x->source - y->source : x->target - y->target;
}

char *phrase_link_text(const struct phrase *phrase, struct qkv_arena *arena)
{
    struct link sorted[PHRASE_LINKS];
    memcpy(sorted, phrase->link, sizeof *sorted * (size_t)phrase->link_count);
    qsort(sorted, (size_t)phrase->link_count, sizeof *sorted, compare_links);
    char *text = qkv_arena_zeroed(arena, (size_t)phrase->link_count * 24 + 1), *end = text;
    for (int i = 0; text && i < phrase->link_count; i++)
        end += sprintf(end, i ? " %d-%d" : "%d-%d", sorted[i].source, sorted[i].target);
    return text;
}

/* ---- reading a lexicon ---- */

enum { MAX_FIELDS = 6, MAX_FIELD_WORDS = 24 };

/* Where tags occur, to check after the whole file is read that a noun has each of them. */
struct tag_use {
    uint64_t of_nouns;        /* tags that at least one noun has */
    int first_line[MAX_TAGS]; /* line of the first entry with each tag */
};

/* The line that is read: field 0 has the words after the kind of the entry, the others the words after each `|`. */
struct row {
    struct lexicon *lexicon;
    struct tag_use *use;
    const char *path;
    int line;
    const char *kind;
    char *word[MAX_FIELDS][MAX_FIELD_WORDS];
    int words[MAX_FIELDS], fields;
    struct qkv_error *error;
};

/* Sets the error to "path:line: message"; the value is false. */
#define BAD(row, ...) (bad((row), __VA_ARGS__), false)

static void bad(const struct row *row, const char *format, ...) QKV_PRINTF(2, 3);

static void bad(const struct row *row, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    qkv_error_set(row->error, "%s:%d: %s", row->path, row->line, text);
}

static bool need_words(const struct row *row, int field, const char *what, int min, int max)
{
    int found = field < row->fields ? row->words[field] : 0;
    if (found >= min && found <= max) return true;
    if (min == max)
        return BAD(row, "%s needs %d word%s for %s, but has %d", row->kind, min, min == 1 ? "" : "s", what,
                   found);
    return BAD(row, "%s needs %d to %d words for %s, but has %d", row->kind, min, max, what, found);
}

/* A word; NULL for `-` and after the last word. */
static const char *word_at(const struct row *row, int field, int index)
{
    if (field >= row->fields || index >= row->words[field]) return NULL;
    return strcmp(row->word[field][index], "-") ? row->word[field][index] : NULL;
}

static void copy_words(const struct row *row, int field, int first, int count, const char **to)
{
    for (int i = 0; i < count; i++) to[i] = word_at(row, field, first + i);
}

/* The index of a word in a list of names that ends with NULL; -1 after reporting the list. */
static int choose(const struct row *row, const char *word, const char *what, const char *const *names)
{
    char all[256] = "";
    for (int i = 0; names[i]; i++) {
        if (!strcmp(word, names[i])) return i;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", names[i]);
    }
    bad(row, "unknown %s '%s' (known: %s)", what, word, all);
    return -1;
}

/* Reads words `first` .. `end`-1 of a field as tags. */
static bool read_tags(const struct row *row, int field, int first, int end, uint64_t *tags)
{
    struct lexicon *lexicon = row->lexicon;
    for (int i = first; i < end; i++) {
        int tag = 0;
        while (tag < lexicon->tags && strcmp(lexicon->tag[tag], row->word[field][i])) tag++;
        if (tag == MAX_TAGS) return BAD(row, "there are more than %d different tags", MAX_TAGS);
        if (tag == lexicon->tags) {
            row->use->first_line[tag] = row->line;
            lexicon->tag[lexicon->tags++] = row->word[field][i];
        }
        *tags |= UINT64_C(1) << tag;
    }
    return true;
}

/* Reads a field "tags [> tags]": the tags of the subject, then those of the object. Without ">", all are in *subject. */
static bool read_roles(const struct row *row, int field, uint64_t *subject, uint64_t *object)
{
    if (!need_words(row, field, "its tags", 1, MAX_FIELD_WORDS)) return false;
    int end = row->words[field], arrow = 0;
    while (arrow < end && strcmp(row->word[field][arrow], ">")) arrow++;
    if (arrow == 0 || arrow == end - 1) return BAD(row, "%s needs tags on both sides of '>'", row->kind);
    return read_tags(row, field, 0, arrow, subject) && read_tags(row, field, arrow + 1, end, object);
}

/* Reads three fields: English words, Spanish words, links. */
static bool read_phrase(const struct row *row, int first, struct phrase *phrase)
{
    if (!need_words(row, first, "its English", 1, 6) || !need_words(row, first + 1, "its Spanish", 1, 6) ||
        !need_words(row, first + 2, "its links", 1, 12))
        return false;
    for (int i = 0; i < row->words[first]; i++) phrase_source(phrase, row->word[first][i]);
    for (int i = 0; i < row->words[first + 1]; i++) phrase_target(phrase, row->word[first + 1][i]);
    for (int i = 0; i < row->words[first + 2]; i++) {
        int source, target, read = 0;
        const char *text = row->word[first + 2][i];
        if (sscanf(text, "%2d-%2d%n", &source, &target, &read) != 2 || text[read] || source < 0 ||
            target < 0 || source >= phrase->count[SOURCE] || target >= phrase->count[TARGET])
            return BAD(row, "'%s' is no link between its words", text);
        phrase_link(phrase, source, target);
    }
    return true;
}

static bool read_weight(const struct row *row, int index, int *weight)
{
    char *end;
    long number = strtol(row->word[0][index], &end, 10);
    if (*end || number < 1 || number > 1000)
        return BAD(row, "weight is %s, but must be a whole number from 1 to 1000", row->word[0][index]);
    *weight = (int)number;
    return true;
}

static bool read_determiner(const struct row *row, int at)
{
    static const char *const kinds[] = {"definite", "indefinite", "each", NULL};
    struct determiner *determiner = &row->lexicon->determiner[at];
    if (!need_words(row, 0, "its kind and weight", 2, 2) || !need_words(row, 1, "its English", 2, 2) ||
        !need_words(row, 2, "its Spanish", 4, 4))
        return false;
    int kind = choose(row, row->word[0][0], "kind of determiner", kinds);
    if (kind < 0 || !read_weight(row, 1, &determiner->weight)) return false;
    determiner->kind = (enum determiner_kind)kind;
    copy_words(row, 1, 0, NUMBERS, determiner->source);
    copy_words(row, 2, 0, FORMS, determiner->target);
    return true;
}

static bool read_pronoun(const struct row *row, int at)
{
    static const char *const persons[] = {"1s", "2s", "3s", "1p", "3p", NULL}, *const genders[] = {"m", "f",
                                                                                                   NULL};
    struct pronoun *pronoun = &row->lexicon->pronoun[at];
    if (!need_words(row, 0, "its weight", 1, 1) || !need_words(row, 1, "its English", 2, 2) ||
        !need_words(row, 2, "its person and gender", 2, 2) || !need_words(row, 3, "its clitics", 2, 2))
        return false;
    int person = choose(row, row->word[2][0], "person", persons);
    int gender = choose(row, row->word[2][1], "gender", genders);
    if (person < 0 || gender < 0 || !read_weight(row, 0, &pronoun->weight)) return false;
    pronoun->subject = row->word[1][0];
    pronoun->object = row->word[1][1];
    pronoun->person = (enum person)person;
    pronoun->gender = (enum gender)gender;
    pronoun->direct = row->word[3][0];
    pronoun->indirect = row->word[3][1];
    return true;
}

static bool read_preposition(const struct row *row, int at)
{
    static const char *const kinds[] = {"place", "goal", "recipient", "company", NULL};
    struct preposition *preposition = &row->lexicon->preposition[at];
    int kind = need_words(row, 0, "its kind", 1, 1)
                   ? choose(row, row->word[0][0], "kind of preposition", kinds)
                   : -1;
    if (kind < 0) return false;
    preposition->kind = (enum preposition_kind)kind;
    if (!read_phrase(row, 1, &preposition->words) ||
        !read_roles(row, 4, &preposition->subject, &preposition->tags))
        return false;
    if (preposition->tags) return true;
    preposition->tags = preposition->subject; /* there was no '>' */
    preposition->subject = 0;
    return true;
}

static bool read_adverb(const struct row *row, int at)
{
    static const char *const kinds[] = {"frequency", "habit", "moment", NULL};
    struct adverb *adverb = &row->lexicon->adverb[at];
    int kind =
        need_words(row, 0, "its kind", 1, 1) ? choose(row, row->word[0][0], "kind of adverb", kinds) : -1;
    if (kind < 0) return false;
    adverb->kind = (enum adverb_kind)kind;
    return read_phrase(row, 1, &adverb->words);
}

static bool read_state(const struct row *row, int at)
{
    struct state *state = &row->lexicon->state[at];
    return read_phrase(row, 1, &state->words) && read_roles(row, 4, &state->subject, &state->object);
}

static bool read_any_noun(const struct row *row, int at, int numbers)
{
    static const char *const genders[] = {"m", "f", NULL};
    struct noun *noun = &row->lexicon->noun[at];
    if (!need_words(row, 1, "its English", numbers, numbers) ||
        !need_words(row, 2, "its Spanish and gender", numbers + 1, numbers + 1) ||
        !need_words(row, 3, "its tags", 1, MAX_FIELD_WORDS))
        return false;
    int gender = choose(row, row->word[2][numbers], "gender", genders);
    if (gender < 0 || !read_tags(row, 3, 0, row->words[3], &noun->tags)) return false;
    copy_words(row, 1, 0, numbers, noun->source);
    copy_words(row, 2, 0, numbers, noun->target);
    noun->gender = (enum gender)gender;
    noun->genitive = qkv_arena_format(&row->lexicon->arena, "%s's", row->word[1][0]);
    if (!noun->genitive) return BAD(row, "out of memory");
    row->use->of_nouns |= noun->tags;
    return true;
}

static bool read_noun(const struct row *row, int at)
{
    return read_any_noun(row, at, NUMBERS);
}

static bool read_mass(const struct row *row, int at)
{
    return read_any_noun(row, at, 1);
}

static bool read_adjective(const struct row *row, int at)
{
    static const char *const copulas[] = {"-", "ser", "estar", NULL};
    struct adjective *adjective = &row->lexicon->adjective[at];
    if (!need_words(row, 1, "its English", 1, 1) || !need_words(row, 2, "its Spanish", FORMS, FORMS) ||
        !need_words(row, 3, "its copula", 1, 1) || !need_words(row, 4, "its tags", 1, MAX_FIELD_WORDS))
        return false;
    int copula = choose(row, row->word[3][0], "copula", copulas);
    if (copula < 0 || !read_tags(row, 4, 0, row->words[4], &adjective->tags)) return false;
    adjective->source = row->word[1][0];
    for (int i = 0; i < FORMS; i++) {
        char *joint = strchr(row->word[2][i], '_');
        if (!joint) continue;
        *joint = '\0';
        adjective->second = joint + 1;
    }
    copy_words(row, 2, 0, FORMS, adjective->target);
    adjective->copula = (enum copula)copula;
    adjective->shortened = adjective->target[0];
    for (int i = 0; row->fields > 5 && i < row->words[5]; i++) {
        const char *option = row->word[5][i];
        if (!strcmp(option, "very"))
            adjective->gradable = true;
        else if (!strcmp(option, "definite"))
            adjective->definite = true;
        else if (!strcmp(option, "before"))
            adjective->before = true;
        else if (!strncmp(option, "before=", 7)) {
            adjective->before = true;
            adjective->shortened = option + 7;
        } else
            return BAD(row, "unknown option '%s' (known: very, before, before=FORM, definite)", option);
    }
    return true;
}

static bool read_verb_options(const struct row *row, struct verb *verb)
{
    static const char *const names[] = {"stative", "moves", "recipient", "separable", "dative", NULL};
    bool *const values[] = {&verb->stative, &verb->moves, &verb->recipient, &verb->separable, &verb->dative};
    for (int i = 0; row->fields > 4 && i < row->words[4]; i++) {
        int option = choose(row, row->word[4][i], "option", names);
        if (option < 0) return false;
        *values[option] = true;
    }
    return true;
}

static bool read_verb(const struct row *row, int at)
{
    struct verb *verb = &row->lexicon->verb[at];
    if (!need_words(row, 1, "its English", 3, 4)) return false;
    verb->reflexive = row->fields > 2 && row->words[2] > 0 && !strcmp(row->word[2][0], "se");
    int first = verb->reflexive ? 1 : 0, forms = PERSONS + 2;
    if (!need_words(row, 2, "its Spanish", first + forms, first + forms + 1)) return false;
    copy_words(row, 1, 0, 3, verb->source);
    verb->infinitive = word_at(row, 2, first);
    copy_words(row, 2, first + 1, PERSONS, verb->present);
    verb->gerund = word_at(row, 2, first + PERSONS + 1);
    verb->particle = word_at(row, 1, 3);
    verb->governed = word_at(row, 2, first + forms);
    if (verb->particle && *verb->particle++ != '+')
        return BAD(row, "an English particle is written +%s", word_at(row, 1, 3));
    if (verb->governed && *verb->governed++ != '+')
        return BAD(row, "a Spanish preposition is written +%s", word_at(row, 2, first + forms));
    return read_roles(row, 3, &verb->subject, &verb->object) && read_verb_options(row, verb);
}

static const struct noun *find_noun(const struct lexicon *lexicon, const char *word)
{
    for (int i = 0; i < lexicon->nouns; i++)
        if (!strcmp(lexicon->noun[i].source[SINGULAR], word)) return &lexicon->noun[i];
    return NULL;
}

static const struct verb *find_intransitive(const struct lexicon *lexicon, const char *word)
{
    for (int i = 0; i < lexicon->verbs; i++)
        if (!lexicon->verb[i].object && !strcmp(lexicon->verb[i].source[0], word)) return &lexicon->verb[i];
    return NULL;
}

static const struct preposition *find_place(const struct lexicon *lexicon, const char *word)
{
    for (int i = 0; i < lexicon->prepositions; i++)
        if (lexicon->preposition[i].kind == PLACE &&
            !strcmp(lexicon->preposition[i].words.word[SOURCE][0], word))
            return &lexicon->preposition[i];
    return NULL;
}

static bool read_example(const struct row *row, int at)
{
    struct example *example = &row->lexicon->example[at];
    if (!need_words(row, 1, "its sentence", 4, 4)) return false;
    char *const *word = row->word[1];
    example->subject = find_noun(row->lexicon, word[0]);
    example->verb = find_intransitive(row->lexicon, word[1]);
    example->preposition = find_place(row->lexicon, word[2]);
    example->place = find_noun(row->lexicon, word[3]);
    if (!example->subject || !example->verb || !example->preposition || !example->place)
        return BAD(
            row,
            "'%s %s %s %s' is not a noun, an intransitive verb, a preposition and a noun of the lines above",
            word[0], word[1], word[2], word[3]);
    return true;
}

/* The kinds of entries; `count` is the offset of the field of struct lexicon that counts them. */
static const struct kind {
    const char *name;
    bool (*read)(const struct row *row, int at);
    size_t count;
} KINDS[] = {
    {"determiner", read_determiner, offsetof(struct lexicon, determiners)},
    {"pronoun", read_pronoun, offsetof(struct lexicon, pronouns)},
    {"preposition", read_preposition, offsetof(struct lexicon, prepositions)},
    {"adverb", read_adverb, offsetof(struct lexicon, adverbs)},
    {"state", read_state, offsetof(struct lexicon, states)},
    {"noun", read_noun, offsetof(struct lexicon, nouns)},
    {"mass", read_mass, offsetof(struct lexicon, nouns)},
    {"adjective", read_adjective, offsetof(struct lexicon, adjectives)},
    {"verb", read_verb, offsetof(struct lexicon, verbs)},
    {"example", read_example, offsetof(struct lexicon, examples)},
};

enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

/* Splits a line in place into fields of words. The first word of field 0 becomes the kind. */
static bool split(struct row *row, char *line)
{
    char *save = NULL;
    row->fields = 1;
    for (char *word = strtok_r(line, " \t\r\n", &save); word; word = strtok_r(NULL, " \t\r\n", &save)) {
        if (!row->kind) {
            row->kind = word;
        } else if (!strcmp(word, "|")) {
            if (row->fields == MAX_FIELDS) return BAD(row, "there are more than %d '|'", MAX_FIELDS - 1);
            row->fields++;
        } else {
            int field = row->fields - 1;
            if (row->words[field] == MAX_FIELD_WORDS)
                return BAD(row, "there are more than %d words in one field", MAX_FIELD_WORDS);
            row->word[field][row->words[field]++] = word;
        }
    }
    return true;
}

static bool read_line(struct row *row, const char *line)
{
    struct lexicon *lexicon = row->lexicon;
    char *copy = qkv_arena_string(&lexicon->arena, line);
    if (!copy) return BAD(row, "out of memory");
    copy[strcspn(copy, "#")] = '\0';
    if (!split(row, copy)) return false;
    if (!row->kind) return true;
    for (int i = 0; i < KIND_COUNT; i++) {
        if (strcmp(row->kind, KINDS[i].name)) continue;
        int *count = (int *)((char *)lexicon + KINDS[i].count);
        if (*count == MAX_ENTRIES)
            return BAD(row, "there are more than %d entries of this kind", MAX_ENTRIES);
        return KINDS[i].read(row, (*count)++);
    }
    return BAD(row, "unknown kind of entry '%s'", row->kind);
}

/* A tag that no noun has is a spelling error: its entry would never be used with a noun. */
static bool check_tags(struct row *row)
{
    struct lexicon *lexicon = row->lexicon;
    for (int i = 0; i < lexicon->tags; i++) {
        row->line = row->use->first_line[i];
        if (!(row->use->of_nouns >> i & 1)) return BAD(row, "no noun has the tag '%s'", lexicon->tag[i]);
        if (!strcmp(lexicon->tag[i], "person")) lexicon->person = UINT64_C(1) << i;
    }
    for (int i = 0; i < lexicon->nouns; i++)
        lexicon->noun[i].person = lexicon->noun[i].tags & lexicon->person;
    return true;
}

static bool read_all(struct lexicon *lexicon, struct qkv_lines *lines, struct qkv_error *error)
{
    struct tag_use use = {0};
    for (bool found = true;;) {
        if (qkv_lines_next(lines, &found, error)) return false;
        struct row row = {lexicon, &use, lines->path, (int)lines->number, .error = error};
        if (!found) return check_tags(&row);
        if (!read_line(&row, lines->line)) return false;
    }
}

enum qkv_status lexicon_read(struct lexicon **lexicon, const char *path, struct qkv_error *error)
{
    *lexicon = NULL;
    struct qkv_lines lines = {0};
    struct qkv_error reason;
    if (qkv_lines_open(&lines, path, &reason))
        return qkv_error_set(error, "%s (--lexicon FILE says where the lexicon is)", reason.message);
    struct lexicon *made = calloc(1, sizeof *made);
    if (!made) qkv_error_set(error, "%s: out of memory", path);
    bool fine = made && read_all(made, &lines, error);
    qkv_lines_close(&lines);
    if (!fine) {
        lexicon_free(made);
        return QKV_INVALID;
    }
    *lexicon = made;
    return QKV_OK;
}

void lexicon_free(struct lexicon *lexicon)
{
    if (!lexicon) return;
    qkv_arena_release(&lexicon->arena);
    free(lexicon);
}
