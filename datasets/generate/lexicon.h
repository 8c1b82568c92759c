/* Phrases in two languages, and the words of the grammar, read from a text file; datasets/en_es/lexicon.txt explains its
 * format.
 *
 * A tag is one bit of a uint64_t: a class of nouns, such as "person" or "food". Two entries fit when they share a tag: a
 * verb with the object tag "food" can have every noun with this tag as object. `source` is English, `target` is Spanish. */
#pragma once

#include "qkv/base.h"

/* ---- phrases ---- */

/* The sides of a phrase: English is the source, Spanish the target. */
enum side { SOURCE, TARGET, SIDES };

enum { PHRASE_WORDS = 192, PHRASE_LINKS = 768 };

/* English word `source` translates to Spanish word `target` (or a part of it); both from 0. */
struct link {
    int source, target;
};

/* A phrase in English and Spanish with its word alignment. The grammar appends words to both sides. A finished phrase can
 * be placed into another one, each side at a different point, because the order of constituents can differ: "my brother's
 * dog", "el perro de mi hermano". Caller's storage; all zero is an empty phrase. The words are not copied. */
struct phrase {
    const char *word[SIDES][PHRASE_WORDS];
    struct link link[PHRASE_LINKS];
    int count[SIDES], link_count;
};

/* Empties a phrase. Setting it to zero would take much longer. */
static inline void phrase_clear(struct phrase *phrase)
{
    phrase->count[SOURCE] = phrase->count[TARGET] = phrase->link_count = 0;
}

/* Appends an English word and returns its position. "a" before a vowel becomes "an". */
int phrase_source(struct phrase *phrase, const char *word);

/* Appends a Spanish word and returns its position. "a" and "de" contract with a following "el"; the position is then that
 * of "al" or "del", which keeps its links. "y" becomes "e" before an i sound. */
int phrase_target(struct phrase *phrase, const char *word);

/* Links two positions. A link that exists is not added again; a negative position is ignored. */
void phrase_link(struct phrase *phrase, int source, int target);

/* Appends a Spanish word that is linked to an English one; returns its position. */
int phrase_linked(struct phrase *phrase, int source, const char *word);

/* The positions of the words of a placed phrase. */
struct placement {
    int at[SIDES][PHRASE_WORDS];
};

/* Appends one side of `part` to `phrase`. Call it for both, in any order, then phrase_place_links. */
void phrase_place_side(struct phrase *phrase, const struct phrase *part, enum side side,
                       struct placement *placement);
void phrase_place_links(struct phrase *phrase, const struct phrase *part, const struct placement *placement);

/* Appends both sides and the links. */
void phrase_place(struct phrase *phrase, const struct phrase *part);

/* One side as text with single spaces, or the links as `i-j`, sorted by i, then j. NULL when there is no memory. */
char *phrase_text(const struct phrase *phrase, enum side side, struct qkv_arena *arena);
char *phrase_link_text(const struct phrase *phrase, struct qkv_arena *arena);

/* ---- words ---- */

enum number { SINGULAR, PLURAL };
enum gender { MASCULINE, FEMININE };
enum person { FIRST, SECOND, THIRD, FIRST_PLURAL, THIRD_PLURAL, PERSONS };

/* Sizes of tables by number, and by number and gender together. */
enum { NUMBERS = 2, FORMS = 4 };

/* Index of a form: masculine singular, feminine singular, masculine plural, feminine plural. */
static inline int form_of(enum number number, enum gender gender)
{
    return 2 * (int)number + (int)gender;
}

enum determiner_kind {
    DEFINITE,   /* "the", "my": fits every noun */
    INDEFINITE, /* "a", "many": not with mass nouns */
    EACH,       /* "every": not with mass nouns, joined nouns, or adjectives that need DEFINITE */
};

struct determiner {
    enum determiner_kind kind;
    int weight;                                  /* how often it is drawn, relative to others */
    const char *source[NUMBERS], *target[FORMS]; /* NULL: there is no such form */
};

struct pronoun {
    int weight;
    const char *subject, *object;  /* English */
    const char *direct, *indirect; /* Spanish clitics */
    enum person person;
    enum gender gender;
};

enum preposition_kind {
    PLACE,     /* "under" */
    GOAL,      /* "to", "from", with verbs that move */
    RECIPIENT, /* "to" a person */
    COMPANY,   /* "with" */
};

struct preposition {
    enum preposition_kind kind;
    struct phrase words;
    uint64_t subject; /* PLACE: tags of what can be there; otherwise 0 */
    uint64_t tags;    /* of the nouns that can follow */
};

enum adverb_kind {
    FREQUENCY, /* "always", before the verb */
    HABIT,     /* "every day", at the end, with the simple present */
    MOMENT,    /* "now", at the end, with other tenses and after "is" */
};

struct adverb {
    enum adverb_kind kind;
    struct phrase words;
};

/* "is afraid of" and similar, where Spanish has "tiene". */
struct state {
    struct phrase words;
    uint64_t subject, object; /* tags of who is in the state, and of the noun after it; object 0: none */
};

struct noun {
    const char *source[NUMBERS], *target[NUMBERS]; /* plural NULL: a mass noun */
    const char *genitive;                          /* "brother's" */
    bool person; /* has the tag "person": Spanish marks it with "a" as an object */
    enum gender gender;
    uint64_t tags;
};

/* The Spanish verb for the "is" before an adjective. NO_COPULA: the adjective never follows "is". */
enum copula { NO_COPULA, SER, ESTAR };

struct adjective {
    const char *source, *target[FORMS], *second; /* second: "madera" of "de madera", or NULL */
    const char *shortened;                       /* masculine singular before its noun: "buen" */
    enum copula copula;
    bool gradable; /* "very" can precede it */
    bool before;   /* precedes its noun in Spanish */
    bool definite; /* only in definite noun phrases: "the other dog" */
    uint64_t tags;
};

struct verb {
    const char *source[3];                              /* English base, third person, gerund */
    const char *particle;                               /* English: "up"; or NULL */
    const char *infinitive, *present[PERSONS], *gerund; /* Spanish */
    const char *governed;     /* Spanish preposition before the object: "en"; or NULL */
    uint64_t subject, object; /* tags; object 0: intransitive */
    bool reflexive;           /* Spanish has "se" */
    bool stative;             /* has no progressive: "know" */
    bool moves;               /* can have a GOAL */
    bool recipient;           /* can have a RECIPIENT: "give" */
    bool separable;           /* an object pronoun precedes the particle: "look it up" */
    bool dative;              /* the English subject is a Spanish dative: "i like", "me gusta" */
};

/* "the `subject` is `verb`ing `preposition` the `place`", always in the test set. */
struct example {
    const struct noun *subject, *place;
    const struct verb *verb;
    const struct preposition *preposition;
};

enum { MAX_ENTRIES = 512, MAX_TAGS = 64 };

/* On the heap, because it is large. Entries of a kind are in the order of the file. */
struct lexicon {
    struct qkv_arena arena; /* owns every word */
    struct determiner determiner[MAX_ENTRIES];
    struct pronoun pronoun[MAX_ENTRIES];
    struct preposition preposition[MAX_ENTRIES];
    struct adverb adverb[MAX_ENTRIES];
    struct state state[MAX_ENTRIES];
    struct noun noun[MAX_ENTRIES];
    struct adjective adjective[MAX_ENTRIES];
    struct verb verb[MAX_ENTRIES];
    struct example example[MAX_ENTRIES];
    int determiners, pronouns, prepositions, adverbs, states, nouns, adjectives, verbs, examples;
    const char *tag[MAX_TAGS];
    int tags;
    uint64_t person; /* the tag "person" */
};

/* Reads a lexicon; on failure *lexicon is NULL and the error says file, line and why. */
enum qkv_status lexicon_read(struct lexicon **lexicon, const char *path, struct qkv_error *error);

void lexicon_free(struct lexicon *lexicon);
