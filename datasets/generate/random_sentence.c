#include "datasets/generate/random_sentence.h"

/* ---- words: every word that fits is equally likely, or as likely as its weight says; NULL when no word fits ---- */

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

/* Returns from the calling function: one of the `count` candidates, drawn with probabilities in proportion to their weights; NULL
 * when all weights are 0. `weight` is an expression about candidate[i]: whether it fits, if all that fit are equally likely. */
#define PICK(sampler, count, candidate, weight)                                                              \
    do {                                                                                                     \
        int64_t sum = 0, chosen;                                                                             \
        for (int i = 0; i < (count); i++) sum += (weight);                                                   \
        if (!sum) return NULL;                                                                               \
        chosen = dice_below(&(sampler)->dice, sum);                                                          \
        for (int i = 0;; i++)                                                                                \
            if ((chosen -= (weight)) < 0) return &(candidate)[i];                                            \
    } while (0)

/* A noun with one of the tags, but not `except`, which may be NULL. */
static const struct noun *pick_noun(struct sampler *sampler, uint64_t tags, const struct noun *except)
{
    const struct noun *noun = sampler->lexicon->noun;
    PICK(sampler, sampler->lexicon->nouns, noun, (noun[i].tags & tags) && &noun[i] != except);
}

/* An adjective that fits the noun; `before`: whether it precedes the noun in Spanish; `definite`:
 * the noun phrase is. */
static const struct adjective *pick_adjective(struct sampler *sampler, const struct noun *noun, bool before,
                                              bool definite)
{
    const struct adjective *a = sampler->lexicon->adjective;
    PICK(sampler, sampler->lexicon->adjectives, a,
         (a[i].tags & noun->tags) && a[i].before == before && (definite || !a[i].definite));
}

/* An adjective that can follow "is"; for this noun, or for any noun when it is NULL. */
static const struct adjective *pick_predicate(struct sampler *sampler, const struct noun *noun)
{
    const struct adjective *a = sampler->lexicon->adjective;
    PICK(sampler, sampler->lexicon->adjectives, a,
         a[i].copula != NO_COPULA && (!noun || (a[i].tags & noun->tags)));
}

/* A preposition. When `subject` is not 0, a subject with these tags can be at its place. */
static const struct preposition *pick_preposition(struct sampler *sampler, enum preposition_kind kind,
                                                  uint64_t subject)
{
    const struct preposition *p = sampler->lexicon->preposition;
    PICK(sampler, sampler->lexicon->prepositions, p,
         p[i].kind == kind && (!subject || (p[i].subject & subject)));
}

static const struct adverb *pick_adverb(struct sampler *sampler, enum adverb_kind kind)
{
    const struct adverb *a = sampler->lexicon->adverb;
    PICK(sampler, sampler->lexicon->adverbs, a, a[i].kind == kind);
}

/* A state. When `subject` is not 0, it fits a subject with these tags. */
static const struct state *pick_state(struct sampler *sampler, uint64_t subject)
{
    const struct state *state = sampler->lexicon->state;
    PICK(sampler, sampler->lexicon->states, state, !subject || (state[i].subject & subject));
}

/* A verb. When `subject` is not 0, it fits a subject with these tags. */
static const struct verb *pick_verb(struct sampler *sampler, uint64_t subject, bool transitive, bool dative)
{
    const struct verb *v = sampler->lexicon->verb;
    PICK(sampler, sampler->lexicon->verbs, v,
         v[i].dative == dative && (v[i].object != 0) == transitive && (!subject || (v[i].subject & subject)));
}

/* True when a determiner fits the noun and the request. */
static bool determiner_fits(const struct determiner *determiner, const struct noun_request *request,
                            const struct noun *noun, enum number number)
{
    bool mass = !noun->source[PLURAL];
    if (!determiner->source[number] || (mass && determiner->kind != DEFINITE)) return false;
    if (request->definite && determiner->kind == INDEFINITE) return false;
    return !request->indefinite || determiner->kind == INDEFINITE;
}

/* A verb that is not dative, for relative clauses, whose object is a noun with these tags. */
static const struct verb *pick_verb_to(struct sampler *sampler, uint64_t object)
{
    const struct verb *v = sampler->lexicon->verb;
    PICK(sampler, sampler->lexicon->verbs, v, !v[i].dative && !v[i].governed && (v[i].object & object));
}

static const struct determiner *pick_determiner(struct sampler *sampler, const struct noun_request *request,
                                                const struct noun *noun, enum number number)
{
    const struct determiner *d = sampler->lexicon->determiner;
    PICK(sampler, sampler->lexicon->determiners, d,
         determiner_fits(&d[i], request, noun, number) ? d[i].weight : 0);
}

static const struct pronoun *pick_pronoun(struct sampler *sampler)
{
    const struct pronoun *pronoun = sampler->lexicon->pronoun;
    PICK(sampler, sampler->lexicon->pronouns, pronoun, pronoun[i].weight);
}

/* ---- clauses ---- */

static void count_adjective(struct sampler *sampler, const struct adjective *adjective,
                            const struct noun *noun)
{
    sampler->held_out += is_held_out(sampler->seed, ADJECTIVE_NOUN, adjective - sampler->lexicon->adjective,
                                     noun - sampler->lexicon->noun);
}

static void draw_adjectives(struct sampler *sampler, struct noun_phrase *nouns)
{
    bool definite = nouns->owner || (nouns->determiner && nouns->determiner->kind == DEFINITE);
    if (dice_percent(&sampler->dice, 45))
        nouns->after = pick_adjective(sampler, nouns->noun, false, definite);
    if (dice_percent(&sampler->dice, 10))
        nouns->before = pick_adjective(sampler, nouns->noun, true, definite);
    if (nouns->after) count_adjective(sampler, nouns->after, nouns->noun);
    if (nouns->before) count_adjective(sampler, nouns->before, nouns->noun);
    nouns->very = nouns->after && nouns->after->gradable && dice_percent(&sampler->dice, 15);
}

/* "my brother's": owners are people, so that no other noun needs a genitive. */
static const struct noun_phrase *draw_owner(struct sampler *sampler, const struct noun *owned)
{
    if (sampler->owners == MAX_OWNERS) return NULL;
    struct noun_phrase *owner = &sampler->owner[sampler->owners];
    *owner = (struct noun_phrase){.noun = pick_noun(sampler, sampler->lexicon->person, owned)};
    if (!owner->noun) return NULL;
    struct noun_request request = {.definite = true};
    owner->determiner = pick_determiner(sampler, &request, owner->noun, SINGULAR);
    if (!owner->determiner || owner->determiner->kind != DEFINITE) return NULL;
    return &sampler->owner[sampler->owners++];
}

static bool draw_relative(struct sampler *sampler, struct noun_phrase *nouns);

/* A noun phrase with its adjectives, without joined noun phrases and relative clauses. */
static bool draw_simple_nouns(struct sampler *sampler, struct noun_request request, struct noun_phrase *nouns)
{
    *nouns = (struct noun_phrase){.noun = pick_noun(sampler, request.tags, request.except)};
    if (!nouns->noun) return false;
    bool mass = !nouns->noun->source[PLURAL];
    if (!mass && dice_percent(&sampler->dice, 35)) nouns->number = PLURAL;
    bool uncounted = (mass || nouns->number == PLURAL) && !nouns->noun->person;
    if (uncounted && (request.bare || request.general) && dice_percent(&sampler->dice, 40)) {
        nouns->general = request.general;
    } else if (!request.indefinite && dice_percent(&sampler->dice, 9)) {
        nouns->owner = draw_owner(sampler, nouns->noun);
        if (!nouns->owner) return false;
    } else {
        nouns->determiner = pick_determiner(sampler, &request, nouns->noun, nouns->number);
        if (!nouns->determiner) return false;
    }
    draw_adjectives(sampler, nouns);
    return true;
}

static bool is_each(const struct noun_phrase *nouns)
{
    return nouns->determiner && nouns->determiner->kind == EACH;
}

/* "and the girl": both nouns are people or both are not, so that the clause suits both. */
static bool draw_joined(struct sampler *sampler, struct noun_request request, struct noun_phrase *nouns)
{
    struct noun_phrase *joined = &sampler->joined[sampler->joined_count++];
    const struct noun *except = request.except;
    request.except = nouns->noun;
    request.bare = request.general = false;
    nouns->joined = joined;
    return draw_simple_nouns(sampler, request, joined) && joined->noun != except &&
           joined->noun->person == nouns->noun->person && !is_each(nouns) && !is_each(joined);
}

/* Joined noun phrases have no relative clauses, so that "the man who sees the girl and the boy" has one reading. */
static bool draw_nouns(struct sampler *sampler, struct noun_request request, struct noun_phrase *nouns)
{
    if (!draw_simple_nouns(sampler, request, nouns)) return false;
    if (!sampler->rich || request.plain) return true;
    if (sampler->joined_count < MAX_JOINED && !request.indefinite && dice_percent(&sampler->dice, 12))
        return draw_joined(sampler, request, nouns);
    if (sampler->relatives < MAX_RELATIVES && sampler->depth < 2 &&
        dice_percent(&sampler->dice, sampler->depth ? 20 : 40))
        return draw_relative(sampler, nouns);
    return true;
}

static bool draw_subject(struct sampler *sampler, uint64_t tags, int percent_pronouns, bool definite,
                         struct subject *subject)
{
    if ((tags & sampler->lexicon->person) && dice_percent(&sampler->dice, percent_pronouns)) {
        subject->pronoun = pick_pronoun(sampler);
        return subject->pronoun != NULL;
    }
    return draw_nouns(sampler, (struct noun_request){.tags = tags, .definite = definite}, &subject->nouns);
}

/* Draws a complement. When `tags` is not 0, its preposition must fit a subject with these tags. */
static bool draw_complement(struct sampler *sampler, uint64_t tags, enum preposition_kind kind,
                            const struct noun *except, struct complement *complement)
{
    complement->preposition = pick_preposition(sampler, kind, tags);
    if (!complement->preposition) return false;
    struct noun_request request = {.tags = complement->preposition->tags,
                                   .except = except,
                                   .definite = dice_percent(&sampler->dice, 75)};
    return draw_nouns(sampler, request, &complement->nouns);
}

/* Draws a tense by percent, in the order of enum tense. Only in the simple present does the main
 * verb have a Spanish form for each person. So the simple present is more frequent (`marked`) for persons that Spanish
 * expresses by the verb alone ("canto", "cantas", "cantamos"), and each of these forms occurs often
 * enough to be learned. */
static void draw_tense(struct sampler *sampler, struct clause *clause)
{
    static const int usual[TENSES] = {44, 24, 10, 10, 6, 6}, marked[TENSES] = {74, 10, 4, 4, 4, 4};
    if (clause->verb->stative || clause->verb->dative) return;
    enum person person = subject_person(&clause->subject);
    const int *percent = person == THIRD || person == THIRD_PLURAL ? usual : marked;
    int64_t chosen = dice_below(&sampler->dice, 100);
    for (int i = 0; i < TENSES && chosen >= 0; i++) {
        clause->tense = (enum tense)i;
        chosen -= percent[i];
    }
}

/* Adverbs of time and frequency; a stative verb has no adverb of the moment. */
static void draw_adverb(struct sampler *sampler, struct clause *clause)
{
    if (clause->verb->dative) return;
    bool simple = clause->tense == TENSE_SIMPLE;
    if (simple && !clause->negative && dice_percent(&sampler->dice, 12))
        clause->frequency = pick_adverb(sampler, FREQUENCY);
    else if (!clause->verb->stative && dice_percent(&sampler->dice, 18))
        clause->adverb = pick_adverb(sampler, simple ? HABIT : MOMENT);
}

/* True of "i see us" and "you see you", which need a reflexive verb. */
static bool would_be_reflexive(enum person a, enum person b)
{
    bool first = a == FIRST || a == FIRST_PLURAL, second = a == SECOND;
    return first ? b == FIRST || b == FIRST_PLURAL : second && b == SECOND;
}

static bool draw_recipient(struct sampler *sampler, struct clause *clause)
{
    if (!clause->verb->recipient || !dice_percent(&sampler->dice, 60)) return true;
    return draw_complement(sampler, 0, RECIPIENT, clause->subject.nouns.noun, &clause->recipient);
}

static void count_object(struct sampler *sampler, const struct clause *clause)
{
    for (const struct noun_phrase *nouns = &clause->object_nouns; nouns; nouns = nouns->joined)
        sampler->held_out += is_held_out(sampler->seed, VERB_OBJECT, clause->verb - sampler->lexicon->verb,
                                         nouns->noun - sampler->lexicon->noun);
}

static bool draw_object(struct sampler *sampler, struct clause *clause)
{
    const struct verb *verb = clause->verb;
    const struct noun *subject = clause->subject.nouns.noun;
    if ((verb->object & sampler->lexicon->person) && dice_percent(&sampler->dice, 25)) {
        clause->object = pick_pronoun(sampler);
        return clause->object &&
               !would_be_reflexive(subject_person(&clause->subject), clause->object->person);
    }
    struct noun_request request = {.tags = verb->object,
                                   .except = subject,
                                   .bare = !verb->dative && !verb->governed,
                                   .general = verb->dative,
                                   .definite = verb->dative};
    if (!draw_nouns(sampler, request, &clause->object_nouns)) return false;
    count_object(sampler, clause);
    return draw_recipient(sampler, clause);
}

static void draw_verb_form(struct sampler *sampler, struct clause *clause)
{
    draw_tense(sampler, clause);
    clause->negative = dice_percent(&sampler->dice, 22);
    draw_adverb(sampler, clause);
}

/* Tense, negation, adverbs, object and place of a clause that has its subject and verb. */
static bool draw_predicate(struct sampler *sampler, struct clause *clause)
{
    const struct verb *verb = clause->verb;
    draw_verb_form(sampler, clause);
    if (verb->object && !draw_object(sampler, clause)) return false;
    bool can_have_place = !verb->dative && !verb->governed && !clause->recipient.preposition;
    if (!can_have_place || !dice_percent(&sampler->dice, verb->object ? 16 : 70)) return true;
    enum preposition_kind kind = verb->moves && dice_percent(&sampler->dice, 60) ? GOAL : PLACE;
    if (kind == PLACE && dice_percent(&sampler->dice, 15)) kind = COMPANY;
    return draw_complement(sampler, 0, kind, clause->subject.nouns.noun, &clause->place);
}

static bool draw_verb_clause(struct sampler *sampler, struct clause *clause)
{
    int64_t choice = dice_below(&sampler->dice, 100);
    clause->verb = pick_verb(sampler, 0, choice >= 33, choice >= 92);
    return clause->verb && draw_subject(sampler, clause->verb->subject, 54, false, &clause->subject) &&
           draw_predicate(sampler, clause);
}

/* True of "the big cat is big" and, for adjectives without degrees, of "the black cat is gray". */
static bool clash(const struct adjective *said, const struct adjective *adjective)
{
    return said && (said == adjective || !(said->gradable || adjective->gradable));
}

/* Adverbs and degree of "is big". */
static bool draw_quality(struct sampler *sampler, struct clause *clause)
{
    clause->negative = dice_percent(&sampler->dice, 25);
    clause->very = clause->adjective->gradable && dice_percent(&sampler->dice, 20);
    if (clause->adjective->copula == ESTAR && dice_percent(&sampler->dice, 20))
        clause->adverb = pick_adverb(sampler, MOMENT);
    if (clause->subject.pronoun) return true;
    for (const struct noun_phrase *nouns = &clause->subject.nouns; nouns; nouns = nouns->joined) {
        const struct adjective *relative_adjective = nouns->relative ? nouns->relative->adjective : NULL;
        count_adjective(sampler, clause->adjective, nouns->noun);
        if (clash(nouns->after, clause->adjective) || clash(relative_adjective, clause->adjective))
            return false;
    }
    return true;
}

static bool draw_adjective_clause(struct sampler *sampler, struct clause *clause)
{
    clause->adjective = pick_predicate(sampler, NULL);
    return clause->adjective && draw_subject(sampler, clause->adjective->tags, 30, true, &clause->subject) &&
           draw_quality(sampler, clause);
}

/* The preposition says what can be at the place. */
static bool draw_location_clause(struct sampler *sampler, struct clause *clause)
{
    if (!draw_complement(sampler, 0, PLACE, NULL, &clause->place)) return false;
    uint64_t tags = clause->place.preposition->subject;
    if (clause->kind == CLAUSE_EXISTENCE)
        return draw_nouns(
            sampler,
            (struct noun_request){.tags = tags, .except = clause->place.nouns.noun, .indefinite = true},
            &clause->subject.nouns);
    clause->negative = dice_percent(&sampler->dice, 25);
    if (dice_percent(&sampler->dice, 15)) clause->adverb = pick_adverb(sampler, MOMENT);
    return draw_subject(sampler, tags, 30, true, &clause->subject) &&
           clause->subject.nouns.noun != clause->place.nouns.noun;
}

/* Object and adverb of "is afraid". */
static bool draw_state(struct sampler *sampler, struct clause *clause)
{
    clause->negative = dice_percent(&sampler->dice, 25);
    struct noun_request request = {
        .tags = clause->state->object, .except = clause->subject.nouns.noun, .definite = true};
    if (clause->state->object) return draw_nouns(sampler, request, &clause->state_nouns);
    if (dice_percent(&sampler->dice, 35)) clause->adverb = pick_adverb(sampler, MOMENT);
    return true;
}

static bool draw_state_clause(struct sampler *sampler, struct clause *clause)
{
    clause->state = pick_state(sampler, 0);
    return clause->state && draw_subject(sampler, clause->state->subject, 40, true, &clause->subject) &&
           draw_state(sampler, clause);
}

/* "that the boy eats": the subject is another noun. */
static bool draw_object_relative(struct sampler *sampler, struct clause *clause)
{
    clause->gap = GAP_OBJECT;
    clause->verb = pick_verb_to(sampler, clause->object_nouns.noun->tags);
    if (!clause->verb || !draw_subject(sampler, clause->verb->subject, 40, true, &clause->subject))
        return false;
    if (clause->subject.nouns.noun == clause->object_nouns.noun) return false;
    draw_verb_form(sampler, clause);
    count_object(sampler, clause);
    return draw_recipient(sampler, clause);
}

/* "who eats", "who is tired": the noun is the subject. */
static bool draw_subject_relative(struct sampler *sampler, struct clause *clause)
{
    const struct noun *noun = clause->subject.nouns.noun;
    int64_t choice = dice_below(&sampler->dice, 100);
    clause->gap = GAP_SUBJECT;
    if (choice < 60) {
        clause->verb = pick_verb(sampler, noun->tags, dice_percent(&sampler->dice, 55), false);
        if (clause->verb) return draw_predicate(sampler, clause);
    } else if (choice < 65) {
        clause->kind = CLAUSE_STATE;
        clause->state = pick_state(sampler, noun->tags);
        if (clause->state) return draw_state(sampler, clause);
    } else if (choice < 80) {
        clause->kind = CLAUSE_LOCATION;
        return draw_complement(sampler, noun->tags, PLACE, noun, &clause->place);
    }
    clause->kind = CLAUSE_ADJECTIVE;
    clause->adjective = pick_predicate(sampler, noun);
    return clause->adjective && draw_quality(sampler, clause);
}

static bool draw_relative(struct sampler *sampler, struct noun_phrase *nouns)
{
    struct clause *clause = &sampler->relative[sampler->relatives++];
    *clause = (struct clause){0};
    sampler->depth++;
    bool object = dice_percent(&sampler->dice, 35), drawn;
    if (object)
        clause->object_nouns = *nouns;
    else
        clause->subject.nouns = *nouns;
    drawn = object ? draw_object_relative(sampler, clause) : draw_subject_relative(sampler, clause);
    sampler->depth--;
    nouns->relative = clause;
    return drawn;
}

bool draw_clause(struct sampler *sampler, struct clause *clause)
{
    *clause = (struct clause){0};
    sampler->owners = sampler->joined_count = sampler->relatives = sampler->depth = 0;
    sampler->held_out = 0;
    int64_t choice = dice_below(&sampler->dice, 100);
    clause->kind = choice < 75   ? CLAUSE_VERB
                   : choice < 87 ? CLAUSE_ADJECTIVE
                   : choice < 93 ? CLAUSE_LOCATION
                   : choice < 97 ? CLAUSE_EXISTENCE
                                 : CLAUSE_STATE;
    switch (clause->kind) {
    case CLAUSE_VERB:
        return draw_verb_clause(sampler, clause);
    case CLAUSE_ADJECTIVE:
        return draw_adjective_clause(sampler, clause);
    case CLAUSE_LOCATION:
    case CLAUSE_EXISTENCE:
        return draw_location_clause(sampler, clause);
    case CLAUSE_STATE:
        return draw_state_clause(sampler, clause);
    }
    return false;
}

struct clause example_clause(const struct lexicon *lexicon, const struct example *example)
{
    struct clause clause = {.kind = CLAUSE_VERB, .verb = example->verb, .tense = TENSE_PROGRESSIVE};
    struct noun_request request = {.definite = true};
    clause.subject.nouns = (struct noun_phrase){.noun = example->subject};
    clause.place =
        (struct complement){.preposition = example->preposition, .nouns = {.noun = example->place}};
    for (int i = lexicon->determiners - 1; i >= 0; i--) { /* the first definite determiner is "the" */
        if (lexicon->determiner[i].kind != DEFINITE) continue;
        if (determiner_fits(&lexicon->determiner[i], &request, example->subject, SINGULAR))
            clause.subject.nouns.determiner = &lexicon->determiner[i];
        if (determiner_fits(&lexicon->determiner[i], &request, example->place, SINGULAR))
            clause.place.nouns.determiner = &lexicon->determiner[i];
    }
    return clause;
}

/* ---- sentences of several clauses ---- */

/* MIN_WORDS: a clause that does not end the sentence leaves at least so many words for the next
 * one and its conjunction. With fewer, many sentences would end in "and we sing". */
enum { MAX_ATTEMPTS = 200, MIN_WORDS = 6 };

/* Adds a clause that either ends the sentence or leaves enough words for another one. The clause that contains English
 * word number `held_out_at` (-1: none) has held-out combinations. */
static bool add_clause(struct sampler *sampler, int words, int held_out_at, struct phrase *sentence)
{
    int begin = sentence->count[SOURCE], conjunction = -1;
    /* "and" joins any two clauses and is more frequent; the others state a reason, a time or a contrast. */
    if (begin)
        conjunction = dice_percent(&sampler->dice, 30) ? 0 : (int)dice_below(&sampler->dice, CONJUNCTIONS);
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        struct clause clause;
        struct phrase phrase;
        if (!draw_clause(sampler, &clause)) continue;
        /* "i see the cat and the dog and the cow can sleep" would have two readings. */
        if (conjunction == 0 && clause.subject.nouns.joined) continue;
        phrase_clear(&phrase);
        if (conjunction >= 0) grammar_conjunction(conjunction, &phrase);
        grammar_clause(&clause, &phrase);
        int end = begin + phrase.count[SOURCE];
        bool must_hold_out = held_out_at >= begin && held_out_at < end;
        if (must_hold_out != (sampler->held_out > 0) || end > words ||
            (end < words && words - end < MIN_WORDS))
            continue;
        if (sentence->count[TARGET] + phrase.count[TARGET] > PHRASE_WORDS) return false;
        phrase_place(sentence, &phrase);
        return true;
    }
    return false;
}

bool draw_sentence(struct sampler *sampler, int words, bool held_out, struct phrase *sentence)
{
    int held_out_at = held_out ? (int)dice_below(&sampler->dice, words) : -1;
    while (sentence->count[SOURCE] < words)
        if (!add_clause(sampler, words, held_out_at, sentence)) return false;
    return true;
}
