/* Random words of a lexicon. Every word that fits is equally likely, or as likely as its weight says. NULL when no word
 * fits. */
#ifndef QKV_DATASETS_RANDOM_WORDS_H
#define QKV_DATASETS_RANDOM_WORDS_H

#include "datasets/generate/random_sentence.h"

/* What a noun phrase must be like. */
struct noun_request {
    uint64_t tags;
    const struct noun *except; /* any noun but this one, which the clause has already; may be NULL */
    bool definite, indefinite; /* the determiner must be so */
    bool bare;                 /* may have no determiner: "eats apples" */
    bool general; /* may have no determiner in English, but has an article in Spanish: "likes apples" */
    bool plain;   /* must have neither a joined noun phrase nor a relative clause */
};

/* True when a determiner fits the noun and the request. */
bool determiner_fits(const struct determiner *determiner, const struct noun_request *request,
                     const struct noun *noun, enum number number);

const struct noun *pick_noun(struct sampler *sampler, uint64_t tags, const struct noun *except);
const struct adjective *pick_adjective(struct sampler *sampler, const struct noun *noun, bool before,
                                       bool definite);

/* An adjective that can follow "is"; for this noun, or for any noun when it is NULL. */
const struct adjective *pick_predicate(struct sampler *sampler, const struct noun *noun);

/* A preposition; `subject` not 0: of a place where something with these tags can be. */
const struct preposition *pick_preposition(struct sampler *sampler, enum preposition_kind kind,
                                           uint64_t subject);

const struct adverb *pick_adverb(struct sampler *sampler, enum adverb_kind kind);

/* A state; `subject` not 0: of someone with these tags. */
const struct state *pick_state(struct sampler *sampler, uint64_t subject);

const struct verb *pick_verb(struct sampler *sampler, bool transitive, bool dative);

/* A verb that is not dative, for what a noun with these tags does, or for what is done to it ("the dog that ..."). */
const struct verb *pick_verb_of(struct sampler *sampler, uint64_t subject, bool transitive);
const struct verb *pick_verb_to(struct sampler *sampler, uint64_t object);

const struct determiner *pick_determiner(struct sampler *sampler, const struct noun_request *request,
                                         const struct noun *noun, enum number number);
const struct pronoun *pick_pronoun(struct sampler *sampler);

#endif
