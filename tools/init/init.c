/* qkv init: makes a config that is ready for training from a file of sentence pairs. */
#include "init/init.h"

#include <ctype.h>
#include <strings.h>

enum { NOT_GIVEN = -1, MIN_PAIRS = 10, PART_MAX = 1000, PART_SHARE = 20, MIN_EPOCHS = 3 };

static struct init_options options = {.seed = 42, .dev = NOT_GIVEN, .test = NOT_GIVEN, .minutes = 10};

/* ---- names ---- */

static bool is_name_letter(char letter)
{
    return isalnum((unsigned char)letter) || letter == '.' || letter == '_' || letter == '-';
}

/* Length of a text without this end, in upper or lower case; `size` if it has another end. */
static size_t without_end(const char *text, size_t size, const char *end)
{
    size_t end_size = strlen(end);
    return size > end_size && !strncasecmp(text + size - end_size, end, end_size) ? size - end_size : size;
}

/* Length of the part of a name before the last dot of the prefix that it shares with the other name: europarl for europarl.en
 * and europarl.de. The complete length if there is no such part. */
static size_t common_part(const char *name, size_t size, const char *other)
{
    size_t common = 0, dot = 0;
    for (; common < size && name[common] == other[common]; common++)
        if (name[common] == '.') dot = common;
    return dot && common < size ? dot : size;
}

/* Makes the name of the run from the names of the files that the pairs come from: spa for data/spa.txt.gz. target: NULL if
 * there is only one file. */
static void name_by_input(struct init *init, const char *input, const char *target)
{
    static const char *const ends[] = {".gz", ".tsv", ".txt", ".csv", ".jsonl", ".ndjson", ".json"};
    const char *base = strcmp(input, "-") != 0 ? init_base(input) : "";
    size_t size = strlen(base);
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) size = without_end(base, size, ends[e]);
    if (target) size = common_part(base, size, init_base(target));
    for (; size && *base == '.'; base++) size--;
    snprintf(init->name, sizeof init->name, "%.*s", (int)(size < 150 ? size : 150), base);
    /* One underscore for each other character, however many bytes of UTF-8 it has. */
    char *to = init->name;
    for (const char *at = init->name; *at; at++)
        if (((unsigned char)*at & 0xC0) != 0x80) *to++ = is_name_letter(*at) ? *at : '_';
    *to = '\0';
    if (!*init->name) snprintf(init->name, sizeof init->name, "pairs");
    snprintf(init->file, sizeof init->file, "%s.yaml", init->name);
}

/* Makes the name of the run from that of the config. Returns the exit code. */
static int name_by_config(struct init *init, const char *config)
{
    const char *base = init_base(config);
    size_t length = strlen(base), size = without_end(base, without_end(base, length, ".yaml"), ".yml");
    if (size == length) return print_error("-o %s: the name of a config must end in .yaml", config);
    if (strlen(config) >= sizeof init->folder || size >= 150) return print_error("-o: the name is too long");
    snprintf(init->name, sizeof init->name, "%.*s", (int)size, base);
    snprintf(init->folder, sizeof init->folder, "%.*s", (int)(base - config), config);
    snprintf(init->file, sizeof init->file, "%s", config);
    for (const char *at = init->name; *at; at++)
        if (!is_name_letter(*at) || *init->name == '.')
            return print_error(
                "-o %s: the run takes its name from the config, so the name must be made of letters, "
                "digits, '.', '_' and '-', and not start with '.'",
                config);
    return QKV_OK;
}

/* Whether a text has the form of a language code: two or three letters, perhaps with a script or a region, as in pt-BR. */
static bool is_language_code(const char *text)
{
    const char *at = text;
    while (isalpha((unsigned char)*at)) at++;
    bool valid = at - text == 2 || at - text == 3;
    for (; valid && *at; at++) valid = isalnum((unsigned char)*at) || *at == '-' || *at == '_';
    return valid;
}

/* Whether a text consists of letters, digits, '-' and '_', as does the end of the name of a file. */
static bool is_file_suffix(const char *text)
{
    bool valid = *text;
    for (; valid && *text; text++) valid = isalnum((unsigned char)*text) || *text == '-' || *text == '_';
    return valid;
}

/* Replaces the name of a language, or its code of three letters, by the code of two letters. has_prefix: PAIRS is the prefix
 * of two files, of which the option may name any suffix. Returns the exit code. */
static int read_language(const char *option, const char **lang, bool has_prefix)
{
    if (!*lang) return QKV_OK;
    const char *code = qkv_language_code(*lang, strlen(*lang));
    if (code) *lang = code;
    bool valid = strlen(*lang) < sizeof((struct qkv_pairs){0}.lang[0]) &&
                 (is_language_code(*lang) || (has_prefix && is_file_suffix(*lang)));
    return valid
               ? QKV_OK
               : print_error("%s is '%s', but must be a language code, such as en or pt-BR, or the name of a "
                             "language that qkv knows, such as English",
                             option, *lang);
}

/* Sets the language codes of the config: src and trg if the languages are not known. */
static void name_languages(struct init *init)
{
    static const char *const unknown[2] = {"src", "trg"};
    for (int side = 0; side < 2; side++) {
        const char *found = init->pairs.lang[side];
        snprintf(init->lang[side], sizeof init->lang[side], "%s", *found ? found : unknown[side]);
    }
}

/* ---- the steps ---- */

static int read_columns(int64_t column[2], int operands)
{
    if (!options.columns) return QKV_OK;
    if (operands > 1)
        return print_error("--columns names columns of a table, but there are two files: their order says "
                           "which one is the source");
    char *end;
    column[0] = strtol(options.columns, &end, 10);
    if (*end == ',') column[1] = strtol(end + 1, &end, 10);
    if (*end || column[0] < 1 || column[1] < 1 || column[0] == column[1])
        return print_error("--columns is '%s', but must be the numbers of two different columns, such as 1,2",
                           options.columns);
    return QKV_OK;
}

/* Removes the markup and the pairs that --clean asks for, and reports them. */
static enum qkv_status clean(struct init *init, struct qkv_error *error)
{
    struct qkv_pairs_removed removed;
    if (!options.clean) return QKV_OK;
    int64_t before = init->pairs.count, changed = qkv_pairs_remove_markup(&init->pairs, &init->facts),
            emptied = before - init->pairs.count;
    if (changed && !options.quiet) {
        printf("cleaned: took HTML out of %lld pair%s", (long long)changed, changed == 1 ? "" : "s");
        if (emptied) printf("; removed %lld in which a side had nothing else", (long long)emptied);
        putchar('\n');
    }
    if (qkv_pairs_clean(&init->pairs, &removed, error)) return QKV_INVALID;
    if (!options.quiet)
        printf(
            "cleaned: removed %lld repeated pair%s and %lld in which one side is far too long for the other; "
            "%lld remain\n",
            (long long)removed.repeated, removed.repeated == 1 ? "" : "s", (long long)removed.unbalanced,
            (long long)init->pairs.count);
    return QKV_OK;
}

static enum qkv_status split(struct init *init, struct qkv_error *error)
{
    int64_t count = init->pairs.count, part = count / PART_SHARE;
    if (count < MIN_PAIRS)
        return qkv_error_set(
            error,
            "%s: has %lld pair%s, but training, dev and test need at least %d together, and learning to "
            "translate takes thousands",
            init->pairs.path[0], (long long)count, count == 1 ? "" : "s", MIN_PAIRS);
    part = part < 1 ? 1 : part > PART_MAX ? PART_MAX : part;
    const struct qkv_pairs_parts wanted = {options.dev == NOT_GIVEN ? part : options.dev,
                                           options.test == NOT_GIVEN ? part : options.test,
                                           (uint64_t)options.seed};
    init->part = required(malloc((size_t)count * sizeof *init->part));
    if (qkv_pairs_split(&init->pairs, wanted, init->part, error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) init->count[init->part[i]]++;
    return QKV_OK;
}

/* Chooses the number of updates: by --updates, or by measuring the speed. If the time allows only a few epochs, chooses a
 * smaller model, which learns more in that time. */
static enum qkv_status choose_updates(struct init *init, struct qkv_error *error)
{
    struct init_plan *plan = &init->plan;
    struct progress_bar bar = progress_bar_on(stderr);
    plan->updates = options.updates;
    while (!plan->updates) {
        if (!options.quiet) progress_bar_show(&bar, -1, "measuring how fast this machine trains");
        enum qkv_status status = init_measure(init, error);
        progress_bar_clear(&bar);
        if (status) return status;
        int64_t updates = init_plan_updates(plan, &init->cost, 60 * options.minutes);
        if (updates >= MIN_EPOCHS * init->cost.batches || !init_plan_shrink(plan)) plan->updates = updates;
    }
    return QKV_OK;
}

static void report_end(const struct init *init)
{
    const struct qkv_train_cost *cost = &init->cost;
    if (cost->parameters) {
        char duration[16];
        double updates = (double)init->plan.updates, seconds = updates * cost->seconds_per_update;
        int64_t freq = init_validation_freq(&init->plan),
                validations = (init->plan.updates + freq - 1) / freq;
        format_duration(seconds + (double)validations * cost->seconds_per_validation, duration);
        printf("training: %lld parameters, %lld updates (%.1f epochs)\ntime: about %s on this machine\n",
               (long long)cost->parameters, (long long)init->plan.updates,
               cost->batches ? updates / (double)cost->batches : 0, duration);
        if (init->plan.updates < cost->batches)
            printf("  this is less than one pass over the text; --minutes %lld would suit it\n",
                   (long long)init_plan_minutes(cost, MIN_EPOCHS));
        if (cost->seconds_per_validation > seconds / 2)
            printf("  a validation takes %.0f s: a smaller dev set, as with --dev %lld, leaves more for "
                   "training\n",
                   cost->seconds_per_validation, (long long)(init->count[QKV_PAIRS_DEV] + 9) / 10);
    } else {
        printf("training: %lld updates\n", (long long)init->plan.updates);
    }
    fputs("wrote ", stdout);
    for (int f = 0; f < INIT_FILES; f++) {
        char path[PATH_MAX];
        print_result(stdout, init_path(init, f, path));
        fputs(f + 1 < INIT_FILES ? ", " : "\n", stdout);
    }
    print_command(stdout, "next: qkv train %s\n", init->file);
}

/* Whether the operand is a text for a language model; options for pairs alone say that it is not. */
static bool is_text(struct init_text *text, const struct qkv_pairs_request *request)
{
    bool wants_pairs = request->target || request->lang[0] || options.columns || options.clean ||
                       options.dev != NOT_GIVEN || options.test != NOT_GIVEN;
    if (wants_pairs || !strcmp(request->path, "-") || !qkv_path_exists(request->path)) return false;
    return init_text_read(text, request->path);
}

static enum qkv_status make_all(struct init *init, const struct qkv_pairs_request *request,
                                struct qkv_error *error)
{
    /* Checks early, before the slow reading, and again when the files that were read are known. */
    if (init_files_check(init, error) || qkv_pairs_read(&init->pairs, *request, error) ||
        qkv_pairs_describe(&init->pairs, &init->facts, error) || init_files_check(init, error))
        return QKV_INVALID;
    name_languages(init);
    if (!options.quiet) init_report_pairs(init);
    if (clean(init, error) || split(init, error) || init_plan_choose(init, error) ||
        init_files_try(init, error)) /* before the measurement, which takes some seconds */
        return QKV_INVALID;
    if (!options.quiet && !options.updates) fflush(stdout);
    if (choose_updates(init, error) || init_files_write(init, init->pairs.count, error)) return QKV_INVALID;
    if (options.quiet) return QKV_OK;
    init_report_plan(init);
    report_end(init);
    return QKV_OK;
}

static int run_init(int operands, char **operand)
{
    bool has_prefix = operands == 1 && strcmp(operand[0], "-") != 0 && !qkv_path_exists(operand[0]);
    if (read_language("--src", &options.lang[0], has_prefix) ||
        read_language("--trg", &options.lang[1], has_prefix))
        return QKV_INVALID;
    struct qkv_pairs_request request = {.path = operand[0],
                                        .target = operands > 1 ? operand[1] : NULL,
                                        .lang = {options.lang[0], options.lang[1]}};
    static struct init init = {.options = &options};
    struct qkv_error error = {""};
    if (operands > 2) return print_usage_error(&command_init, "there are more than two files");
    if (read_columns(request.column, operands)) return QKV_INVALID;
    if (!options.config)
        name_by_input(&init, operand[0], request.target);
    else if (name_by_config(&init, options.config))
        return QKV_INVALID;
    init.origin = operand[0];
    struct init_text text;
    enum qkv_status status =
        is_text(&text, &request) ? init_text_make(&init, &text, &error) : make_all(&init, &request, &error);
    qkv_pairs_release(&init.pairs);
    free(init.part);
    return conclude(status, &error);
}

const struct command command_init = {
    .name = "init",
    .summary = "make a config from a file of sentence pairs, or a text",
    .synopsis = "init PAIRS [PAIRS2] [options]",
    .description =
        "Reads sentence pairs in the formats that people usually have, says what it found, and writes a "
        "config for `qkv train` with its training, dev and test files beside it. The sizes of the model "
        "follow from the amount of text, the length of training from the time that you have; for that, some "
        "seconds of training are measured. Too little time for the text makes the model smaller.\n\n"
        "PAIRS is a table with a pair in each line and tabs between its columns: also a file of "
        "manythings.org/anki, an export of Tatoeba, or notes exported from Anki as plain text (not .apkg); "
        "or it is CSV with commas or semicolons (RFC 4180), or JSON lines, whose fields are the columns. The "
        "first column with sentences is the source, the second one the target; others are skipped. Or PAIRS "
        "and PAIRS2 are two files with a sentence in each line, of which line n of one is the translation of "
        "line n of the other; PAIRS alone may be their common prefix: then the name that comes first in the "
        "alphabet is the source, unless --src or --trg says otherwise. Files may be gzip, in UTF-8 or "
        "UTF-16.\n\n"
        "If PAIRS is one file whose lines are no pairs, but running text of at least 10,000 characters, the "
        "config is for a language model, which validates on the end of the text and leaves the file as it "
        "is.\n\n"
        "No sentence of dev or test is in another part, on either side; upper and lower case, punctuation "
        "and spaces do not matter for that. The same seed makes the same parts on every machine. All files "
        "are written, or none.\n",
    .examples = "  qkv init spa.txt\n"
                "  qkv init train.en train.de -o runs/ende.yaml --minutes 30\n"
                "  qkv init pairs.tsv.gz --src en --trg fr --clean\n",
    .operands =
        OPERANDS({"PAIRS", VALUE_FILE,
                  "a table of pairs, a text, or the source side, or a common prefix; -: standard input"},
                 {"PAIRS2", VALUE_FILE, "the target side, where PAIRS is the source side", .optional = true}),
    .options = OPTIONS(
        {"output", 'o', "CONFIG", OPTION_TEXT, &options.config,
         "the config to write (default: NAME.yaml in this folder, where PAIRS is NAME.txt, or the two "
         "files are NAME.en and NAME.de; characters other than letters, digits, '.', '_' and '-', such "
         "as spaces, become underscores)",
         .completes = VALUE_FILE},
        {"src", 0, "CODE", OPTION_TEXT, &options.lang[0],
         "language of the source: a code such as en or pt-BR, or a name such as English (default: by names "
         "of files and columns, else `src`); where these name it for the other side, the sides are "
         "exchanged"},
        {"trg", 0, "CODE", OPTION_TEXT, &options.lang[1],
         "language of the target (default: likewise, else `trg`)"},
        {"columns", 0, "N,M", OPTION_TEXT, &options.columns,
         "columns of source and target, from 1; 2,1 swaps them (default: the first two that hold sentences)"},
        {"minutes", 'm', "N", OPTION_NUMBER, &options.minutes,
         "longest time of training on this machine (default: 10)", 0.25, 100000},
        {"updates", 0, "N", OPTION_INTEGER, &options.updates,
         "train for N updates instead of --minutes; skips the measurement of speed", 1, 1e9},
        {"clean", 'c', NULL, OPTION_FLAG, &options.clean,
         "remove HTML from sentences, and pairs that repeat an earlier one, or whose lengths differ so much "
         "that one is probably not the translation of the other"},
        {"dev", 0, "N", OPTION_INTEGER, &options.dev,
         "the maximal number of pairs of dev (default: a twentieth of all, up to 1000)", 1, 1e9},
        {"test", 0, "N", OPTION_INTEGER, &options.test,
         "the maximal number of pairs of test (default: likewise)", 1, 1e9},
        {"seed", 's', "N", OPTION_INTEGER, &options.seed,
         "another seed draws other pairs for dev and test (default: 42)", 0, 9e15},
        {"overwrite", 0, NULL, OPTION_FLAG, &options.overwrite, "replace existing files"},
        COMMAND_OPTION_THREADS(&options.threads),
        {"quiet", 'q', NULL, OPTION_FLAG, &options.quiet, "print errors only"}),
    .run = run_init,
};
