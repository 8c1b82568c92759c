#include "datasets/en_es.h"

#include "datasets/draw.h"
#include "datasets/set.h"

#include <stdlib.h>
#include <string.h>

/* After so many refused drawings in a row there are, in all likelihood, no more sentences to be found. */
enum { MOST_ATTEMPTS = 200000 };

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
    *added = false;
    if (phrase->source_count < EN_ES_SHORTEST || phrase->source_count > EN_ES_LONGEST) return QKV_OK;
    if (phrase->target_count < EN_ES_SHORTEST || phrase->target_count > EN_ES_LONGEST) return QKV_OK;
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

/* Fills a split with clauses with and without held-out combinations, as many of each as are wanted. */
static enum qkv_status fill(struct run *run, enum split split)
{
    int64_t count = run->request->count[split];
    int64_t held = split == TRAIN ? 0 : count * EN_ES_HELD_OUT_SHARE / 100, plain = count - held;
    struct drawing drawing = {.lexicon = run->lexicon, .seed = run->request->seed};
    drawing.dice.random = generate_random(run->request->seed, STREAM_CLAUSE, (int)split);
    if (split == TEST && add_examples(run, &plain)) return QKV_INVALID;
    run->statistics->held_out[split] = held;
    for (int refused = 0; held + plain > 0; refused++) {
        struct clause clause;
        struct phrase phrase = {0};
        bool added;
        if (refused == MOST_ATTEMPTS)
            return qkv_error_set(run->error,
                                 "%s: its words make only %lld of the %lld different %s sentences wanted",
                                 run->lexicon_path, (long long)run->statistics->pairs[split],
                                 (long long)count, SPLIT_NAMES[split]);
        if (!draw_clause(&drawing, &clause)) continue;
        int64_t *left = drawing.held_out ? &held : &plain;
        if (!*left) continue;
        grammar_clause(&clause, &phrase);
        if (add(run, split, &phrase, &added)) return QKV_INVALID;
        if (!added) continue;
        --*left;
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

static enum qkv_status generate(struct run *run, struct output *output)
{
    for (int split = 0; split < SPLITS; split++) {
        run->pair[split] = malloc(sizeof(struct pair) * (size_t)(run->request->count[split] + 1));
        if (!run->pair[split]) return no_memory(run);
    }
    /* Train last, so that it can leave out what the others have. */
    if (fill(run, TEST) || fill(run, DEV) || fill(run, TRAIN)) return QKV_INVALID;
    FILE *links[SPLITS] = {NULL, output->writer[DEV_ALIGN_FILE].file, output->writer[TEST_ALIGN_FILE].file};
    for (int split = 0; split < SPLITS; split++)
        if (!count_types(run, (enum split)split) ||
            write_split(run, (enum split)split, output->writer[TRAIN_FILE + split].file, links[split]))
            return no_memory(run);
    write_held_out(run, output->writer[HELD_OUT_FILE].file);
    return QKV_OK;
}

enum qkv_status en_es_generate(const struct request *request, const char *lexicon,
                               struct en_es_statistics *statistics, struct qkv_error *error)
{
    struct run run = {.request = request, .lexicon_path = lexicon, .statistics = statistics, .error = error};
    struct output output;
    *statistics = (struct en_es_statistics){0};
    if (lexicon_read(&run.lexicon, lexicon, error)) return QKV_INVALID;
    enum qkv_status status = output_begin(&output, request, NAMES, FILES, error);
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
