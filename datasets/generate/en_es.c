#include "datasets/generate/en_es.h"

#include "datasets/generate/sentence.h"
#include "datasets/generate/set.h"

#include <stdlib.h>
#include <string.h>

/* After so many refused drawings in a row there are, in all likelihood, no more sentences to be found. */
enum { MOST_ATTEMPTS = 200000 };

/* The same for sentences of a wanted length, each of them looked for longer; and after how many of these
 * there are few sentences left of this length, so that another one is tried. */
enum { MOST_ATTEMPTS_AT_LENGTHS = 2000, MOST_ATTEMPTS_OF_A_LENGTH = 20 };

enum { TRAIN_FILE, DEV_FILE, TEST_FILE, DEV_ALIGN_FILE, TEST_ALIGN_FILE, HELD_OUT_FILE, FILES };

static const char *const NAMES[FILES] = {"train.tsv", "dev.tsv",    "test.tsv",
                                         "dev.align", "test.align", "held_out.tsv"};
static const char *const SPLIT_NAMES[SPLITS] = {"train", "dev", "test"};

struct pair {
    const char *source, *target, *links;
};

/* One run of the generator. */
struct run {
    const struct request *request;
    const char *lexicon_path;
    int64_t shortest, longest[SPLITS]; /* words; longest 0: single clauses */
    struct lexicon *lexicon;
    struct qkv_arena arena; /* owns the texts */
    struct text_set seen;   /* every source so far */
    struct pair *pair[SPLITS];
    struct en_es_statistics *statistics;
    struct qkv_error *error;
};

static enum qkv_status no_memory(struct run *run)
{
    return qkv_error_set(run->error, "%s: out of memory", run->request->folder);
}

/* Adds a sentence to a split. *added tells whether it was new and of the right length. */
static enum qkv_status add(struct run *run, enum split split, const struct phrase *phrase, bool *added)
{
    int64_t shortest = run->longest[split] ? run->shortest : EN_ES_SHORTEST;
    int64_t longest = run->longest[split] ? run->longest[split] : EN_ES_LONGEST;
    *added = false;
    if (phrase->source_count < shortest || phrase->source_count > longest) return QKV_OK;
    if (phrase->target_count < shortest || phrase->target_count > longest) return QKV_OK;
    struct pair pair = {.source = phrase_source_text(phrase, &run->arena)};
    if (!pair.source) return no_memory(run);
    if (text_set_has(&run->seen, pair.source)) return QKV_OK;
    pair.target = phrase_target_text(phrase, &run->arena);
    pair.links = phrase_link_text(phrase, &run->arena);
    if (!pair.target || !pair.links || !text_set_add(&run->seen, pair.source)) return no_memory(run);
    struct en_es_statistics *statistics = run->statistics;
    run->pair[split][statistics->pairs[split]++] = pair;
    statistics->words[split][0] += phrase->source_count;
    statistics->words[split][1] += phrase->target_count;
    statistics->links[split] += phrase->link_count;
    *added = true;
    return QKV_OK;
}

static enum qkv_status add_examples(struct run *run, int64_t *left)
{
    for (int i = 0; i<run->lexicon->examples && * left> 0; i++) {
        bool added;
        struct phrase phrase = {0};
        struct clause clause = example_clause(run->lexicon, &run->lexicon->example[i]);
        grammar_clause(&clause, &phrase);
        if (add(run, TEST, &phrase, &added)) return QKV_INVALID;
        *left -= added;
    }
    return QKV_OK;
}

/* What is still wanted of a split. */
struct wanted {
    int64_t held, plain;   /* sentences with and without held-out combinations */
    int64_t *kind;         /* the one of the two that was drawn last */
    int64_t length, tried; /* in words; how often */
};

/* Draws a clause, of whatever length it is; false when it is not one that is wanted. */
static bool draw_single(struct drawing *drawing, struct wanted *wanted, struct phrase *phrase)
{
    struct clause clause;
    if (!draw_clause(drawing, &clause)) return false;
    wanted->kind = drawing->held_out ? &wanted->held : &wanted->plain;
    if (*wanted->kind) grammar_clause(&clause, phrase);
    return *wanted->kind > 0;
}

/* Draws a sentence of a length that is kept until there is one; so all lengths are alike. */
static bool draw_of_length(const struct run *run, enum split split, struct drawing *drawing,
                           struct wanted *wanted, struct phrase *phrase)
{
    if (wanted->tried++ % MOST_ATTEMPTS_OF_A_LENGTH == 0) {
        wanted->length = run->shortest + dice_below(&drawing->dice, run->longest[split] - run->shortest + 1);
        bool held = dice_below(&drawing->dice, wanted->held + wanted->plain) < wanted->held;
        wanted->kind = held ? &wanted->held : &wanted->plain;
    }
    return draw_sentence(drawing, (int)wanted->length, wanted->kind == &wanted->held, phrase);
}

static enum qkv_status too_few(struct run *run, enum split split, int64_t count)
{
    char lengths[64] = "";
    if (run->longest[split])
        snprintf(lengths, sizeof lengths, " of %lld to %lld words", (long long)run->shortest,
                 (long long)run->longest[split]);
    return qkv_error_set(run->error,
                         "%s: its words make only %lld of the %lld different %s sentences%s wanted",
                         run->lexicon_path, (long long)run->statistics->pairs[split], (long long)count,
                         SPLIT_NAMES[split], lengths);
}

/* Fills a split with sentences with and without held-out combinations, as many of each as are wanted. */
static enum qkv_status fill(struct run *run, enum split split, int64_t count)
{
    bool single = !run->longest[split];
    int64_t held = split == TRAIN ? 0 : count * EN_ES_HELD_OUT_SHARE / 100;
    struct wanted wanted = {.held = held, .plain = count - held};
    struct drawing drawing = {.lexicon = run->lexicon, .seed = run->request->seed, .rich = !single};
    drawing.dice.random =
        generate_random(run->request->seed, single ? STREAM_CLAUSE : STREAM_SENTENCE, (int)split);
    if (single && split == TEST && add_examples(run, &wanted.plain)) return QKV_INVALID;
    run->statistics->held_out[split] = held;
    for (int refused = 0; wanted.held + wanted.plain > 0; refused++) {
        struct phrase phrase;
        bool added;
        phrase_clear(&phrase);
        if (refused == (single ? MOST_ATTEMPTS : MOST_ATTEMPTS_AT_LENGTHS)) return too_few(run, split, count);
        if (single ? !draw_single(&drawing, &wanted, &phrase)
                   : !draw_of_length(run, split, &drawing, &wanted, &phrase))
            continue;
        if (add(run, split, &phrase, &added)) return QKV_INVALID;
        if (!added) continue;
        --*wanted.kind;
        wanted.tried = 0;
        refused = 0;
    }
    return QKV_OK;
}

static bool count_types(struct run *run, enum split split)
{
    bool fine = true;
    for (int side = 0; side < 2; side++) {
        struct text_set types = {0};
        for (int64_t i = 0; i < run->statistics->pairs[split]; i++) {
            const struct pair *pair = &run->pair[split][i];
            char *save = NULL, *text = qkv_arena_string(&run->arena, side ? pair->target : pair->source);
            for (char *word = text ? strtok_r(text, " ", &save) : NULL; word;
                 word = strtok_r(NULL, " ", &save))
                if (!text_set_add(&types, word)) text = NULL;
            fine = fine && text;
        }
        run->statistics->types[split][side] = (int64_t)types.count;
        text_set_release(&types);
    }
    return fine;
}

/* Writes in a random order, for drawing fills the two kinds of a split at different speed. */
static enum qkv_status write_split(struct run *run, enum split split, FILE *text, FILE *links)
{
    int64_t count = run->statistics->pairs[split], *order = malloc(sizeof *order * (size_t)(count + 1));
    if (!order) return no_memory(run);
    for (int64_t i = 0; i < count; i++) order[i] = i;
    /* Steps 0 .. 2 of this stream have drawn the sentences. */
    qkv_random_shuffle(generate_random(run->request->seed, STREAM_CLAUSE, SPLITS + (int)split), count, order);
    for (int64_t i = 0; i < count; i++) {
        const struct pair *pair = &run->pair[split][order[i]];
        fprintf(text, "%s\t%s\n", pair->source, pair->target);
        if (links) fprintf(links, "%s\n", pair->links);
    }
    free(order);
    return QKV_OK;
}

/* Lists the held-out combinations, and counts all. */
static void write_held_out(struct run *run, FILE *file)
{
    const struct lexicon *lexicon = run->lexicon;
    struct en_es_statistics *statistics = run->statistics;
    for (int noun = 0; noun < lexicon->nouns; noun++) {
        const char *name = lexicon->noun[noun].source[SINGULAR];
        for (int i = 0; i < lexicon->adjectives; i++) {
            if (!(lexicon->adjective[i].tags & lexicon->noun[noun].tags)) continue;
            statistics->combinations[ADJECTIVE_NOUN]++;
            if (!held_out(run->request->seed, ADJECTIVE_NOUN, i, noun)) continue;
            statistics->combinations_held_out[ADJECTIVE_NOUN]++;
            fprintf(file, "adjective\t%s\t%s\n", lexicon->adjective[i].source, name);
        }
        for (int i = 0; i < lexicon->verbs; i++) {
            const struct verb *verb = &lexicon->verb[i];
            if (!(verb->object & lexicon->noun[noun].tags)) continue;
            statistics->combinations[VERB_OBJECT]++;
            if (!held_out(run->request->seed, VERB_OBJECT, i, noun)) continue;
            statistics->combinations_held_out[VERB_OBJECT]++;
            fprintf(file, "verb\t%s%s%s\t%s\n", verb->source[0], verb->particle ? " " : "",
                    verb->particle ? verb->particle : "", name);
        }
    }
}

/* Remembers the single clauses of dev and test of this seed, so that no training set has what they test.
 * Where the lexicon is too small for them there are no such sets. */
static void leave_out_single_clauses(struct run *run)
{
    struct en_es_statistics *kept = run->statistics, ignored = {0};
    struct qkv_error *error = run->error, unsaid;
    int64_t longest[SPLITS];
    memcpy(longest, run->longest, sizeof longest);
    memset(run->longest, 0, sizeof run->longest);
    run->statistics = &ignored;
    run->error = &unsaid;
    if (!fill(run, TEST, EN_ES_TEST)) fill(run, DEV, EN_ES_TEST);
    memcpy(run->longest, longest, sizeof longest);
    run->statistics = kept;
    run->error = error;
}

static enum qkv_status generate(struct run *run, struct output *output)
{
    for (int split = 0; split < SPLITS; split++) {
        int64_t count = run->request->count[split];
        run->pair[split] =
            malloc(sizeof(struct pair) * (size_t)((count > EN_ES_TEST ? count : EN_ES_TEST) + 1));
        if (!run->pair[split]) return no_memory(run);
    }
    if (run->longest[TRAIN]) leave_out_single_clauses(run);
    /* Train last, so that it can leave out what the others have. */
    static const enum split order[SPLITS] = {TEST, DEV, TRAIN};
    for (int i = 0; i < SPLITS; i++)
        if (fill(run, order[i], run->request->count[order[i]])) return QKV_INVALID;
    FILE *links[SPLITS] = {NULL, output->writer[DEV_ALIGN_FILE].file, output->writer[TEST_ALIGN_FILE].file};
    for (int split = 0; split < SPLITS; split++)
        if (!count_types(run, (enum split)split) ||
            write_split(run, (enum split)split, output->writer[TRAIN_FILE + split].file, links[split]))
            return no_memory(run);
    write_held_out(run, output->writer[HELD_OUT_FILE].file);
    return QKV_OK;
}

enum qkv_status en_es_generate(const struct en_es_request *request, struct en_es_statistics *statistics,
                               struct qkv_error *error)
{
    struct run run = {
        .request = &request->request,
        .lexicon_path = request->lexicon,
        .shortest = request->shortest,
        .longest = {request->longest, request->longest_test, request->longest_test},
        .statistics = statistics,
        .error = error,
    };
    struct output output;
    *statistics = (struct en_es_statistics){0};
    if (lexicon_read(&run.lexicon, request->lexicon, error)) return QKV_INVALID;
    enum qkv_status status = output_begin(&output, run.request, NAMES, FILES, error);
    if (!status) {
        status = generate(&run, &output);
        if (status)
            output_abandon(&output);
        else
            status = output_commit(&output, error);
    }
    for (int split = 0; split < SPLITS; split++) free(run.pair[split]);
    text_set_release(&run.seen);
    qkv_arena_release(&run.arena);
    lexicon_free(run.lexicon);
    return status;
}
