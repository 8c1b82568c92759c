#include "datasets/generate/random_words.h"

/* Returns from the calling function: one of the `count` candidates that fit, all equally likely; NULL when none fits.
 * `fits` is an expression about candidate[i]. */
#define PICK(sampler, count, candidate, fits)                                                                \
    do {                                                                                                     \
        int64_t suitable = 0, chosen;                                                                        \
        for (int i = 0; i < (count); i++) suitable += (fits);                                                \
        if (!suitable) return NULL;                                                                          \
        chosen = dice_below(&(sampler)->dice, suitable);                                                     \
        for (int i = 0;; i++)                                                                                \
            if ((fits) && chosen-- == 0) return &(candidate)[i];                                             \
    } while (0)

const struct noun *pick_noun(struct sampler *sampler, uint64_t tags, const struct noun *except)
{
    const struct noun *noun = sampler->lexicon->noun;
    PICK(sampler, sampler->lexicon->nouns, noun, (noun[i].tags & tags) && &noun[i] != except);
}

const struct adjective *pick_adjective(struct sampler *sampler, const struct noun *noun, bool before,
                                       bool definite)
{
    const struct adjective *a = sampler->lexicon->adjective;
    PICK(sampler, sampler->lexicon->adjectives, a,
         (a[i].tags & noun->tags) && a[i].before == before && (definite || !a[i].definite));
}

const struct adjective *pick_predicate(struct sampler *sampler, const struct noun *noun)
{
    const struct adjective *a = sampler->lexicon->adjective;
    PICK(sampler, sampler->lexicon->adjectives, a,
         a[i].copula != NO_COPULA && (!noun || (a[i].tags & noun->tags)));
}

const struct preposition *pick_preposition(struct sampler *sampler, enum preposition_kind kind,
                                           uint64_t subject)
{
    const struct preposition *p = sampler->lexicon->preposition;
    PICK(sampler, sampler->lexicon->prepositions, p,
         p[i].kind == kind && (!subject || (p[i].subject & subject)));
}

const struct adverb *pick_adverb(struct sampler *sampler, enum adverb_kind kind)
{
    const struct adverb *a = sampler->lexicon->adverb;
    PICK(sampler, sampler->lexicon->adverbs, a, a[i].kind == kind);
}

const struct state *pick_state(struct sampler *sampler, uint64_t subject)
{
    const struct state *state = sampler->lexicon->state;
    PICK(sampler, sampler->lexicon->states, state, !subject || (state[i].subject & subject));
}

const struct verb *pick_verb(struct sampler *sampler, bool transitive, bool dative)
{
    const struct verb *v = sampler->lexicon->verb;
    PICK(sampler, sampler->lexicon->verbs, v, v[i].dative == dative && (v[i].object != 0) == transitive);
}

bool determiner_fits(const struct determiner *determiner, const struct noun_request *request,
                     const struct noun *noun, enum number number)
{
    bool mass = !noun->source[PLURAL];
    if (!determiner->source[number] || (mass && determiner->kind != DEFINITE)) return false;
    if (request->definite && determiner->kind == INDEFINITE) return false;
    return !request->indefinite || determiner->kind == INDEFINITE;
}

const struct verb *pick_verb_of(struct sampler *sampler, uint64_t subject, bool transitive)
{
    const struct verb *v = sampler->lexicon->verb;
    PICK(sampler, sampler->lexicon->verbs, v,
         !v[i].dative && (v[i].object != 0) == transitive && (v[i].subject & subject));
}

const struct verb *pick_verb_to(struct sampler *sampler, uint64_t object)
{
    const struct verb *v = sampler->lexicon->verb;
    PICK(sampler, sampler->lexicon->verbs, v, !v[i].dative && !v[i].governed && (v[i].object & object));
}

const struct determiner *pick_determiner(struct sampler *sampler, const struct noun_request *request,
                                         const struct noun *noun, enum number number)
{
    const struct determiner *determiner = sampler->lexicon->determiner;
    int64_t weight = 0;
    for (int i = 0; i < sampler->lexicon->determiners; i++)
        if (determiner_fits(&determiner[i], request, noun, number)) weight += determiner[i].weight;
    if (!weight) return NULL;
    int64_t chosen = dice_below(&sampler->dice, weight);
    for (int i = 0;; i++) {
        if (!determiner_fits(&determiner[i], request, noun, number)) continue;
        chosen -= determiner[i].weight;
        if (chosen < 0) return &determiner[i];
    }
}

const struct pronoun *pick_pronoun(struct sampler *sampler)
{
    const struct pronoun *pronoun = sampler->lexicon->pronoun;
    int64_t weight = 0;
    for (int i = 0; i < sampler->lexicon->pronouns; i++) weight += pronoun[i].weight;
    if (!weight) return NULL;
    int64_t chosen = dice_below(&sampler->dice, weight);
    while (chosen >= pronoun->weight) chosen -= (pronoun++)->weight;
    return pronoun;
}
