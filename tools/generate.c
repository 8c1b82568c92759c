/* qkv generate: makes the data sets of qkv from a seed. */
#include "command.h"
#include "datasets/generate/en_es.h"
#include "datasets/generate/sequences.h"

/* In the order of enum sequence_task, then the translation task. */
static const char *const TASKS[] = {
#define SEQUENCE_TASK(name, help) #name,
#include "datasets/generate/sequences.def"
#undef SEQUENCE_TASK
    "en_es",
};
enum { EN_ES = SEQUENCE_TASKS, TASK_COUNT };

enum { NOT_GIVEN = -1 };

struct options {
    const char *folder, *lexicon;
    bool overwrite, stream;
    int64_t seed, count[SPLITS], symbols, shortest, longest, longest_test;
};

static int64_t or_default(int64_t value, int64_t fallback)
{
    return value == NOT_GIVEN ? fallback : value;
}

static struct dataset_request request_of(const struct options *options, int64_t train)
{
    return (struct dataset_request){.folder = options->folder,
                                    .overwrite = options->overwrite,
                                    .stream = options->stream,
                                    .seed = (uint64_t)options->seed,
                                    .count = {or_default(options->count[TRAIN], train),
                                              or_default(options->count[DEV], 1000),
                                              or_default(options->count[TEST], 1000)}};
}

static void print_en_es(const struct en_es_statistics *s)
{
    static const char *const names[SPLITS] = {"train", "dev", "test"};
    printf("%-6s %8s %10s %16s %16s %10s\n", "", "pairs", "held out", "English words", "Spanish words",
           "links");
    for (int i = 0; i < SPLITS; i++)
        printf("%-6s %8lld %10lld %8lld (%5lld) %8lld (%5lld) %10lld\n", names[i], (long long)s->pairs[i],
               (long long)s->held_out[i], (long long)s->words[i][0], (long long)s->types[i][0],
               (long long)s->words[i][1], (long long)s->types[i][1], (long long)s->links[i]);
    printf("(in brackets: different words; held out: pairs with a combination that train never has)\n");
    printf("combinations held out: %lld of %lld adjective + noun, %lld of %lld verb + object\n",
           (long long)s->combinations_held_out[0], (long long)s->combinations[0],
           (long long)s->combinations_held_out[1], (long long)s->combinations[1]);
}

/* Returns false after an error message when a bound is below --shortest. */
static bool in_order(int64_t shortest, int64_t longest, int64_t longest_test)
{
    if (longest >= shortest && longest_test >= shortest) return true;
    print_error("--longest is %lld and --longest-test %lld, but must be at least --shortest (%lld)",
                (long long)longest, (long long)longest_test, (long long)shortest);
    return false;
}

/* Reads the lengths of sentences from the options; false after an error message. */
static bool sentence_lengths(const struct options *options, struct en_es_request *request)
{
    if (options->shortest == NOT_GIVEN && options->longest == NOT_GIVEN && options->longest_test == NOT_GIVEN)
        return true;
    request->shortest = or_default(options->shortest, EN_ES_SHORTEST);
    request->longest = or_default(options->longest, EN_ES_LONGEST);
    request->longest_test = or_default(options->longest_test, request->longest);
    if (!in_order(request->shortest, request->longest, request->longest_test)) return false;
    int64_t longest = request->longest > request->longest_test ? request->longest : request->longest_test;
    if (request->shortest >= EN_ES_SHORTEST && longest <= EN_ES_LIMIT) return true;
    print_error("sentences of %lld to %lld words are not possible: en_es makes %d to %d words",
                (long long)request->shortest, (long long)longest, EN_ES_SHORTEST, EN_ES_LIMIT);
    return false;
}

static int run_en_es(const struct options *options)
{
    if (options->symbols != NOT_GIVEN) return print_error("--symbols is for sequences of numbers only");
    struct en_es_request request = {.request = request_of(options, EN_ES_TRAIN)};
    struct en_es_statistics statistics;
    struct qkv_error error;
    request.lexicon = options->lexicon ? options->lexicon : "datasets/en_es/lexicon.txt";
    if (!sentence_lengths(options, &request)) return QKV_INVALID;
    if (en_es_generate(&request, &statistics, &error)) return print_error("%s", error.message);
    print_en_es(&statistics);
    return QKV_OK;
}

static int run_sequences(const struct options *options, enum sequence_task task)
{
    bool repeats = task == SEQUENCE_TASK_induction;
    if (options->lexicon) return print_error("--lexicon is for en_es only");
    struct sequence_request request = {.request = request_of(options, 50000),
                                       .task = task,
                                       .symbols = or_default(options->symbols, 50),
                                       .shortest = or_default(options->shortest, repeats ? 4 : 1),
                                       .longest = or_default(options->longest, repeats ? 48 : 25)};
    request.longest_test = or_default(options->longest_test, request.longest + (repeats ? 0 : 5));
    if (repeats && request.shortest < 4)
        return print_error("--shortest is %lld, but a line of induction has at least 4 numbers",
                           (long long)request.shortest);
    if (!in_order(request.shortest, request.longest, request.longest_test)) return QKV_INVALID;
    int64_t repeated[SPLITS];
    struct qkv_error error;
    if (sequences_generate(&request, repeated, &error)) return print_error("%s", error.message);
    static const char *const names[SPLITS] = {"train", "dev", "test"};
    for (int i = 0; i < SPLITS; i++) {
        printf("%-6s %lld lines of %lld to %lld numbers", names[i], (long long)request.request.count[i],
               (long long)request.shortest, (long long)(i == TRAIN ? request.longest : request.longest_test));
        if ((i == TRAIN) == options->stream)
            printf("; %lld of them, too short to be new, are in %s too", (long long)repeated[i],
                   i == TRAIN ? "dev or test" : "train");
        putchar('\n');
    }
    return QKV_OK;
}

static NAME_LISTER(task_name, index < TASK_COUNT ? TASKS[index] : NULL);

static struct options options = {
    NULL,      NULL,      false,     false,    42, {NOT_GIVEN, NOT_GIVEN, NOT_GIVEN},
    NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, NOT_GIVEN};

static int run_generate(int operands, char **operand)
{
    int task = 0;
    (void)operands;
    while (strcmp(operand[0], TASKS[task]) != 0) task++;
    if (!options.folder) return print_usage_error(&command_generate, "-o FOLDER is missing");
    return task == EN_ES ? run_en_es(&options) : run_sequences(&options, (enum sequence_task)task);
}

#define MAX_LINES 100e6

const struct command command_generate = {
    .name = "generate",
    .summary = "make a data set: copy, reverse, sort, induction, en_es",
    .synopsis = "generate TASK -o FOLDER [options]",
    .description =
        "Makes a data set: train.tsv, dev.tsv and test.tsv with a source, a tab and a target on each line. "
        "The same seed makes the same bytes on every machine.\n\n"
        "Tasks:\n"
#define SEQUENCE_TASK(name, help) "  " #name ": " help "\n"
#include "datasets/generate/sequences.def"
#undef SEQUENCE_TASK
        "  en_es: English sentences and their Spanish translations\n\n"
        "induction writes texts for a language model, in which an induction head forms: train.txt, dev.txt "
        "and test.txt, of lines whose last numbers, 2 to half of them, are the first ones again. All other "
        "tasks also write gold word alignments of dev and test (dev.align, test.align), en_es also the "
        "combinations of words that train never contains (held_out.tsv). Its sentences are single clauses of "
        "3 to 14 words; with --shortest, --longest or --longest-test, clauses are joined and have relative "
        "clauses, and all lengths are equally frequent.\n\n"
        "The sources of train, and for en_es all pairs, are kept in memory, so that dev and test share none "
        "with train. With --stream, dev and test are drawn first, train leaves out their sources, and each "
        "of its lines is written when it is drawn: any number of lines takes the same memory. Lines of train "
        "may then repeat, also those of en_es.\n",
    .examples = "  qkv generate reverse -o runs/reverse-data\n"
                "  qkv generate sort -o runs/sort-data --symbols 100 --longest 12 --train 20000\n"
                "  qkv generate induction -o datasets/induction\n"
                "  qkv generate en_es -o datasets/en_es --overwrite\n"
                "  qkv generate en_es -o runs/long --shortest 15 --longest 30 --longest-test 60\n"
                "  qkv generate copy -o runs/large --train 200000 --stream\n",
    .operands =
        (const struct command_operand[]){
            {"TASK", VALUE_OTHER,
#define SEQUENCE_TASK(name, help) #name ", "
#include "datasets/generate/sequences.def"
#undef SEQUENCE_TASK
             "or en_es", .choices = task_name},
            {0},
        },
    .options = OPTIONS(
        {"output", 'o', "FOLDER", OPTION_TEXT, &options.folder,
         "the folder to write; made when it does not exist", .completes = VALUE_FOLDER},
        {"overwrite", 0, NULL, OPTION_FLAG, &options.overwrite, "replace existing files"},
        {"seed", 's', "N", OPTION_INTEGER, &options.seed, "another seed makes other data (default: 42)", 0,
         9e15},
        {"train", 0, "N", OPTION_INTEGER, &options.count[TRAIN],
         "lines of train (default: 50000; en_es: 24000)", 1, MAX_LINES},
        {"dev", 0, "N", OPTION_INTEGER, &options.count[DEV], "lines of dev (default: 1000)", 1, MAX_LINES},
        {"test", 0, "N", OPTION_INTEGER, &options.count[TEST], "lines of test (default: 1000)", 1, MAX_LINES},
        {"stream", 0, NULL, OPTION_FLAG, &options.stream,
         "take no memory for train, whose lines may repeat: for many millions of lines"},
        {"symbols", 0, "N", OPTION_INTEGER, &options.symbols,
         "sequences of numbers: they are 0 to N-1 (default: 50)", 1, 1e9},
        {"shortest", 0, "N", OPTION_INTEGER, &options.shortest,
         "fewest numbers, or English words, of a line (default: 1; induction: 4; en_es: 3)", 1, 10000},
        {"longest", 0, "N", OPTION_INTEGER, &options.longest,
         "most numbers, or English words, of a line of train (default: 25; induction: 48; en_es: 14)", 1,
         10000},
        {"longest-test", 0, "N", OPTION_INTEGER, &options.longest_test,
         "the same of dev and test (default: --longest plus 5; induction, en_es: --longest)", 1, 10000},
        {"lexicon", 0, "FILE", OPTION_TEXT, &options.lexicon,
         "words of en_es (default: datasets/en_es/lexicon.txt)", .completes = VALUE_FILE}),
    .run = run_generate,
};
