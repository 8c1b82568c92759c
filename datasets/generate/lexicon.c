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
    bool failed; /* what is read from then on is not used */
    struct qkv_error *error;
};

/* Sets the error to "path:line: message", unless there is one already. */
QKV_PRINTF(2, 3) static void bad(struct row *row, const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (row->failed) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    qkv_error_set(row->error, "%s:%d: %s", row->path, row->line, text);
    row->failed = true;
}

static void need_words(struct row *row, int field, const char *what, int min, int max)
{
    int found = row->words[field];
    if (found < min || found > max) {
        char upper[16] = "";
        if (min != max) snprintf(upper, sizeof upper, " to %d", max);
        bad(row, "%s needs %d%s word%s for %s, but has %d", row->kind, min, upper, max == 1 ? "" : "s", what,
            found);
    }
}

/* A word; NULL for `-` and after the last word. */
static const char *word_at(const struct row *row, int field, int index)
{
    if (index >= row->words[field]) return NULL;
    return strcmp(row->word[field][index], "-") ? row->word[field][index] : NULL;
}

static void copy_words(const struct row *row, int field, int first, int count, const char **to)
{
    for (int i = 0; i < count; i++) to[i] = word_at(row, field, first + i);
}

/* The index of a word in a list of names, as in "m, f". */
static int choose(struct row *row, int field, int index, const char *what, const char *names)
{
    const char *word = index < row->words[field] ? row->word[field][index] : "";
    int i = 0;
    for (const char *name = names; *name; i++) {
        size_t size = strcspn(name, ",");
        if (strlen(word) == size && !strncmp(word, name, size)) return i;
        name += size + strspn(name + size, ", ");
    }
    bad(row, "unknown %s '%s' (known: %s)", what, word, names);
    return 0;
}

/* Reads words `first` .. `end`-1 of a field as tags. */
static uint64_t read_tags(struct row *row, int field, int first, int end)
{
    struct lexicon *lexicon = row->lexicon;
    uint64_t tags = 0;
    for (int i = first; i < end && !row->failed; i++) {
        int tag = 0;
        while (tag < lexicon->tags && strcmp(lexicon->tag[tag], row->word[field][i])) tag++;
        if (tag == MAX_TAGS) {
            bad(row, "there are more than %d different tags", MAX_TAGS);
        } else if (tag == lexicon->tags) {
            row->use->first_line[tag] = row->line;
            lexicon->tag[lexicon->tags++] = row->word[field][i];
        }
        tags |= UINT64_C(1) << tag % MAX_TAGS;
    }
    return tags;
}

/* Reads a field "tags [> tags]": the tags of the subject, then those of the object. Without ">", all are in *subject. */
static void read_roles(struct row *row, int field, uint64_t *subject, uint64_t *object)
{
    need_words(row, field, "its tags", 1, MAX_FIELD_WORDS);
    int end = row->words[field], arrow = 0;
    while (arrow < end && strcmp(row->word[field][arrow], ">")) arrow++;
    if (arrow == 0 || arrow == end - 1) bad(row, "%s needs tags on both sides of '>'", row->kind);
    *subject = read_tags(row, field, 0, arrow);
    *object = read_tags(row, field, arrow + 1, end);
}

/* Reads fields 1 to 3: English words, Spanish words, links. */
static void read_phrase(struct row *row, struct phrase *phrase)
{
    need_words(row, 1, "its English", 1, 6);
    need_words(row, 2, "its Spanish", 1, 6);
    need_words(row, 3, "its links", 1, 12);
    for (int i = 0; i < row->words[1]; i++) phrase_source(phrase, row->word[1][i]);
    for (int i = 0; i < row->words[2]; i++) phrase_target(phrase, row->word[2][i]);
    for (int i = 0; i < row->words[3]; i++) {
        int source, target, read = 0;
        const char *text = row->word[3][i];
        if (sscanf(text, "%2d-%2d%n", &source, &target, &read) != 2 || text[read] || source < 0 ||
            target < 0 || source >= phrase->count[SOURCE] || target >= phrase->count[TARGET])
            bad(row, "'%s' is no link between its words", text);
        else
            phrase_link(phrase, source, target);
    }
}

static int read_weight(struct row *row, int index)
{
    const char *word = index < row->words[0] ? row->word[0][index] : "";
    char *end;
    long number = strtol(word, &end, 10);
    if (*end || number < 1 || number > 1000)
        bad(row, "weight is %s, but must be a whole number from 1 to 1000", word);
    return (int)number;
}

static const char GENDERS[] = "m, f";

static void read_determiner(struct row *row, int at)
{
    struct determiner *determiner = &row->lexicon->determiner[at];
    need_words(row, 0, "its kind and weight", 2, 2);
    need_words(row, 1, "its English", 2, 2);
    need_words(row, 2, "its Spanish", 4, 4);
    determiner->kind =
        (enum determiner_kind)choose(row, 0, 0, "kind of determiner", "definite, indefinite, each");
    determiner->weight = read_weight(row, 1);
    copy_words(row, 1, 0, NUMBERS, determiner->source);
    copy_words(row, 2, 0, FORMS, determiner->target);
}

static void read_pronoun(struct row *row, int at)
{
    need_words(row, 0, "its weight", 1, 1);
    need_words(row, 1, "its English", 2, 2);
    need_words(row, 2, "its person and gender", 2, 2);
    need_words(row, 3, "its clitics", 2, 2);
    row->lexicon->pronoun[at] = (struct pronoun){
        .weight = read_weight(row, 0),
        .subject = row->word[1][0],
        .object = row->word[1][1],
        .direct = row->word[3][0],
        .indirect = row->word[3][1],
        .person = (enum person)choose(row, 2, 0, "person", "1s, 2s, 3s, 1p, 3p"),
        .gender = (enum gender)choose(row, 2, 1, "gender", GENDERS),
    };
}

static void read_preposition(struct row *row, int at)
{
    struct preposition *preposition = &row->lexicon->preposition[at];
    need_words(row, 0, "its kind", 1, 1);
    preposition->kind =
        (enum preposition_kind)choose(row, 0, 0, "kind of preposition", "place, goal, recipient, company");
    read_phrase(row, &preposition->words);
    read_roles(row, 4, &preposition->subject, &preposition->tags);
    if (preposition->tags) return;
    preposition->tags = preposition->subject; /* there was no '>' */
    preposition->subject = 0;
}

static void read_adverb(struct row *row, int at)
{
    struct adverb *adverb = &row->lexicon->adverb[at];
    need_words(row, 0, "its kind", 1, 1);
    adverb->kind = (enum adverb_kind)choose(row, 0, 0, "kind of adverb", "frequency, habit, moment");
    read_phrase(row, &adverb->words);
}

static void read_state(struct row *row, int at)
{
    struct state *state = &row->lexicon->state[at];
    read_phrase(row, &state->words);
    read_roles(row, 4, &state->subject, &state->object);
}

/* A noun, or a mass noun, which has no plural. */
static void read_noun(struct row *row, int at)
{
    struct noun *noun = &row->lexicon->noun[at];
    int numbers = strcmp(row->kind, "mass") ? NUMBERS : 1;
    need_words(row, 1, "its English", numbers, numbers);
    need_words(row, 2, "its Spanish and gender", numbers + 1, numbers + 1);
    need_words(row, 3, "its tags", 1, MAX_FIELD_WORDS);
    noun->gender = (enum gender)choose(row, 2, numbers, "gender", GENDERS);
    noun->tags = read_tags(row, 3, 0, row->words[3]);
    copy_words(row, 1, 0, numbers, noun->source);
    copy_words(row, 2, 0, numbers, noun->target);
    noun->genitive = qkv_arena_format(&row->lexicon->arena, "%s's", row->words[1] ? row->word[1][0] : "");
    if (!noun->genitive) bad(row, "out of memory");
    row->use->of_nouns |= noun->tags;
}

static void read_adjective(struct row *row, int at)
{
    struct adjective *adjective = &row->lexicon->adjective[at];
    need_words(row, 1, "its English", 1, 1);
    need_words(row, 2, "its Spanish", FORMS, FORMS);
    need_words(row, 3, "its copula", 1, 1);
    need_words(row, 4, "its tags", 1, MAX_FIELD_WORDS);
    adjective->copula = (enum copula)choose(row, 3, 0, "copula", "-, ser, estar");
    adjective->tags = read_tags(row, 4, 0, row->words[4]);
    adjective->source = row->word[1][0];
    for (int i = 0; i < row->words[2]; i++) {
        char *joint = strchr(row->word[2][i], '_');
        if (!joint) continue;
        *joint = '\0';
        adjective->second = joint + 1;
    }
    copy_words(row, 2, 0, FORMS, adjective->target);
    adjective->shortened = adjective->target[0];
    for (int i = 0; i < row->words[5]; i++) {
        const char *option = row->word[5][i];
        bool is_before = !strncmp(option, "before", 6) && (!option[6] || option[6] == '=');
        if (is_before && option[6]) adjective->shortened = option + 7;
        adjective->before |= is_before;
        adjective->gradable |= !strcmp(option, "very");
        adjective->definite |= !strcmp(option, "definite");
        if (!is_before && strcmp(option, "very") && strcmp(option, "definite"))
            bad(row, "unknown option '%s' (known: very, before, before=FORM, definite)", option);
    }
}

/* A word that is marked by a plus, such as +up; NULL if there is none. */
static const char *marked_word(struct row *row, int field, int index, const char *what)
{
    const char *word = word_at(row, field, index);
    if (word && *word != '+') bad(row, "%s is written +%s", what, word);
    return word ? word + 1 : NULL;
}

static void read_verb(struct row *row, int at)
{
    struct verb *verb = &row->lexicon->verb[at];
    verb->reflexive = row->words[2] > 0 && !strcmp(row->word[2][0], "se");
    int first = verb->reflexive ? 1 : 0, forms = PERSONS + 2;
    need_words(row, 1, "its English", 3, 4);
    need_words(row, 2, "its Spanish", first + forms, first + forms + 1);
    copy_words(row, 1, 0, 3, verb->source);
    verb->infinitive = word_at(row, 2, first);
    copy_words(row, 2, first + 1, PERSONS, verb->present);
    verb->gerund = word_at(row, 2, first + PERSONS + 1);
    verb->particle = marked_word(row, 1, 3, "an English particle");
    verb->governed = marked_word(row, 2, first + forms, "a Spanish preposition");
    read_roles(row, 3, &verb->subject, &verb->object);
    bool *const options[] = {&verb->stative, &verb->moves, &verb->recipient, &verb->separable, &verb->dative};
    for (int i = 0; i < row->words[4]; i++)
        *options[choose(row, 4, i, "option", "stative, moves, recipient, separable, dative")] = true;
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

static void read_example(struct row *row, int at)
{
    struct example *example = &row->lexicon->example[at];
    char *const *word = row->word[1];
    need_words(row, 1, "its sentence", 4, 4);
    if (row->failed) return;
    *example = (struct example){.subject = find_noun(row->lexicon, word[0]),
                                .verb = find_intransitive(row->lexicon, word[1]),
                                .preposition = find_place(row->lexicon, word[2]),
                                .place = find_noun(row->lexicon, word[3])};
    if (!example->subject || !example->verb || !example->preposition || !example->place)
        bad(row,
            "'%s %s %s %s' is not a noun, an intransitive verb, a preposition and a noun of the lines above",
            word[0], word[1], word[2], word[3]);
}

/* Splits a line in place into fields of words. The first word of field 0 becomes the kind. */
static void split(struct row *row, char *line)
{
    char *save = NULL;
    for (char *word = strtok_r(line, " \t\r\n", &save); word; word = strtok_r(NULL, " \t\r\n", &save)) {
        int field = row->fields;
        if (!row->kind)
            row->kind = word;
        else if (!strcmp(word, "|"))
            row->fields++;
        else if (row->words[field] < MAX_FIELD_WORDS)
            row->word[field][row->words[field]++] = word;
        else
            bad(row, "there are more than %d words in one field", MAX_FIELD_WORDS);
        if (row->fields == MAX_FIELDS) bad(row, "there are more than %d '|'", MAX_FIELDS - 1);
        if (row->failed) return;
    }
}

static void read_line(struct row *row, const char *line)
{
    struct lexicon *lexicon = row->lexicon;
    const struct {
        const char *name;
        void (*read)(struct row *row, int at);
        int *count;
    } kinds[] = {
        {"determiner", read_determiner, &lexicon->determiners},
        {"pronoun", read_pronoun, &lexicon->pronouns},
        {"preposition", read_preposition, &lexicon->prepositions},
        {"adverb", read_adverb, &lexicon->adverbs},
        {"state", read_state, &lexicon->states},
        {"noun", read_noun, &lexicon->nouns},
        {"mass", read_noun, &lexicon->nouns},
        {"adjective", read_adjective, &lexicon->adjectives},
        {"verb", read_verb, &lexicon->verbs},
        {"example", read_example, &lexicon->examples},
    };
    char *copy = qkv_arena_format(&lexicon->arena, "%.*s", (int)strcspn(line, "#"), line);
    size_t kind = 0;
    if (!copy) {
        bad(row, "out of memory");
        return;
    }
    split(row, copy);
    if (row->failed || !row->kind) return;
    while (kind < sizeof kinds / sizeof *kinds && strcmp(row->kind, kinds[kind].name)) kind++;
    if (kind == sizeof kinds / sizeof *kinds)
        bad(row, "unknown kind of entry '%s'", row->kind);
    else if (*kinds[kind].count == MAX_ENTRIES)
        bad(row, "there are more than %d entries of this kind", MAX_ENTRIES);
    else
        kinds[kind].read(row, (*kinds[kind].count)++);
}

/* A tag that no noun has is a spelling error: its entry would never be used with a noun. */
static void check_tags(struct row *row)
{
    struct lexicon *lexicon = row->lexicon;
    for (int i = 0; i < lexicon->tags; i++) {
        row->line = row->use->first_line[i];
        if (!(row->use->of_nouns >> i & 1)) bad(row, "no noun has the tag '%s'", lexicon->tag[i]);
        if (!strcmp(lexicon->tag[i], "person")) lexicon->person = UINT64_C(1) << i;
    }
    for (int i = 0; i < lexicon->nouns; i++)
        lexicon->noun[i].person = lexicon->noun[i].tags & lexicon->person;
}

static bool read_all(struct lexicon *lexicon, struct qkv_lines *lines, struct qkv_error *error)
{
    struct tag_use use = {0};
    for (bool found = true;;) {
        if (qkv_lines_next(lines, &found, error)) return false;
        struct row row = {lexicon, &use, lines->path, (int)lines->number, .error = error};
        if (found)
            read_line(&row, lines->line);
        else
            check_tags(&row);
        if (row.failed || !found) return !row.failed;
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
    if (!made) qkv_no_memory(error);
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
