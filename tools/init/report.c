/* What `qkv init` says about the pairs that it has read, and about its plan. */
#include "init/init.h"

#include "data/tokenizer.h"

enum { FEW_PAIRS = 2000, USUAL_PAIRS = 10000, EXAMPLE_MAX = 120 /* characters of a sentence */ };

/* Says which header lines of Anki, and which columns that they name, were skipped. */
static void report_anki(const struct qkv_pairs *pairs)
{
    static const char *const names[QKV_ANKI_COLUMNS] = {[QKV_ANKI_GUID] = "guid",
                                                        [QKV_ANKI_NOTETYPE] = "notetype",
                                                        [QKV_ANKI_DECK] = "deck",
                                                        [QKV_ANKI_TAGS] = "tags"};
    const char *before = ", and the columns that they name: ";
    if (!pairs->anki_lines) return;
    printf("  skipped %lld header line%s of Anki", (long long)pairs->anki_lines,
           pairs->anki_lines == 1 ? "" : "s");
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) {
        if (!pairs->anki_column[k]) continue;
        printf("%s%s (%d)", before, names[k], pairs->anki_column[k]);
        before = ", ";
    }
    putchar('\n');
}

static void report_left_out(const struct qkv_pairs *pairs)
{
    const struct {
        const struct qkv_skipped_lines *lines;
        const char *one, *several;
    } kinds[] = {
        {&pairs->blank, "blank line", "blank lines"},
        {&pairs->incomplete, "line without one of these columns", "lines without one of these columns"},
        {&pairs->other_columns, "row with another number of columns than most",
         "rows with another number of columns than most"},
        {&pairs->empty, "pair with an empty side", "pairs with an empty side"}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const struct qkv_skipped_lines *lines = kinds[k].lines;
        if (lines->count)
            printf("  left out %lld %s (the first is line %lld)\n", (long long)lines->count,
                   lines->count == 1 ? kinds[k].one : kinds[k].several, (long long)lines->first);
    }
}

static void report_side(const struct qkv_pairs *pairs, const struct qkv_pairs_side *side, const char *lang,
                        const char *name)
{
    printf("  %s (%s): %.1f words a sentence, at most %lld; %lld different characters, %s", name, lang,
           (double)side->words / (double)pairs->count, (long long)side->longest, (long long)side->alphabet,
           side->script);
    if (side->script_share < 0.995 && side->script_share > 0) printf(" (%.0f %%)", 100 * side->script_share);
    putchar('\n');
}

/* Says that the languages follow from the name of the file, and how to correct them: --src and --trg alone would exchange the
 * columns, too. */
static void report_order(const struct qkv_pairs *pairs)
{
    if (!pairs->has_named_order) return;
    int first = pairs->column[0] > pairs->column[1], second = !first;
    printf("  languages from the name of the file: %s in column %d, %s in column %d; if it is the other way "
           "round: --columns %d,%d --src %s --trg %s\n",
           pairs->lang[first], pairs->column[first], pairs->lang[second], pairs->column[second],
           pairs->column[first], pairs->column[second], pairs->lang[second], pairs->lang[first]);
}

/* Prints the beginning of a pair. */
static void show_pair(const struct qkv_pairs *pairs, int64_t i, const char *before)
{
    fputs(before, stdout);
    print_plain_start(stdout, qkv_pairs_text(pairs, i, 0), EXAMPLE_MAX);
    fputs(" = ", stdout);
    print_plain_start(stdout, qkv_pairs_text(pairs, i, 1), EXAMPLE_MAX);
    putchar('\n');
}

void init_report_pairs(const struct init *init)
{
    const bool is_cleaned = init->options->clean; /* no line advises it then */
    const struct qkv_pairs *pairs = &init->pairs;
    const struct qkv_pairs_statistics *facts = &init->facts;
    print_result(stdout, pairs->path[0]);
    if (!pairs->columns) {
        fputs(" and ", stdout);
        print_result(stdout, pairs->path[1]);
    }
    printf(": %lld pair%s", (long long)pairs->count, pairs->count == 1 ? "" : "s");
    if (pairs->columns)
        printf(" in columns %d and %d of %d", pairs->column[0], pairs->column[1], pairs->columns);
    if (pairs->format) printf(" (%s)", pairs->format);
    bool is_table = !pairs->format || strcmp(pairs->format, "JSON lines") != 0;
    fputs(pairs->has_header && is_table ? ", below a header\n" : "\n", stdout);
    if (pairs->is_quoted) puts("  took off the quotation marks that a program had put around cells");
    if (pairs->joined)
        printf("  joined the lines of %lld cell%s with line breaks\n", (long long)pairs->joined,
               pairs->joined == 1 ? "" : "s");
    if (pairs->joined_pair) show_pair(pairs, pairs->joined_pair - 1, "    the first is in: ");
    report_order(pairs);
    report_anki(pairs);
    report_left_out(pairs);
    report_side(pairs, &facts->side[0], init->lang[0], "source");
    report_side(pairs, &facts->side[1], init->lang[1], "target");
    if (facts->side[0].is_tokenized || facts->side[1].is_tokenized)
        printf("  %s tokenized (spaces before full stops, or marks such as &apos;): the config leaves "
               "punctuation there as it is\n",
               !facts->side[1].is_tokenized   ? "the source is"
               : !facts->side[0].is_tokenized ? "the target is"
                                              : "both sides are");
    for (int side = 0; side < 2; side++)
        if (facts->side[side].cut)
            printf(
                "  the %s is cut into pieces already (such as %s): the config takes each piece as a word; to "
                "let qkv cut words itself, join the pieces first: %s\n",
                side ? "target" : "source", facts->side[side].cut->example, facts->side[side].cut->joining);
    printf("  %.1f %% of the pairs repeat an earlier one; %.1f %% share a sentence with another\n",
           100 * (double)facts->repeated / (double)pairs->count,
           100 * (double)facts->shared / (double)pairs->count);
    if (facts->copied * 20 > pairs->count)
        printf(
            "  %.1f %% of the pairs have the same text on both sides, from which a model learns to copy%s\n",
            100 * (double)facts->copied / (double)pairs->count,
            pairs->columns > 2 ? ": --columns names the columns to take" : "");
    if (facts->repeated * 10 > pairs->count && !is_cleaned)
        puts("  repeated pairs teach nothing new: remove them with --clean");
    if (pairs->count - facts->repeated < FEW_PAIRS)
        puts("  very few pairs: the model learns them by heart, and gives words without sense for other "
             "sentences, even for those of dev and test; with some thousand pairs it learns to translate "
             "sentences like them, and 10,000 to 100,000 are usual");
    else if (pairs->count - facts->repeated < USUAL_PAIRS)
        puts("  few pairs: expect good translations of sentences like these, and poor ones of others; 10,000 "
             "to 100,000 pairs are usual");
    if (facts->markup && !is_cleaned)
        printf("  %lld pair%s HTML, such as <br> or &nbsp;, which the model would learn to write: remove it "
               "with --clean; Anki leaves it out if you untick \"Include HTML and media references\" when "
               "you export\n",
               (long long)facts->markup, facts->markup == 1 ? " contains" : "s contain");
    if (!*pairs->lang[0] && !*pairs->lang[1])
        puts("  the languages are not known: name them, as in --src en --trg fr");
    else if (!*pairs->lang[0] || !*pairs->lang[1])
        printf("  the language of the %s is not known: name it, as in %s\n",
               *pairs->lang[0] ? "target" : "source", *pairs->lang[0] ? "--trg fr" : "--src en");
    int64_t examples = pairs->count < 3 ? pairs->count : 3;
    for (int64_t k = 0; k < examples; k++) {
        int64_t i = (2 * k + 1) * pairs->count / (2 * examples); /* evenly over the file */
        show_pair(pairs, i, k ? "               " : "  for example: ");
    }
}

void init_report_plan(const struct init *init)
{
    const struct init_plan *plan = &init->plan;
    const struct init_sizes *sizes = plan->sizes;
    printf("split: %lld pairs to train, %lld dev, %lld test; no sentence is in two of these\n",
           (long long)init->count[QKV_PAIRS_TRAIN], (long long)init->count[QKV_PAIRS_DEV],
           (long long)init->count[QKV_PAIRS_TEST]);
    if (plan->taken_out)
        printf("  left out of dev and test: %lld pair%s of more than %d tokens\n", (long long)plan->taken_out,
               plan->taken_out == 1 ? "" : "s", INIT_LENGTH_MAX);
    printf("model: %lld + %lld layers of width %lld, dropout %g\ntokens: ", (long long)sizes->layers,
           (long long)sizes->layers, (long long)sizes->width, plan->dropout);
    static const char *const tokens[] = {
        [QKV_LEVEL_WORD] = "words", [QKV_LEVEL_CHAR] = "characters", [QKV_LEVEL_BPE] = "pieces of words"};
    if (plan->level[0] == plan->level[1])
        fputs(tokens[plan->level[0]], stdout);
    else
        printf("%s and %s", tokens[plan->level[0]], tokens[plan->level[1]]);
    if (plan->merges) printf(" (%lld %smerges)", (long long)plan->merges, plan->is_joint ? "joint " : "");
    putchar('\n');
    if (init_leaves_out_many(plan))
        printf(
            "  training leaves out %.0f %% of the pairs, which are longer than %lld tokens of the source or "
            "%lld of the target: qkv learns from sentences, so split longer texts into theirs\n",
            100 * plan->left_out, (long long)plan->max_length[0], (long long)plan->max_length[1]);
}
