#include "datasets/generate/en_es.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/text.h"

#include "datasets/generate/random_sentence.h"

enum {
    /* After so many rejected clauses in a row, most likely no new one exists: an error. */
    MAX_ATTEMPTS = 200000,
    /* The same limit for sentences of a wanted length, where each attempt takes longer. */
    MAX_ATTEMPTS_AT_LENGTHS = 2000,
    /* After so many attempts at one length, another length is drawn. */
    MAX_ATTEMPTS_OF_A_LENGTH = 20
};

enum { TRAIN_FILE, DEV_FILE, TEST_FILE, DEV_ALIGN_FILE, TEST_ALIGN_FILE, HELD_OUT_FILE, FILES };

static const char *const NAMES[FILES] = {"train.tsv", "dev.tsv",    "test.tsv",
                                         "dev.align", "test.align", "held_out.tsv"};
static const char *const SPLIT_NAMES[SPLITS] = {"train", "dev", "test"};

struct pair {
    const char *source, *target, *links; /* links: "0-0 1-2" */
};

struct generation {
    const struct dataset_request *request;
    const char *lexicon_path;
    int64_t shortest, longest[SPLITS]; /* words; longest 0: single clauses */
    struct lexicon *lexicon;
    struct qkv_arena arena; /* owns the texts of `pair` */
    struct qkv_arena line;  /* the texts of a pair that is written at once */
    struct qkv_types seen;  /* every source so far that must not come again */
    struct pair *pair[SPLITS];
    struct qkv_types words[SPLITS][2];   /* English and Spanish */
    const struct qkv_file_writer *train; /* writes pairs of train at once; NULL: they are kept */
    struct en_es_statistics *statistics;
    struct qkv_error *error;
};

/* Counts a sentence that was added to a split. */
static bool count_pair(struct generation *generation, enum split split, const struct phrase *phrase)
{
    struct en_es_statistics *statistics = generation->statistics;
    for (int side = 0; side < SIDES; side++) {
        statistics->words[split][side] += phrase->count[side];
        for (int i = 0; i < phrase->count[side]; i++)
            if (qkv_types_add(&generation->words[split][side], phrase->word[side][i], 1) < 0) return false;
    }
    statistics->pairs[split]++;
    statistics->links[split] += phrase->link_count;
    return true;
}

/* Adds a sentence to a split, if it is new and of the right length; *added says so. */
static enum qkv_status add(struct generation *generation, enum split split, const struct phrase *phrase,
                           bool *added)
{
    bool is_kept = split != TRAIN || !generation->train;
    struct qkv_arena *arena = is_kept ? &generation->arena : &generation->line;
    int64_t shortest = generation->longest[split] ? generation->shortest : EN_ES_SHORTEST;
    int64_t longest = generation->longest[split] ? generation->longest[split] : EN_ES_LONGEST;
    *added = false;
    if (phrase->count[SOURCE] < shortest || phrase->count[SOURCE] > longest) return QKV_OK;
    if (phrase->count[TARGET] < shortest || phrase->count[TARGET] > longest) return QKV_OK;
    qkv_arena_reset(&generation->line);
    struct pair pair = {.source = phrase_text(phrase, SOURCE, arena)};
    if (!pair.source) return qkv_no_memory(generation->error);
    if (qkv_types_find(&generation->seen, pair.source) >= 0) return QKV_OK;
    pair.target = phrase_text(phrase, TARGET, arena);
    if (split != TRAIN) pair.links = phrase_link_text(phrase, arena);
    if (!pair.target || (split != TRAIN && !pair.links)) return qkv_no_memory(generation->error);
    if (is_kept) generation->pair[split][generation->statistics->pairs[split]] = pair;
    if (is_kept && qkv_types_add(&generation->seen, pair.source, 1) < 0)
        return qkv_no_memory(generation->error);
    if (!is_kept) fprintf(generation->train->file, "%s\t%s\n", pair.source, pair.target);
    if (!is_kept && dataset_line_check(generation->train, generation->error)) return QKV_INVALID;
    if (!count_pair(generation, split, phrase)) return qkv_no_memory(generation->error);
    *added = true;
    return QKV_OK;
}

static enum qkv_status add_examples(struct generation *generation, int64_t *left)
{
    for (int i = 0; i<generation->lexicon->examples && * left> 0; i++) {
        bool added;
        struct phrase phrase = {0};
        struct clause clause = example_clause(generation->lexicon, &generation->lexicon->example[i]);
        grammar_clause(&clause, &phrase);
        if (add(generation, TEST, &phrase, &added)) return QKV_INVALID;
        *left -= added;
    }
    return QKV_OK;
}

/* The sentences that a split still needs. */
struct quota {
    int64_t held, plain; /* number of sentences with and without held-out combinations */
    int64_t *kind;       /* &held or &plain: where the sentence that was drawn last counts */
    int64_t length;      /* wanted English words */
    int64_t tried;       /* attempts since the last sentence was added */
};

/* Draws a clause of any length; false when the split does not need it. */
static bool draw_single(struct sampler *sampler, struct quota *quota, struct phrase *phrase)
{
    struct clause clause;
    if (!draw_clause(sampler, &clause)) return false;
    quota->kind = sampler->held_out ? &quota->held : &quota->plain;
    if (*quota->kind) grammar_clause(&clause, phrase);
    return *quota->kind > 0;
}

/* Draws a sentence. Its length is kept until a sentence is found, so that all lengths are equally frequent. */
static bool draw_of_length(const struct generation *generation, enum split split, struct sampler *sampler,
                           struct quota *quota, struct phrase *phrase)
{
    if (quota->tried++ % MAX_ATTEMPTS_OF_A_LENGTH == 0) {
        quota->length = generation->shortest +
                        dice_below(&sampler->dice, generation->longest[split] - generation->shortest + 1);
        bool held = dice_below(&sampler->dice, quota->held + quota->plain) < quota->held;
        quota->kind = held ? &quota->held : &quota->plain;
    }
    return draw_sentence(sampler, (int)quota->length, quota->kind == &quota->held, phrase);
}

static enum qkv_status too_few(struct generation *generation, enum split split, int64_t count)
{
    char lengths[64] = "";
    if (generation->longest[split])
        snprintf(lengths, sizeof lengths, " of %lld to %lld words", (long long)generation->shortest,
                 (long long)generation->longest[split]);
    return qkv_error_set(generation->error,
                         "%s: its words make only %lld of the %lld different %s sentences%s wanted",
                         generation->lexicon_path, (long long)generation->statistics->pairs[split],
                         (long long)count, SPLIT_NAMES[split], lengths);
}

/* Fills a split with `count` sentences, some of them with held-out combinations. */
static enum qkv_status fill(struct generation *generation, enum split split, int64_t count)
{
    bool single = !generation->longest[split];
    int64_t held = split == TRAIN ? 0 : count * EN_ES_HELD_OUT_PERCENT / 100;
    struct quota quota = {.held = held, .plain = count - held};
    struct sampler sampler = {
        .lexicon = generation->lexicon, .seed = generation->request->seed, .rich = !single};
    sampler.dice.random =
        generate_random(generation->request->seed, single ? STREAM_CLAUSE : STREAM_SENTENCE, (int)split);
    if (single && split == TEST && add_examples(generation, &quota.plain)) return QKV_INVALID;
    generation->statistics->held_out[split] = held;
    for (int refused = 0; quota.held + quota.plain > 0; refused++) {
        struct phrase phrase;
        bool added;
        phrase_clear(&phrase);
        if (refused == (single ? MAX_ATTEMPTS : MAX_ATTEMPTS_AT_LENGTHS))
            return too_few(generation, split, count);
        if (single ? !draw_single(&sampler, &quota, &phrase)
                   : !draw_of_length(generation, split, &sampler, &quota, &phrase))
            continue;
        if (add(generation, split, &phrase, &added)) return QKV_INVALID;
        if (!added) continue;
        --*quota.kind;
        quota.tried = 0;
        refused = 0;
    }
    return QKV_OK;
}

/* Writes the pairs in random order, because sentences with held-out combinations are found later than others. */
static enum qkv_status write_split(struct generation *generation, enum split split, FILE *text, FILE *links)
{
    int64_t count = generation->statistics->pairs[split],
            *order = malloc(sizeof *order * (size_t)(count + 1));
    if (!order) return qkv_no_memory(generation->error);
    for (int64_t i = 0; i < count; i++) order[i] = i;
    /* SPLITS + split: the steps 0 .. 2 of this stream are those that draw single clauses. */
    qkv_random_shuffle(generate_random(generation->request->seed, STREAM_CLAUSE, SPLITS + (int)split), count,
                       order);
    for (int64_t i = 0; i < count; i++) {
        const struct pair *pair = &generation->pair[split][order[i]];
        fprintf(text, "%s\t%s\n", pair->source, pair->target);
        if (links) fprintf(links, "%s\n", pair->links);
    }
    free(order);
    return QKV_OK;
}

/* Counts a word and a noun, if they fit. Whether they are held out. */
static bool count_combination(struct generation *generation, enum combination kind, int word, uint64_t tags,
                              int noun)
{
    bool fits = tags & generation->lexicon->noun[noun].tags,
         is_out = fits && is_held_out(generation->request->seed, kind, word, noun);
    generation->statistics->combinations[kind] += fits;
    generation->statistics->combinations_held_out[kind] += is_out;
    return is_out;
}

/* Writes the held-out combinations, and counts all combinations. */
static void write_held_out(struct generation *generation, FILE *file)
{
    const struct lexicon *lexicon = generation->lexicon;
    for (int noun = 0; noun < lexicon->nouns; noun++) {
        const char *name = lexicon->noun[noun].source[SINGULAR];
        for (int i = 0; i < lexicon->adjectives; i++)
            if (count_combination(generation, ADJECTIVE_NOUN, i, lexicon->adjective[i].tags, noun))
                fprintf(file, "adjective\t%s\t%s\n", lexicon->adjective[i].source, name);
        for (int i = 0; i < lexicon->verbs; i++) {
            const struct verb *verb = &lexicon->verb[i];
            if (count_combination(generation, VERB_OBJECT, i, verb->object, noun))
                fprintf(file, "verb\t%s%s%s\t%s\n", verb->source[0], verb->particle ? " " : "",
                        verb->particle ? verb->particle : "", name);
        }
    }
}

static void release_words(struct generation *generation)
{
    for (int split = 0; split < SPLITS; split++)
        for (int side = 0; side < 2; side++) qkv_types_release(&generation->words[split][side]);
}

/* Generates the dev and test sets of single clauses of this seed and only marks their sources as
 * seen, so that they are in no training set. Ignores an error: a lexicon that is too small for
 * these sets has none. */
static void leave_out_single_clauses(struct generation *generation)
{
    struct en_es_statistics *kept = generation->statistics, ignored = {0};
    struct qkv_error *error = generation->error, ignored_error;
    int64_t longest[SPLITS];
    memcpy(longest, generation->longest, sizeof longest);
    memset(generation->longest, 0, sizeof generation->longest);
    generation->statistics = &ignored;
    generation->error = &ignored_error;
    if (!fill(generation, TEST, EN_ES_TEST)) fill(generation, DEV, EN_ES_TEST);
    memcpy(generation->longest, longest, sizeof longest);
    generation->statistics = kept;
    generation->error = error;
    release_words(generation);
}

static enum qkv_status generate(struct generation *generation, struct dataset_files *files)
{
    for (int split = 0; split < SPLITS; split++) {
        int64_t count = split == TRAIN && generation->train ? 0 : generation->request->count[split];
        generation->pair[split] =
            malloc(sizeof(struct pair) * (size_t)((count > EN_ES_TEST ? count : EN_ES_TEST) + 1));
        if (!generation->pair[split]) return qkv_no_memory(generation->error);
    }
    if (generation->longest[TRAIN]) leave_out_single_clauses(generation);
    /* Train is last, so that it can leave out the sentences of the others. */
    static const enum split order[SPLITS] = {TEST, DEV, TRAIN};
    for (int i = 0; i < SPLITS; i++)
        if (fill(generation, order[i], generation->request->count[order[i]])) return QKV_INVALID;
    FILE *links[SPLITS] = {NULL, files->writer[DEV_ALIGN_FILE].file, files->writer[TEST_ALIGN_FILE].file};
    for (int split = 0; split < SPLITS; split++) {
        for (int side = 0; side < 2; side++)
            generation->statistics->types[split][side] = generation->words[split][side].size;
        if (split == TRAIN && generation->train) continue;
        if (write_split(generation, (enum split)split, files->writer[TRAIN_FILE + split].file, links[split]))
            return qkv_no_memory(generation->error);
    }
    write_held_out(generation, files->writer[HELD_OUT_FILE].file);
    return QKV_OK;
}

enum qkv_status en_es_generate(const struct en_es_request *request, struct en_es_statistics *statistics,
                               struct qkv_error *error)
{
    struct generation generation = {
        .request = &request->request,
        .lexicon_path = request->lexicon,
        .shortest = request->shortest,
        .longest = {request->longest, request->longest_test, request->longest_test},
        .statistics = statistics,
        .error = error,
    };
    struct dataset_files files;
    *statistics = (struct en_es_statistics){0};
    if (lexicon_read(&generation.lexicon, request->lexicon, error)) return QKV_INVALID;
    enum qkv_status status = dataset_files_begin(&files, generation.request, NAMES, FILES, error);
    if (!status) {
        if (generation.request->stream) generation.train = &files.writer[TRAIN_FILE];
        status = dataset_files_end(&files, generate(&generation, &files), error);
    }
    for (int split = 0; split < SPLITS; split++) free(generation.pair[split]);
    release_words(&generation);
    qkv_types_release(&generation.seen);
    qkv_arena_release(&generation.arena);
    qkv_arena_release(&generation.line);
    lexicon_free(generation.lexicon);
    return status;
}
