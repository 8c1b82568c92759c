#include "datasets/generate/draw.h"

#include "datasets/generate/pick.h"

struct qkv_random generate_random(uint64_t seed, int use, int step)
{
    return (struct qkv_random){
        .seed = seed, .stream = (uint32_t)QKV_STREAM_GENERATE | (uint32_t)use << 8, .step = (uint32_t)step};
}

int64_t dice_below(struct dice *dice, int64_t bound)
{
    return (int64_t)qkv_random_below(dice->random, dice->rolls++, (uint64_t)bound);
}

bool dice_percent(struct dice *dice, int percent)
{
    return dice_below(dice, 100) < percent;
}

bool held_out(uint64_t seed, enum combination kind, int64_t first, int64_t second)
{
    uint64_t index = (uint64_t)first << 32 | (uint64_t)second;
    return qkv_random_below(generate_random(seed, STREAM_HELD_OUT, (int)kind), index, HELD_OUT_SHARE) == 0;
}

static void count_adjective(struct drawing *d, const struct adjective *adjective, const struct noun *noun)
{
    d->held_out +=
        held_out(d->seed, ADJECTIVE_NOUN, adjective - d->lexicon->adjective, noun - d->lexicon->noun);
}

static void draw_adjectives(struct drawing *d, struct noun_phrase *nouns)
{
    bool definite = nouns->owner || (nouns->determiner && nouns->determiner->kind == DEFINITE);
    if (dice_percent(&d->dice, 45)) nouns->after = pick_adjective(d, nouns->noun, false, definite);
    if (dice_percent(&d->dice, 10)) nouns->before = pick_adjective(d, nouns->noun, true, definite);
    if (nouns->after) count_adjective(d, nouns->after, nouns->noun);
    if (nouns->before) count_adjective(d, nouns->before, nouns->noun);
    nouns->very = nouns->after && nouns->after->gradable && dice_percent(&d->dice, 15);
}

/* "my brother's": a person, so that nothing else needs a genitive. */
static const struct noun_phrase *draw_owner(struct drawing *d, const struct noun *owned)
{
    if (d->owners == MOST_OWNERS) return NULL;
    struct noun_phrase *owner = &d->owner[d->owners];
    *owner = (struct noun_phrase){.noun = pick_noun(d, d->lexicon->person, owned)};
    if (!owner->noun) return NULL;
    struct wish wish = {.definite = true};
    owner->determiner = pick_determiner(d, &wish, owner->noun, SINGULAR);
    if (!owner->determiner || owner->determiner->kind != DEFINITE) return NULL;
    return &d->owner[d->owners++];
}

static bool draw_relative(struct drawing *d, struct noun_phrase *nouns);

/* A noun phrase with its adjectives, alone. */
static bool draw_simple_nouns(struct drawing *d, struct wish wish, struct noun_phrase *nouns)
{
    *nouns = (struct noun_phrase){.noun = pick_noun(d, wish.tags, wish.unlike)};
    if (!nouns->noun) return false;
    bool mass = !nouns->noun->source[PLURAL];
    if (!mass && dice_percent(&d->dice, 35)) nouns->number = PLURAL;
    bool uncounted = (mass || nouns->number == PLURAL) && !nouns->noun->person;
    if (uncounted && (wish.bare || wish.general) && dice_percent(&d->dice, 40)) {
        nouns->general = wish.general;
    } else if (!wish.indefinite && dice_percent(&d->dice, 9)) {
        nouns->owner = draw_owner(d, nouns->noun);
        if (!nouns->owner) return false;
    } else {
        nouns->determiner = pick_determiner(d, &wish, nouns->noun, nouns->number);
        if (!nouns->determiner) return false;
    }
    draw_adjectives(d, nouns);
    return true;
}

static bool is_each(const struct noun_phrase *nouns)
{
    return nouns->determiner && nouns->determiner->kind == EACH;
}

/* "and the girl": what is joined is of one kind, so that what is said of one can be said of both. */
static bool draw_joined(struct drawing *d, struct wish wish, struct noun_phrase *nouns)
{
    struct noun_phrase *joined = &d->joined[d->joints++];
    const struct noun *unlike = wish.unlike;
    wish.unlike = nouns->noun;
    wish.bare = wish.general = false;
    nouns->joined = joined;
    return draw_simple_nouns(d, wish, joined) && joined->noun != unlike &&
           joined->noun->person == nouns->noun->person && !is_each(nouns) && !is_each(joined);
}

/* Joined noun phrases have no relative clauses: "the man who sees the girl and the boy" has one reading. */
static bool draw_nouns(struct drawing *d, struct wish wish, struct noun_phrase *nouns)
{
    if (!draw_simple_nouns(d, wish, nouns)) return false;
    if (!d->rich || wish.plain) return true;
    if (d->joints < MOST_JOINED && !wish.indefinite && dice_percent(&d->dice, 12))
        return draw_joined(d, wish, nouns);
    if (d->relatives < MOST_RELATIVES && d->depth < 2 && dice_percent(&d->dice, d->depth ? 20 : 40))
        return draw_relative(d, nouns);
    return true;
}

static bool draw_subject(struct drawing *d, uint64_t tags, int percent_pronouns, bool definite,
                         struct subject *subject)
{
    if ((tags & d->lexicon->person) && dice_percent(&d->dice, percent_pronouns)) {
        subject->pronoun = pick_pronoun(d);
        return subject->pronoun != NULL;
    }
    return draw_nouns(d, (struct wish){.tags = tags, .definite = definite}, &subject->nouns);
}

/* A complement for what has such tags, or for anything when they are 0. */
static bool draw_complement_of(struct drawing *d, uint64_t tags, enum preposition_kind kind,
                               const struct noun *unlike, struct complement *complement)
{
    complement->preposition = pick_preposition(d, kind, tags);
    if (!complement->preposition) return false;
    struct wish wish = {
        .tags = complement->preposition->tags, .unlike = unlike, .definite = dice_percent(&d->dice, 75)};
    return draw_nouns(d, wish, &complement->nouns);
}

static bool draw_complement(struct drawing *d, enum preposition_kind kind, const struct noun *unlike,
                            struct complement *complement)
{
    return draw_complement_of(d, 0, kind, unlike, complement);
}

/* The simple present is what tells persons apart in Spanish. With the pronouns that only it tells ("canto",
 * "cantas", "cantamos") it comes more often, for each of those words must be seen often enough to be learnt.
 */
static void draw_tense(struct drawing *d, struct clause *clause)
{
    static const int usual[TENSES] = {44, 24, 10, 10, 6, 6}, marked[TENSES] = {74, 10, 4, 4, 4, 4};
    if (clause->verb->stative || clause->verb->dative) return;
    enum person person = subject_person(&clause->subject);
    const int *percent = person == THIRD || person == THIRD_PLURAL ? usual : marked;
    int64_t chosen = dice_below(&d->dice, 100);
    for (int i = 0; i < TENSES && chosen >= 0; i++) {
        clause->tense = (enum tense)i;
        chosen -= percent[i];
    }
}

/* When and how often. What always is cannot be going on "now". */
static void draw_adverb(struct drawing *d, struct clause *clause)
{
    if (clause->verb->dative) return;
    bool simple = clause->tense == TENSE_SIMPLE;
    if (simple && !clause->negative && dice_percent(&d->dice, 12))
        clause->frequency = pick_adverb(d, FREQUENCY);
    else if (!clause->verb->stative && dice_percent(&d->dice, 18))
        clause->adverb = pick_adverb(d, simple ? HABIT : MOMENT);
}

/* Nobody sees himself here: that would be reflexive. */
static bool same_side(enum person a, enum person b)
{
    bool first = a == FIRST || a == FIRST_PLURAL, second = a == SECOND;
    return first ? b == FIRST || b == FIRST_PLURAL : second && b == SECOND;
}

static bool draw_recipient(struct drawing *d, struct clause *clause)
{
    if (!clause->verb->recipient || !dice_percent(&d->dice, 60)) return true;
    return draw_complement(d, RECIPIENT, clause->subject.nouns.noun, &clause->recipient);
}

static void count_object(struct drawing *d, const struct clause *clause)
{
    for (const struct noun_phrase *nouns = &clause->object_nouns; nouns; nouns = nouns->joined)
        d->held_out +=
            held_out(d->seed, VERB_OBJECT, clause->verb - d->lexicon->verb, nouns->noun - d->lexicon->noun);
}

static bool draw_object(struct drawing *d, struct clause *clause)
{
    const struct verb *verb = clause->verb;
    const struct noun *subject = clause->subject.nouns.noun;
    if ((verb->object & d->lexicon->person) && dice_percent(&d->dice, 25)) {
        clause->object = pick_pronoun(d);
        return clause->object && !same_side(subject_person(&clause->subject), clause->object->person);
    }
    struct wish wish = {.tags = verb->object,
                        .unlike = subject,
                        .bare = !verb->dative && !verb->governed,
                        .general = verb->dative,
                        .definite = verb->dative};
    if (!draw_nouns(d, wish, &clause->object_nouns)) return false;
    count_object(d, clause);
    return draw_recipient(d, clause);
}

static void draw_verb_form(struct drawing *d, struct clause *clause)
{
    draw_tense(d, clause);
    clause->negative = dice_percent(&d->dice, 22);
    draw_adverb(d, clause);
}

/* What follows subject and verb. */
static bool draw_predicate(struct drawing *d, struct clause *clause)
{
    const struct verb *verb = clause->verb;
    draw_verb_form(d, clause);
    if (verb->object && !draw_object(d, clause)) return false;
    bool placed = !verb->dative && !verb->governed && !clause->recipient.preposition;
    if (!placed || !dice_percent(&d->dice, verb->object ? 16 : 70)) return true;
    enum preposition_kind kind = verb->moves && dice_percent(&d->dice, 60) ? GOAL : PLACE;
    if (kind == PLACE && dice_percent(&d->dice, 15)) kind = COMPANY;
    return draw_complement(d, kind, clause->subject.nouns.noun, &clause->place);
}

static bool draw_verb_clause(struct drawing *d, struct clause *clause)
{
    int64_t choice = dice_below(&d->dice, 100);
    clause->verb = pick_verb(d, choice >= 33, choice >= 92);
    return clause->verb && draw_subject(d, clause->verb->subject, 54, false, &clause->subject) &&
           draw_predicate(d, clause);
}

/* Neither "the big cat is big" nor, of what has no degrees, "the black cat is gray". */
static bool clash(const struct adjective *said, const struct adjective *adjective)
{
    return said && (said == adjective || !(said->gradable || adjective->gradable));
}

/* What follows subject and "is". */
static bool draw_quality(struct drawing *d, struct clause *clause)
{
    clause->negative = dice_percent(&d->dice, 25);
    clause->very = clause->adjective->gradable && dice_percent(&d->dice, 20);
    if (clause->adjective->copula == ESTAR && dice_percent(&d->dice, 20))
        clause->adverb = pick_adverb(d, MOMENT);
    if (clause->subject.pronoun) return true;
    for (const struct noun_phrase *nouns = &clause->subject.nouns; nouns; nouns = nouns->joined) {
        const struct adjective *told = nouns->relative ? nouns->relative->adjective : NULL;
        count_adjective(d, clause->adjective, nouns->noun);
        if (clash(nouns->after, clause->adjective) || clash(told, clause->adjective)) return false;
    }
    return true;
}

static bool draw_adjective_clause(struct drawing *d, struct clause *clause)
{
    clause->adjective = pick_predicate(d, NULL);
    return clause->adjective && draw_subject(d, clause->adjective->tags, 30, true, &clause->subject) &&
           draw_quality(d, clause);
}

/* The things that can be at the place are those of the preposition. */
static bool draw_location_clause(struct drawing *d, struct clause *clause)
{
    if (!draw_complement(d, PLACE, NULL, &clause->place)) return false;
    uint64_t tags = clause->place.preposition->subject;
    if (clause->kind == CLAUSE_EXISTENCE)
        return draw_nouns(d,
                          (struct wish){.tags = tags, .unlike = clause->place.nouns.noun, .indefinite = true},
                          &clause->subject.nouns);
    clause->negative = dice_percent(&d->dice, 25);
    if (dice_percent(&d->dice, 15)) clause->adverb = pick_adverb(d, MOMENT);
    return draw_subject(d, tags, 30, true, &clause->subject) &&
           clause->subject.nouns.noun != clause->place.nouns.noun;
}

/* What follows subject and "is". */
static bool draw_state(struct drawing *d, struct clause *clause)
{
    clause->negative = dice_percent(&d->dice, 25);
    struct wish wish = {
        .tags = clause->state->object, .unlike = clause->subject.nouns.noun, .definite = true};
    if (clause->state->object) return draw_nouns(d, wish, &clause->state_nouns);
    if (dice_percent(&d->dice, 35)) clause->adverb = pick_adverb(d, MOMENT);
    return true;
}

static bool draw_state_clause(struct drawing *d, struct clause *clause)
{
    clause->state = pick_state(d, 0);
    return clause->state && draw_subject(d, clause->state->subject, 40, true, &clause->subject) &&
           draw_state(d, clause);
}

/* "that the boy eats": something else than the noun does it. */
static bool draw_object_relative(struct drawing *d, struct clause *clause)
{
    clause->gap = GAP_OBJECT;
    clause->verb = pick_verb_to(d, clause->object_nouns.noun->tags);
    if (!clause->verb || !draw_subject(d, clause->verb->subject, 40, true, &clause->subject)) return false;
    if (clause->subject.nouns.noun == clause->object_nouns.noun) return false;
    draw_verb_form(d, clause);
    count_object(d, clause);
    return draw_recipient(d, clause);
}

/* What the noun itself is or does. */
static bool draw_subject_relative(struct drawing *d, struct clause *clause)
{
    const struct noun *noun = clause->subject.nouns.noun;
    int64_t choice = dice_below(&d->dice, 100);
    clause->gap = GAP_SUBJECT;
    if (choice < 60) {
        clause->verb = pick_verb_of(d, noun->tags, dice_percent(&d->dice, 55));
        if (clause->verb) return draw_predicate(d, clause);
    } else if (choice < 65) {
        clause->kind = CLAUSE_STATE;
        clause->state = pick_state(d, noun->tags);
        if (clause->state) return draw_state(d, clause);
    } else if (choice < 80) {
        clause->kind = CLAUSE_LOCATION;
        return draw_complement_of(d, noun->tags, PLACE, noun, &clause->place);
    }
    clause->kind = CLAUSE_ADJECTIVE;
    clause->adjective = pick_predicate(d, noun);
    return clause->adjective && draw_quality(d, clause);
}

static bool draw_relative(struct drawing *d, struct noun_phrase *nouns)
{
    struct clause *clause = &d->relative[d->relatives++];
    *clause = (struct clause){0};
    d->depth++;
    bool object = dice_percent(&d->dice, 35), drawn;
    if (object)
        clause->object_nouns = *nouns;
    else
        clause->subject.nouns = *nouns;
    drawn = object ? draw_object_relative(d, clause) : draw_subject_relative(d, clause);
    d->depth--;
    nouns->relative = clause;
    return drawn;
}

bool draw_clause(struct drawing *drawing, struct clause *clause)
{
    *clause = (struct clause){0};
    drawing->owners = drawing->joints = drawing->relatives = drawing->depth = 0;
    drawing->held_out = 0;
    int64_t choice = dice_below(&drawing->dice, 100);
    clause->kind = choice < 75   ? CLAUSE_VERB
                   : choice < 87 ? CLAUSE_ADJECTIVE
                   : choice < 93 ? CLAUSE_LOCATION
                   : choice < 97 ? CLAUSE_EXISTENCE
                                 : CLAUSE_STATE;
    switch (clause->kind) {
    case CLAUSE_VERB:
        return draw_verb_clause(drawing, clause);
    case CLAUSE_ADJECTIVE:
        return draw_adjective_clause(drawing, clause);
    case CLAUSE_LOCATION:
    case CLAUSE_EXISTENCE:
        return draw_location_clause(drawing, clause);
    case CLAUSE_STATE:
        return draw_state_clause(drawing, clause);
    }
    return false;
}

struct clause example_clause(const struct lexicon *lexicon, const struct example *example)
{
    struct clause clause = {.kind = CLAUSE_VERB, .verb = example->verb, .tense = TENSE_PROGRESSIVE};
    struct wish wish = {.definite = true};
    clause.subject.nouns = (struct noun_phrase){.noun = example->subject};
    clause.place =
        (struct complement){.preposition = example->preposition, .nouns = {.noun = example->place}};
    for (int i = lexicon->determiners - 1; i >= 0; i--) { /* the first definite one is "the" */
        if (lexicon->determiner[i].kind != DEFINITE) continue;
        if (suits(&lexicon->determiner[i], &wish, example->subject, SINGULAR))
            clause.subject.nouns.determiner = &lexicon->determiner[i];
        if (suits(&lexicon->determiner[i], &wish, example->place, SINGULAR))
            clause.place.nouns.determiner = &lexicon->determiner[i];
    }
    return clause;
}
