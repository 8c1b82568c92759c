/* The grammar shared by English and Spanish: a clause as meaning, and how it is said in both languages at
 * once.
 *
 * Meaning and words are apart so that meanings can be drawn at random (draw.c), or be given. A relative
 * clause is a clause that leaves out the noun phrase it belongs to; a finished clause is a struct phrase like
 * any other, so that longer sentences (sentence.c) can place clauses beside each other. */
#ifndef QKV_DATASETS_GRAMMAR_H
#define QKV_DATASETS_GRAMMAR_H

#include "datasets/generate/lexicon.h"
#include "datasets/generate/phrase.h"

#include <stdbool.h>

struct clause;

/* "the very big dog", "my brother's dog", "the dog and the cat", "the dog that sleeps". */
struct noun_phrase {
    const struct determiner *determiner;    /* NULL: none, or the owner stands in its place */
    const struct noun_phrase *owner;        /* "my brother's", or NULL */
    const struct adjective *before, *after; /* in Spanish; or NULL. English has both before the noun */
    bool very;                              /* intensifies `after` */
    bool general; /* Spanish asks for an article where English has none: "like apples" */
    const struct noun *noun;
    enum number number;
    const struct noun_phrase *joined; /* by "and", or NULL; of the same kind: both people, or both not */
    const struct clause *relative;    /* whose gap this fills, or NULL */
};

/* Who does it: a pronoun, which Spanish drops, or a noun phrase. */
struct subject {
    const struct pronoun *pronoun; /* or NULL */
    struct noun_phrase nouns;
};

/* "under the table" */
struct complement {
    const struct preposition *preposition; /* NULL: none */
    struct noun_phrase nouns;
};

enum clause_kind {
    CLAUSE_VERB,      /* the dog eats (the apple) */
    CLAUSE_ADJECTIVE, /* the dog is big */
    CLAUSE_LOCATION,  /* the dog is under the table */
    CLAUSE_EXISTENCE, /* there is a dog under the table */
    CLAUSE_STATE,     /* the dog is hungry */
};

enum tense {
    TENSE_SIMPLE,      /* eats */
    TENSE_PROGRESSIVE, /* is eating */
    TENSE_GOING,       /* is going to eat */
    TENSE_CAN,         /* can eat */
    TENSE_WANT,        /* wants to eat */
    TENSE_MUST,        /* has to eat */
    TENSES
};

/* What a relative clause leaves out because its noun says it; the noun phrase there is for agreement only. */
enum gap {
    GAP_NONE,
    GAP_SUBJECT, /* the boy who eats the apple */
    GAP_OBJECT,  /* the apple that the boy eats; CLAUSE_VERB only, neither dative nor governed */
};

struct clause {
    enum clause_kind kind;
    enum gap gap;
    struct subject subject;
    bool negative;
    /* CLAUSE_VERB */
    const struct verb *verb;
    enum tense tense;
    const struct adverb *frequency;  /* before the verb, or NULL */
    const struct pronoun *object;    /* or NULL */
    struct noun_phrase object_nouns; /* noun NULL: none */
    struct complement recipient;
    /* CLAUSE_ADJECTIVE */
    const struct adjective *adjective;
    bool very;
    /* CLAUSE_STATE */
    const struct state *state;
    struct noun_phrase state_nouns;
    /* all */
    struct complement place;
    const struct adverb *adverb; /* at the end, or NULL */
};

/* What joins clauses: "and", "because"; from 0. The first is "and". */
enum { CONJUNCTIONS = 6 };
void grammar_conjunction(int conjunction, struct phrase *phrase);

/* Writes the clause at the end of an empty or unfinished phrase. */
void grammar_clause(const struct clause *clause, struct phrase *phrase);

/* The person that verbs agree with. */
enum person subject_person(const struct subject *subject);

#endif
