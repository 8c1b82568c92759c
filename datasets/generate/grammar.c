#include "datasets/generate/grammar.h"

#include <string.h>

/* Functions that are named after a constituent (subject, complement, clitic) append it to a phrase. */

/* Words that are not in the lexicon, by person; ARTICLE by form. */
static const char *const BE[PERSONS] = {"am", "are", "is", "are", "are"};
static const char *const ESTAR_FORMS[PERSONS] = {"estoy", "estás", "está", "estamos", "están"};
static const char *const SER_FORMS[PERSONS] = {"soy", "eres", "es", "somos", "son"};
static const char *const TENER_FORMS[PERSONS] = {"tengo", "tienes", "tiene", "tenemos", "tienen"};
static const char *const REFLEXIVE[PERSONS] = {"me", "te", "se", "nos", "se"};
static const char *const ARTICLE[FORMS] = {"el", "la", "los", "las"};

static const struct {
    const char *source, *target;
} CONJUNCTION[CONJUNCTIONS] = {{"and", "y"},          {"but", "pero"},    {"because", "porque"},
                               {"while", "mientras"}, {"when", "cuando"}, {"although", "aunque"}};

/* How English negates the finite word. */
enum negation { NEGATE_DO, NEGATE_NOT, NEGATE_CANNOT };

/* The words before the main verb. In TENSE_SIMPLE the main verb is the finite word. */
static const struct construction {
    const char *const *finite_source; /* [PERSONS] English: "wants" */
    const char *base;                 /* English after "does not": "want" */
    const char *middle_source[3]; /* English between finite word and main verb: "going", "to"; NULL ends it */
    const char *const *finite_target; /* [PERSONS] Spanish: "va" */
    const char *middle_target;        /* Spanish between finite word and main verb: "a"; or NULL */
    /* The Spanish word that each of middle_source is linked to; 0: finite, 1: middle, 2: main verb */
    int middle_link[2];
    enum negation negation;
    bool gerund; /* false: base form and infinitive */
} CONSTRUCTIONS[TENSES] = {
    [TENSE_PROGRESSIVE] = {.finite_source = BE,
                           .finite_target = ESTAR_FORMS,
                           .negation = NEGATE_NOT,
                           .gerund = true},
    [TENSE_GOING] = {.finite_source = BE,
                     .middle_source = {"going", "to"},
                     .finite_target = (const char *[]){"voy", "vas", "va", "vamos", "van"},
                     .middle_target = "a",
                     .middle_link = {0, 1},
                     .negation = NEGATE_NOT},
    [TENSE_CAN] = {.finite_source = (const char *[]){"can", "can", "can", "can", "can"},
                   .finite_target = (const char *[]){"puedo", "puedes", "puede", "podemos", "pueden"},
                   .negation = NEGATE_CANNOT},
    [TENSE_WANT] = {.finite_source = (const char *[]){"want", "want", "wants", "want", "want"},
                    .base = "want",
                    .middle_source = {"to"},
                    .finite_target = (const char *[]){"quiero", "quieres", "quiere", "queremos", "quieren"},
                    .middle_link = {2}},
    [TENSE_MUST] = {.finite_source = (const char *[]){"have", "have", "has", "have", "have"},
                    .base = "have",
                    .middle_source = {"to"},
                    .finite_target = TENER_FORMS,
                    .middle_target = "que",
                    .middle_link = {1}},
};

static bool is_plural(const struct noun_phrase *nouns)
{
    return nouns->number == PLURAL || nouns->joined;
}

/* Joined nouns are masculine when one of them is. */
static enum gender gender_of(const struct noun_phrase *nouns)
{
    for (; nouns; nouns = nouns->joined)
        if (nouns->noun->gender == MASCULINE) return MASCULINE;
    return FEMININE;
}

enum person subject_person(const struct subject *subject)
{
    if (subject->pronoun) return subject->pronoun->person;
    return is_plural(&subject->nouns) ? THIRD_PLURAL : THIRD;
}

/* A word of both languages that takes the same place in both. */
static void add_both(struct phrase *phrase, const char *source, const char *target)
{
    int at = phrase_source(phrase, source);
    phrase_linked(phrase, at, target);
}

/* "de madera" has two words for one English word. */
static void add_adjective(const struct adjective *adjective, const char *form, int source,
                          struct phrase *phrase)
{
    phrase_linked(phrase, source, form);
    if (adjective->second) phrase_linked(phrase, source, adjective->second);
}

/* A noun with its adjectives, "big red house". `noun_source` is the English form of the noun; returns its position. */
static int noun_group(const struct noun_phrase *nouns, const char *noun_source, struct phrase *phrase)
{
    const struct adjective *before = nouns->before, *after = nouns->after;
    int form = form_of(nouns->number, nouns->noun->gender);
    int first = before ? phrase_source(phrase, before->source) : -1;
    int very = nouns->very ? phrase_source(phrase, "very") : -1;
    int second = after ? phrase_source(phrase, after->source) : -1;
    int noun = phrase_source(phrase, noun_source);
    if (before) add_adjective(before, form == 0 ? before->shortened : before->target[form], first, phrase);
    phrase_linked(phrase, noun, nouns->noun->target[nouns->number]);
    if (nouns->very) phrase_linked(phrase, very, "muy");
    if (after) add_adjective(after, after->target[form], second, phrase);
    return noun;
}

/* A determiner, or the article that only Spanish has, and the noun group. Returns the position of the English noun. */
static int simple_noun_phrase(const struct noun_phrase *nouns, const char *noun_source, struct phrase *phrase)
{
    int form = form_of(nouns->number, nouns->noun->gender);
    int article = nouns->general ? phrase_target(phrase, ARTICLE[form]) : -1;
    if (nouns->determiner) {
        int source = phrase_source(phrase, nouns->determiner->source[nouns->number]);
        phrase_linked(phrase, source, nouns->determiner->target[form]);
    }
    int noun = noun_group(nouns, noun_source, phrase);
    phrase_link(phrase, noun, article);
    return noun;
}

/* The owner is first in English and last in Spanish: "my brother's dog", "el perro de mi hermano". */
static void owned_noun_phrase(const struct noun_phrase *nouns, struct phrase *phrase)
{
    struct phrase owner, owned;
    struct placement owner_at, owned_at;
    phrase_clear(&owner);
    phrase_clear(&owned);
    int genitive = simple_noun_phrase(nouns->owner, nouns->owner->noun->genitive, &owner);
    int noun = noun_group(nouns, nouns->noun->source[nouns->number], &owned);
    phrase_place_side(phrase, &owner, SOURCE, &owner_at);
    phrase_place_side(phrase, &owned, SOURCE, &owned_at);
    int article = phrase_target(phrase, ARTICLE[form_of(nouns->number, nouns->noun->gender)]);
    phrase_link(phrase, owned_at.at[SOURCE][noun], article);
    phrase_place_side(phrase, &owned, TARGET, &owned_at);
    phrase_linked(phrase, owner_at.at[SOURCE][genitive], "de");
    phrase_place_side(phrase, &owner, TARGET, &owner_at);
    phrase_place_links(phrase, &owned, &owned_at);
    phrase_place_links(phrase, &owner, &owner_at);
}

static void relative_clause(const struct noun_phrase *head, struct phrase *phrase);

/* A noun phrase without the one joined to it. */
static void noun_phrase_alone(const struct noun_phrase *nouns, struct phrase *phrase)
{
    if (nouns->owner)
        owned_noun_phrase(nouns, phrase);
    else
        simple_noun_phrase(nouns, nouns->noun->source[nouns->number], phrase);
    if (nouns->relative) relative_clause(nouns, phrase);
}

static void noun_phrase(const struct noun_phrase *nouns, struct phrase *phrase)
{
    noun_phrase_alone(nouns, phrase);
    if (!nouns->joined) return;
    grammar_conjunction(0, phrase);
    noun_phrase(nouns->joined, phrase);
}

static void complement(const struct complement *complement, struct phrase *phrase)
{
    if (!complement->preposition) return;
    phrase_place(phrase, &complement->preposition->words);
    noun_phrase(&complement->nouns, phrase);
}

/* Positions of the English words of a verb, and of Spanish words that wait for a link; -1: there is
 * none. */
struct verb_at {
    int subject; /* the pronoun */
    int support; /* "does" */
    int negation, finite, middle[2], main, particle, object;
    int mark[2]; /* Spanish: each "a" that belongs to the verb, one for each of two joined nouns */
};

static const struct verb_at NOWHERE = {-1, -1, -1, -1, {-1, -1}, -1, -1, -1, {-1, -1}};

/* The Spanish "a" before people as objects and before the subject of dative verbs. It is linked to the verb, unless it
 * became part of "al". */
static void marked_noun_phrase(const struct noun_phrase *nouns, struct phrase *phrase, struct verb_at *at)
{
    for (int i = 0; i < 2 && nouns; i++, nouns = nouns->joined) {
        if (i) grammar_conjunction(0, phrase);
        at->mark[i] = phrase_target(phrase, "a");
        noun_phrase_alone(nouns, phrase);
        if (strcmp(phrase->word[TARGET][at->mark[i]], "a") != 0) at->mark[i] = -1;
    }
}

static void link_marks(const struct verb_at *at, struct phrase *phrase)
{
    for (int i = 0; i < 2; i++) phrase_link(phrase, at->main, at->mark[i]);
}

/* The subject. Spanish drops pronouns: its verb shows the person. */
static void subject(const struct clause *clause, struct verb_at *at, struct phrase *phrase)
{
    if (clause->subject.pronoun)
        at->subject = phrase_source(phrase, clause->subject.pronoun->subject);
    else if (clause->kind == CLAUSE_VERB && clause->verb->dative)
        marked_noun_phrase(&clause->subject.nouns, phrase, at);
    else
        noun_phrase(&clause->subject.nouns, phrase);
}

/* English: "does not look", "cannot look", "is not going to look". */
static void verb_source(const struct clause *clause, struct verb_at *at, struct phrase *phrase)
{
    const struct construction *construction = &CONSTRUCTIONS[clause->tense];
    const struct verb *verb = clause->verb;
    enum person person = subject_person(&clause->subject);
    bool simple = clause->tense == TENSE_SIMPLE, third = person == THIRD;
    bool support = clause->negative && construction->negation == NEGATE_DO;
    if (support) {
        at->support = phrase_source(phrase, third ? "does" : "do");
        at->negation = phrase_source(phrase, "not");
    }
    if (!simple) {
        bool cannot = clause->negative && construction->negation == NEGATE_CANNOT;
        const char *finite = support ? construction->base : construction->finite_source[person];
        at->finite = phrase_source(phrase, cannot ? "cannot" : finite);
        if (cannot) at->negation = at->finite;
        if (clause->negative && construction->negation == NEGATE_NOT)
            at->negation = phrase_source(phrase, "not");
    }
    for (int i = 0; i < 2 && construction->middle_source[i]; i++)
        at->middle[i] = phrase_source(phrase, construction->middle_source[i]);
    at->main = phrase_source(phrase, verb->source[construction->gerund ? 2 : simple && third && !support]);
    if (simple) at->finite = at->main;
    if (clause->object && verb->separable) at->object = phrase_source(phrase, clause->object->object);
    if (verb->particle) at->particle = phrase_source(phrase, verb->particle);
    if (clause->object && !verb->separable) at->object = phrase_source(phrase, clause->object->object);
}

/* The Spanish pronouns before the verb: reflexive, dative or object. */
static void clitic(const struct clause *clause, const struct verb_at *at, struct phrase *phrase)
{
    const struct pronoun *pronoun = clause->subject.pronoun;
    enum person person = subject_person(&clause->subject);
    if (clause->verb->reflexive) phrase_linked(phrase, at->main, REFLEXIVE[person]);
    if (clause->verb->dative && pronoun)
        phrase_linked(phrase, at->subject, pronoun->indirect);
    else if (clause->verb->dative)
        phrase_linked(phrase, at->main, person == THIRD ? "le" : "les");
    if (clause->object) phrase_linked(phrase, at->object, clause->object->direct);
}

/* The Spanish verb in the simple present. A dative verb agrees with the English object: in "me
 * gustan las manzanas", the apples are the Spanish subject. */
static const char *simple_target(const struct clause *clause)
{
    if (clause->verb->dative)
        return clause->verb->present[is_plural(&clause->object_nouns) ? THIRD_PLURAL : THIRD];
    return clause->verb->present[subject_person(&clause->subject)];
}

/* Spanish: "no lo busca", "no lo va a buscar". Pronouns climb to the finite verb. */
static void verb_target(const struct clause *clause, const struct verb_at *at, struct phrase *phrase)
{
    const struct construction *construction = &CONSTRUCTIONS[clause->tense];
    const struct verb *verb = clause->verb;
    bool simple = clause->tense == TENSE_SIMPLE;
    if (clause->negative) phrase_linked(phrase, at->negation, "no");
    clitic(clause, at, phrase);
    enum person person = subject_person(&clause->subject);
    int finite = phrase_target(phrase, simple ? simple_target(clause) : construction->finite_target[person]);
    int middle = construction->middle_target ? phrase_target(phrase, construction->middle_target) : -1;
    int main =
        simple ? finite : phrase_target(phrase, construction->gerund ? verb->gerund : verb->infinitive);
    const int linked[] = {finite, middle, main};
    if (!verb->dative) phrase_link(phrase, at->subject, finite);
    phrase_link(phrase, at->support, finite);
    phrase_link(phrase, at->finite, finite);
    for (int i = 0; i < 2; i++) phrase_link(phrase, at->middle[i], linked[construction->middle_link[i]]);
    phrase_link(phrase, at->main, main);
    phrase_link(phrase, at->particle, main);
    link_marks(at, phrase);
    if (verb->governed) phrase_linked(phrase, at->main, verb->governed);
}

static void verb_clause(const struct clause *clause, struct verb_at *at, struct phrase *phrase)
{
    if (clause->frequency) phrase_place(phrase, &clause->frequency->words);
    verb_source(clause, at, phrase);
    verb_target(clause, at, phrase);
    const struct noun_phrase *object = &clause->object_nouns;
    if (clause->gap == GAP_OBJECT) {
        /* the relative pronoun replaces the object */
    } else if (object->noun && object->noun->person && !clause->verb->dative) {
        marked_noun_phrase(object, phrase, at);
        link_marks(at, phrase);
    } else if (object->noun) {
        noun_phrase(object, phrase);
    }
    complement(&clause->recipient, phrase);
}

/* Appends "is not" and the Spanish verb for it, whose forms are given. */
static void be(const struct clause *clause, const struct verb_at *at, const char *const *forms,
               struct phrase *phrase)
{
    enum person person = subject_person(&clause->subject);
    int is = phrase_source(phrase, BE[person]);
    if (clause->negative) add_both(phrase, "not", "no");
    int target = phrase_target(phrase, forms[person]);
    phrase_link(phrase, at->subject, target);
    phrase_link(phrase, is, target);
}

static void adjective_clause(const struct clause *clause, const struct verb_at *at, struct phrase *phrase)
{
    const struct pronoun *pronoun = clause->subject.pronoun;
    enum number number = subject_person(&clause->subject) >= FIRST_PLURAL ? PLURAL : SINGULAR;
    enum gender gender = pronoun ? pronoun->gender : gender_of(&clause->subject.nouns);
    be(clause, at, clause->adjective->copula == SER ? SER_FORMS : ESTAR_FORMS, phrase);
    if (clause->very) add_both(phrase, "very", "muy");
    int source = phrase_source(phrase, clause->adjective->source);
    add_adjective(clause->adjective, clause->adjective->target[form_of(number, gender)], source, phrase);
}

static void existence_clause(const struct clause *clause, struct phrase *phrase)
{
    int there = phrase_source(phrase, "there"),
        is = phrase_source(phrase, BE[subject_person(&clause->subject)]);
    int hay = phrase_target(phrase, "hay");
    phrase_link(phrase, there, hay);
    phrase_link(phrase, is, hay);
    noun_phrase(&clause->subject.nouns, phrase);
}

/* Appends a clause; of a relative clause, what follows its pronoun. */
static void append_clause(const struct clause *clause, struct verb_at *at, struct phrase *phrase)
{
    if (clause->kind != CLAUSE_EXISTENCE && clause->gap != GAP_SUBJECT) subject(clause, at, phrase);
    switch (clause->kind) {
    case CLAUSE_VERB:
        verb_clause(clause, at, phrase);
        break;
    case CLAUSE_ADJECTIVE:
        adjective_clause(clause, at, phrase);
        break;
    case CLAUSE_LOCATION:
        be(clause, at, ESTAR_FORMS, phrase);
        break;
    case CLAUSE_EXISTENCE:
        existence_clause(clause, phrase);
        break;
    case CLAUSE_STATE:
        be(clause, at, TENER_FORMS, phrase);
        phrase_place(phrase, &clause->state->words);
        if (clause->state_nouns.noun) noun_phrase(&clause->state_nouns, phrase);
        break;
    }
    complement(&clause->place, phrase);
    if (clause->adverb) phrase_place(phrase, &clause->adverb->words);
}

/* "who sleeps", "que duerme"; "that she sees", "que ve", or, of people, "a la que ve", whose "a" is linked to the verb. */
static void relative_clause(const struct noun_phrase *head, struct phrase *phrase)
{
    const struct clause *clause = head->relative;
    struct verb_at at = NOWHERE;
    bool person = head->noun->person, object = clause->gap == GAP_OBJECT;
    int pronoun = phrase_source(phrase, person && !object ? "who" : "that");
    if (person && object) {
        int mark = phrase_target(phrase, "a");
        int article = phrase_target(phrase, ARTICLE[form_of(head->number, head->noun->gender)]);
        if (article != mark) at.mark[0] = mark; /* equal: the "a" became part of "al" */
        phrase_link(phrase, pronoun, article);
    }
    phrase_linked(phrase, pronoun, "que");
    append_clause(clause, &at, phrase);
}

void grammar_conjunction(int conjunction, struct phrase *phrase)
{
    add_both(phrase, CONJUNCTION[conjunction].source, CONJUNCTION[conjunction].target);
}

void grammar_clause(const struct clause *clause, struct phrase *phrase)
{
    struct verb_at at = NOWHERE;
    append_clause(clause, &at, phrase);
}
