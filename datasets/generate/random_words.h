/* Random words of a lexicon. Every word that fits is equally likely, or as likely as its weight says. NULL when no word
 * fits. */
#ifndef QKV_DATASETS_RANDOM_WORDS_H
#define QKV_DATASETS_RANDOM_WORDS_H

#include "datasets/generate/random_sentence.h"

/* What a noun phrase must be like. */
struct noun_request {
    uint64_t tags;
    const struct noun *except; /* any noun but this one, which the clause has already; may be NULL */
    bool definite;             /* the determiner must be DEFINITE or EACH */
    bool indefinite;           /* the determiner must be INDEFINITE */
    bool bare;                 /* may have no determiner: "eats apples" */
    bool general; /* may have no determiner in English, but has an article in Spanish: "likes apples" */
    bool plain;   /* must have neither a joined noun phrase nor a relative clause */
};

/* True when a determiner fits the noun and the request. */
bool determiner_fits(const struct determiner *determiner, const struct noun_request *request,
                     const struct noun *noun, enum number number);

/* A noun with one of the tags, but not `except`, which may be NULL. */
const struct noun *pick_noun(struct sampler *sampler, uint64_t tags, const struct noun *except);

/* An adjective that fits the noun; `before`: whether it precedes the noun in Spanish; `definite`:
 * the noun phrase is. */
const struct adjective *pick_adjective(struct sampler *sampler, const struct noun *noun, bool before,
                                       bool definite);

/* An adjective that can follow "is"; for this noun, or for any noun when it is NULL. */
const struct adjective *pick_predicate(struct sampler *sampler, const struct noun *noun);

/* A preposition. When `subject` is not 0, a subject with these tags can be at its place. */
const struct preposition *pick_preposition(struct sampler *sampler, enum preposition_kind kind,
                                           uint64_t subject);

const struct adverb *pick_adverb(struct sampler *sampler, enum adverb_kind kind);

/* A state. When `subject` is not 0, it fits a subject with these tags. */
const struct state *pick_state(struct sampler *sampler, uint64_t subject);

const struct verb *pick_verb(struct sampler *sampler, bool transitive, bool dative);

/* A verb that is not dative, for relative clauses: its subject, or its object, is a noun with these
 * tags. */
const struct verb *pick_verb_of(struct sampler *sampler, uint64_t subject, bool transitive);
const struct verb *pick_verb_to(struct sampler *sampler, uint64_t object);

const struct determiner *pick_determiner(struct sampler *sampler, const struct noun_request *request,
                                         const struct noun *noun, enum number number);
const struct pronoun *pick_pronoun(struct sampler *sampler);

#endif
