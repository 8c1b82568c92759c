/* A grammar of English and Spanish: the meaning of a clause (struct clause), and the words that
 * express it in both languages (struct phrase).
 *
 * Meanings are separate from phrases, so that they can be drawn at random (random_sentence.c) or given. A relative clause
 * leaves out the noun phrase that it describes. Longer sentences join the phrases of several clauses. */
#pragma once

#include "datasets/generate/lexicon.h"

struct clause;

/* "the very big dog", "my brother's dog", "the dog and the cat", "the dog that sleeps". */
struct noun_phrase {
    const struct determiner *determiner; /* NULL: none, or the owner replaces it */
    const struct noun_phrase *owner;     /* "my brother's", or NULL */
    const struct adjective *before,
        *after;   /* position in Spanish; NULL: none. English has both before the noun */
    bool very;    /* intensifies `after` */
    bool general; /* only Spanish has an article: "like apples", "gustan las manzanas" */
    const struct noun *noun;
    enum number number;
    const struct noun_phrase *joined; /* by "and", or NULL; both nouns are people, or both are not */
    const struct clause *relative;    /* describes the noun; its gap is this noun phrase; or NULL */
};

/* The subject: a pronoun, which Spanish drops, or a noun phrase. */
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

/* The part that a relative clause leaves out. Its noun phrase is still set, for agreement. */
enum gap {
    GAP_NONE,
    GAP_SUBJECT, /* the boy who eats the apple */
    GAP_OBJECT, /* the apple that the boy eats; only CLAUSE_VERB, and verbs that are not dative or governed */
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
    struct noun_phrase state_nouns; /* "is afraid of the dog"; noun NULL: none */
    /* all */
    struct complement place;
    const struct adverb *adverb; /* at the end, or NULL */
};

/* The conjunctions "and", "because", ..., numbered from 0; 0 is "and". */
enum { CONJUNCTIONS = 6 };
void grammar_conjunction(int conjunction, struct phrase *phrase);

/* Appends the clause to a phrase. */
void grammar_clause(const struct clause *clause, struct phrase *phrase);

/* The person that the verb of a subject has. */
enum person subject_person(const struct subject *subject);
