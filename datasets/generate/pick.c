#include "datasets/generate/pick.h"

/* Picks one of the first `count` candidates that fit, all alike; -1 when none does. */
#define PICK(drawing, count, candidate, fits)                                                                \
    do {                                                                                                     \
        int64_t suitable = 0, chosen;                                                                        \
        for (int i = 0; i < (count); i++) suitable += (fits);                                                \
        if (!suitable) return NULL;                                                                          \
        chosen = dice_below(&(drawing)->dice, suitable);                                                     \
        for (int i = 0;; i++)                                                                                \
            if ((fits) && chosen-- == 0) return &(candidate)[i];                                             \
    } while (0)

const struct noun *pick_noun(struct drawing *d, uint64_t tags, const struct noun *unlike)
{
    const struct noun *noun = d->lexicon->noun;
    PICK(d, d->lexicon->nouns, noun, (noun[i].tags & tags) && &noun[i] != unlike);
}

const struct adjective *pick_adjective(struct drawing *d, const struct noun *noun, bool before, bool definite)
{
    const struct adjective *a = d->lexicon->adjective;
    PICK(d, d->lexicon->adjectives, a,
         (a[i].tags & noun->tags) && a[i].before == before && (definite || !a[i].definite));
}

const struct adjective *pick_predicate(struct drawing *d, const struct noun *noun)
{
    const struct adjective *a = d->lexicon->adjective;
    PICK(d, d->lexicon->adjectives, a, a[i].copula != NO_COPULA && (!noun || (a[i].tags & noun->tags)));
}

const struct preposition *pick_preposition(struct drawing *d, enum preposition_kind kind, uint64_t subject)
{
    const struct preposition *p = d->lexicon->preposition;
    PICK(d, d->lexicon->prepositions, p, p[i].kind == kind && (!subject || (p[i].subject & subject)));
}

const struct adverb *pick_adverb(struct drawing *d, enum adverb_kind kind)
{
    const struct adverb *a = d->lexicon->adverb;
    PICK(d, d->lexicon->adverbs, a, a[i].kind == kind);
}

const struct state *pick_state(struct drawing *d, uint64_t subject)
{
    const struct state *state = d->lexicon->state;
    PICK(d, d->lexicon->states, state, !subject || (state[i].subject & subject));
}

const struct verb *pick_verb(struct drawing *d, bool transitive, bool dative)
{
    const struct verb *v = d->lexicon->verb;
    PICK(d, d->lexicon->verbs, v, v[i].dative == dative && (v[i].object != 0) == transitive);
}

bool suits(const struct determiner *determiner, const struct wish *wish, const struct noun *noun,
           enum number number)
{
    bool mass = !noun->source[PLURAL];
    if (!determiner->source[number] || (mass && determiner->kind != DEFINITE)) return false;
    if (wish->definite && determiner->kind == INDEFINITE) return false;
    return !wish->indefinite || determiner->kind == INDEFINITE;
}

const struct verb *pick_verb_of(struct drawing *d, uint64_t subject, bool transitive)
{
    const struct verb *v = d->lexicon->verb;
    PICK(d, d->lexicon->verbs, v,
         !v[i].dative && (v[i].object != 0) == transitive && (v[i].subject & subject));
}

const struct verb *pick_verb_to(struct drawing *d, uint64_t object)
{
    const struct verb *v = d->lexicon->verb;
    PICK(d, d->lexicon->verbs, v, !v[i].dative && !v[i].governed && (v[i].object & object));
}

const struct determiner *pick_determiner(struct drawing *d, const struct wish *wish, const struct noun *noun,
                                         enum number number)
{
    const struct determiner *determiner = d->lexicon->determiner;
    int64_t weight = 0;
    for (int i = 0; i < d->lexicon->determiners; i++)
        if (suits(&determiner[i], wish, noun, number)) weight += determiner[i].weight;
    if (!weight) return NULL;
    int64_t chosen = dice_below(&d->dice, weight);
    for (int i = 0;; i++) {
        if (!suits(&determiner[i], wish, noun, number)) continue;
        chosen -= determiner[i].weight;
        if (chosen < 0) return &determiner[i];
    }
}

const struct pronoun *pick_pronoun(struct drawing *d)
{
    const struct pronoun *pronoun = d->lexicon->pronoun;
    int64_t weight = 0;
    for (int i = 0; i < d->lexicon->pronouns; i++) weight += pronoun[i].weight;
    if (!weight) return NULL;
    int64_t chosen = dice_below(&d->dice, weight);
    while (chosen >= pronoun->weight) chosen -= (pronoun++)->weight;
    return pronoun;
}
