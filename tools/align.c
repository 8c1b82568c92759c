/* qkv align: draws links between the words of sentence pairs. */
#include "attention_options.h"
#include "config.h"
#include "open_run.h"
#include "text_notes.h"

#include "data/corpus.h"
#include "report/aligner.h"

enum { BLOCK = 4096 }; /* pairs that are in memory at a time; heads are chosen by the first block */

/* The options as they are given. */
static struct links_options links_options;
static const char *output_path, *checkpoint, *reverse_path, *layer, *head, *reverse_layer, *reverse_head,
    *rule_name, *reading_name, *drawing_name;
static double threshold = -1; /* not given */
static int64_t threads;
static const char *measure;
static bool json, multiply;

struct alignment {
    struct qkv_aligner_options options;
    enum qkv_head_rule rule;
    struct qkv_run run[2]; /* model NULL: not open */
    struct qkv_workers *workers;
    struct qkv_aligner *aligner;
    const char *pairs_path;
    struct qkv_pair_lines pairs;
    struct qkv_arena texts; /* of a block */
    struct qkv_aligned_pair pair[BLOCK];
    struct qkv_alignments gold; /* empty without --links */
    struct qkv_alignment_result result;
    bool chosen; /* best heads are chosen */
    struct qkv_file_writer writer;
    FILE *output;
};

/* ---- options ---- */

static NAME_LISTER(choose_name, qkv_head_rule_name((enum qkv_head_rule)index));

static NAME_LISTER(name_of_reading, qkv_alignment_reading_name((enum qkv_alignment_reading)index));

static NAME_LISTER(name_of_drawing, qkv_alignment_drawing_name((enum qkv_alignment_drawing)index));

static int read_maps(struct alignment *a)
{
    const char *const layers[] = {layer, reverse_layer}, *const heads[] = {head, reverse_head};
    for (int d = 0; d < 2; d++) {
        struct qkv_aligner_map *map = &a->options.map[d];
        if (d) *map = a->options.map[0];
        if (read_layer_or_head(d ? "--reverse-layer" : "--layer", layers[d], ACCEPT_MEAN, &map->layer) ||
            read_layer_or_head(d ? "--reverse-head" : "--head", heads[d], ACCEPT_MEAN | ACCEPT_BEST,
                               &map->head))
            return QKV_INVALID;
    }
    return QKV_OK;
}

/* Reports options that contradict each other. */
static int check_options(const struct alignment *a, const char *pairs)
{
    const struct qkv_aligner_map *map = a->options.map;
    bool best = map[0].head == QKV_ATTENTION_BEST || (reverse_path && map[1].head == QKV_ATTENTION_BEST);
    if (!reverse_path && (reverse_layer || reverse_head || multiply))
        return print_error("%s is for a second run: give --reverse", reverse_layer  ? "--reverse-layer"
                                                                     : reverse_head ? "--reverse-head"
                                                                                    : "--multiply");
    if (reverse_path && !multiply && a->options.drawing == QKV_DRAWING_TARGET)
        return print_error(
            "--drawing target takes links of the first run only: leave out --reverse, or choose "
            "another drawing");
    if (rule_name && !best) return print_error("--choose is for the best head: give --head best");
    if (best && a->rule == QKV_HEAD_RULE_GOLD && !links_options.path)
        return print_error("--choose gold needs gold links: give --links");
    if (threshold == 0)
        return print_error("--threshold is 0, but must be above it: almost all weights are above 0");
    if (links_options_check(&links_options, NULL)) return QKV_INVALID;
    if (links_options.path && !strcmp(pairs, "-"))
        return print_error("with --links the pairs are read twice: give a file instead of standard input");
    if (json && !links_options.path) return print_error("--json prints scores: give --links");
    if (json && !output_path)
        return print_error("--json prints scores on standard output, where the links are: give --output");
    return QKV_OK;
}

static int read_options(struct alignment *a, const char *pairs)
{
    a->options.reading =
        (enum qkv_alignment_reading)choice_index(reading_name, name_of_reading, QKV_READING_PREDICTED);
    a->options.drawing = (enum qkv_alignment_drawing)choice_index(
        drawing_name, name_of_drawing, reverse_path ? QKV_DRAWING_GROW_DIAG : QKV_DRAWING_TARGET);
    a->options.threshold = threshold > 0 ? threshold : 0;
    a->options.norms = measures_norms(measure);
    a->options.multiply = multiply;
    a->rule = (enum qkv_head_rule)choice_index(rule_name, choose_name, QKV_HEAD_RULE_AGREEMENT);
    if (output_path && !strcmp(output_path, "-")) output_path = NULL;
    if (read_maps(a)) return QKV_INVALID;
    return check_options(a, pairs);
}

/* ---- pairs ---- */

static enum qkv_status open_pairs(struct alignment *a, struct qkv_error *error)
{
    const struct qkv_data_config *data = &a->run[0].config.data;
    const char *const language[2] = {data->src.lang, data->trg.lang};
    struct qkv_pair_lines_options options = {.third_column = links_options.path, .any_name = true};
    return qkv_pair_lines_open(&a->pairs, a->pairs_path, language, options, error);
}

static void keep_texts(struct alignment *a, struct qkv_pair_texts *texts)
{
    texts->source = TEXT_IN(&a->texts, "%s", texts->source);
    texts->target = TEXT_IN(&a->texts, "%s", texts->target);
}

/* Reads pairs into a->pair; *count becomes 0 at the end. */
static enum qkv_status read_block(struct alignment *a, int64_t *count, struct qkv_error *error)
{
    bool found = true;
    qkv_arena_reset(&a->texts);
    for (*count = 0; *count < BLOCK; ++*count) {
        struct qkv_pair_texts texts;
        if (qkv_pair_lines_next(&a->pairs, &texts, &found, error)) return QKV_INVALID;
        if (!found) break;
        keep_texts(a, &texts);
        const struct qkv_alignment *gold =
            a->gold.count ? &a->gold.sentences[a->pairs.source.number - 1] : NULL;
        a->pair[*count] = (struct qkv_aligned_pair){.texts = texts, .gold = gold};
    }
    return QKV_OK;
}

/* ---- gold links ---- */

/* Appends a struct qkv_word_counts for each pair of the text. */
static enum qkv_status count_words(struct alignment *a, struct bytes *words, struct qkv_error *error)
{
    struct qkv_pair_texts texts;
    enum qkv_status status = open_pairs(a, error);
    for (bool found = true; !status && found;) {
        status = qkv_pair_lines_next(&a->pairs, &texts, &found, error);
        if (status || !found) break;
        keep_texts(a, &texts);
        const struct qkv_word_counts count = {.text = {texts.source, texts.target}};
        qkv_bytes_append(words, (const char *)&count, sizeof count);
    }
    qkv_pair_lines_close(&a->pairs);
    if (words->failed) required(NULL);
    return status;
}

static enum qkv_status read_gold(struct alignment *a, struct qkv_error *error)
{
    struct bytes words = {0};
    static const struct qkv_word_counts none = {0};
    enum qkv_status status = count_words(a, &words, error);
    if (!status)
        status = qkv_alignments_read(&a->gold, links_options.path, links_from(&links_options),
                                     words.data ? (const void *)words.data : &none,
                                     (int64_t)(words.size / sizeof none), error);
    free(words.data);
    return status;
}

/* ---- aligning ---- */

static void print_chosen(struct alignment *a, int direction, const struct qkv_chosen_head *chosen)
{
    static const char *const what[] = {[QKV_HEAD_RULE_ENTROPY] = "lowest entropy, %.4f nats per target word",
                                       [QKV_HEAD_RULE_AGREEMENT] =
                                           "greatest agreement with the mean of all heads, %.4f",
                                       [QKV_HEAD_RULE_GOLD] = "lowest alignment error rate, %.2f %%"};
    print_plain(stderr, a->run[direction].path);
    fprintf(stderr, ": best head: layer %d, head %d (", chosen->map.layer, chosen->map.head);
    fprintf(stderr, what[a->rule], a->rule == QKV_HEAD_RULE_GOLD ? 100 * chosen->value : chosen->value);
    fputs(")\n", stderr);
    if (!direction) {
        a->result.layer = chosen->map.layer;
        a->result.head = chosen->map.head;
    }
}

/* Chooses the best heads, if that is asked for, by the pairs of the first block. */
static enum qkv_status choose_heads(struct alignment *a, int64_t count, struct qkv_error *error)
{
    for (int d = 0; d < (reverse_path ? 2 : 1) && !a->chosen; d++) {
        struct qkv_chosen_head chosen;
        if (a->options.map[d].head != QKV_ATTENTION_BEST) continue;
        enum qkv_status status = qkv_aligner_choose(a->aligner, d, a->rule, count, a->pair, &chosen, error);
        if (status) return status;
        print_chosen(a, d, &chosen);
    }
    a->chosen = true;
    return QKV_OK;
}

/* Writes the links of a pair as a line, and warns if the pair is too long to have any. */
static void write_pair(struct alignment *a, const struct qkv_aligned_pair *pair, int64_t number)
{
    print_links(a->output, &pair->links);
    fputc('\n', a->output);
    if (pair->gold) qkv_alignment_count(&a->result, &pair->links, pair->gold);
    if (!pair->reason) return;
    say(stderr, "%s:%lld: %s: no links\n", a->pairs.source.path, (long long)number, pair->reason);
}

static const char *source_of_pair(const void *pairs, int64_t i)
{
    return ((const struct qkv_aligned_pair *)pairs)[i].texts.source;
}

static enum qkv_status align(struct alignment *a, struct qkv_error *error)
{
    int64_t done = 0, count;
    if (open_pairs(a, error)) return QKV_INVALID;
    a->output = stdout;
    const char *const inputs[] = {a->pairs.source.path, a->pairs.target.path, links_options.path};
    if (refuse_input_as_output(output_path, inputs, 3, error)) return QKV_INVALID;
    if (output_path && qkv_file_begin(&a->writer, output_path, error)) return QKV_INVALID;
    if (output_path) a->output = a->writer.file;
    for (;; done += count) {
        if (read_block(a, &count, error)) return QKV_INVALID;
        if (!count) break;
        if (!done) warn_of_swapped_sides(a->pairs.source.path, source_of_pair, a->pair, count, &a->run[0]);
        enum qkv_status status = choose_heads(a, count, error);
        if (!status) status = qkv_aligner_run(a->aligner, count, a->pair, error);
        if (status) return status;
        for (int64_t i = 0; i < count; i++) write_pair(a, &a->pair[i], done + i + 1);
        if (!output_path && fflush(stdout))
            return qkv_error_set(error, "<stdout>: cannot be written: %s", strerror(errno));
    }
    return output_path ? qkv_file_commit(&a->writer, error) : QKV_OK;
}

/* ---- the command ---- */

static enum qkv_status open_all(struct alignment *a, const char *run_path, struct qkv_error *error)
{
    for (int d = 0; d < (reverse_path ? 2 : 1); d++) {
        enum qkv_status status =
            open_run(&a->run[d], d ? reverse_path : run_path, d ? NULL : checkpoint, QKV_FLOAT32,
                     "has no source words to align: train a translator of sentence pairs", error);
        if (status) return status;
    }
    if (links_options.path && read_gold(a, error)) return QKV_INVALID;
    a->workers = qkv_workers_new((int)threads, error);
    if (!a->workers) return QKV_INVALID;
    a->aligner =
        qkv_aligner_new(&a->run[0], reverse_path ? &a->run[1] : NULL, &a->options, a->workers, error);
    return a->aligner ? QKV_OK : QKV_INVALID;
}

static void print_score(struct alignment *a)
{
    const struct qkv_alignment_result *result = &a->result;
    if (!json) {
        fprintf(stderr, "AER %.2f %%, precision %.2f %%, recall %.2f %% (%lld sentence pair%s)\n",
                100 * result->error_rate, 100 * result->precision, 100 * result->recall,
                (long long)a->gold.count, a->gold.count == 1 ? "" : "s");
        return;
    }
    cJSON *object = alignment_result_json(result);
    cJSON_AddStringToObject(object, "run", a->run[0].path);
    if (reverse_path) cJSON_AddStringToObject(object, "reverse", a->run[1].path);
    cJSON_AddStringToObject(object, "pairs", a->pairs_path);
    cJSON_AddNumberToObject(object, "sentences", (double)a->gold.count);
    json_print(object);
}

static void close_all(struct alignment *a)
{
    qkv_file_abandon(&a->writer);
    qkv_pair_lines_close(&a->pairs);
    qkv_aligner_free(a->aligner);
    qkv_workers_free(a->workers);
    qkv_alignments_release(&a->gold);
    for (int d = 0; d < 2; d++)
        if (a->run[d].model) qkv_run_release(&a->run[d]);
    qkv_arena_release(&a->texts);
}

static int run_align(int operands, char **operand)
{
    static struct alignment a;
    struct qkv_error error = {""};
    (void)operands;
    if (read_options(&a, operand[1])) return QKV_INVALID;
    a.pairs_path = operand[1];
    a.result = (struct qkv_alignment_result){.drawing = a.options.drawing,
                                             .reading = a.options.reading,
                                             .layer = a.options.map[0].layer,
                                             .head = a.options.map[0].head};
    enum qkv_status status = open_all(&a, operand[0], &error);
    if (!status) links_options_note(&links_options, a.gold.missing, a.gold.count, a.gold.spaces);
    if (!status) status = align(&a, &error);
    if (!status && a.gold.count) print_score(&a);
    close_all(&a);
    return conclude(status, &error);
}

const struct command command_align = {
    .name = "align",
    .summary = "link the words of sentence pairs by cross attention",
    .description =
        "Reads sentence pairs, feeds each target to the decoder, and prints the links between the words of "
        "each pair: one line a pair, 0-0 1-2 for the first source word with the first target word and the "
        "second with the third. A word is what white space separates; the tokens of a word are merged "
        "first.\n\n"
        "Without --layer and --head, links come from the mean over all heads of all layers. --head best "
        "chooses a head by the first 4096 pairs, among those of --layer or of all layers. With --reverse, "
        "the links per source word come from a run that translates in the other direction.\n\n"
        "A pair that is too long for the positions of a run has no links, and a warning says so.\n",
    .examples = "  qkv align runs/toy_en_es datasets/en_es/test.tsv -o test.links\n"
                "  qkv align runs/toy_en_es datasets/en_es/test.tsv --layer 1 --drawing union \\\n"
                "      --links datasets/en_es/test.align -o test.links\n"
                "  qkv align runs/toy_en_es datasets/en_es/test.tsv --head best --choose entropy\n",
    .operands = OPERANDS(
        {"RUN", VALUE_RUN, "a run folder"},
        {"PAIRS", VALUE_FILE,
         "source and target separated by a tab (.tsv, .tsv.gz; -: standard input), or the common prefix "
         "of two files; with --links, a third column is allowed"}),
    .options = OPTIONS(
        {"output", 'o', "FILE", OPTION_TEXT, &output_path, "the file to write; -: standard output (default)",
         .completes = VALUE_FILE},
        {"layer", 0, "L", OPTION_TEXT, &layer, "a layer from 1, or mean (default)"},
        {"head", 0, "H", OPTION_TEXT, &head, "a head from 1, mean (default), or best"},
        {"choose", 0, "RULE", OPTION_CHOICE, &rule_name,
         "how --head best chooses: {choices}; lowest entropy, agreement with the mean of all heads "
         "(default), or lowest alignment error on --links",
         .choices = choose_name},
        {"drawing", 0, "NAME", OPTION_CHOICE, &drawing_name,
         "which links: {choices} (default: target; with --reverse, grow-diag)", .choices = name_of_drawing},
        {"threshold", 0, "X", OPTION_NUMBER, &threshold,
         "link words whose weight is above X, instead of the strongest; without --reverse, the target "
         "words of a source word need a share above X of its weights",
         0, 1},
        {"reading", 0, "NAME", OPTION_CHOICE, &reading_name,
         "assign each row of weights to the word that the decoder step predicts, or to the word that it "
         "reads, which is the previous one: {choices} (default: predicted)",
         .choices = name_of_reading},
        COMMAND_OPTION_MEASURE(&measure),
        {"reverse", 0, "RUN", OPTION_TEXT, &reverse_path,
         "a run that translates from target to source, with its default checkpoint: links per source word",
         .completes = VALUE_RUN},
        {"reverse-layer", 0, "L", OPTION_TEXT, &reverse_layer, "its layer (default: as --layer)"},
        {"reverse-head", 0, "H", OPTION_TEXT, &reverse_head, "its head (default: as --head)"},
        {"multiply", 0, NULL, OPTION_FLAG, &multiply,
         "with --reverse: multiply each weight by the weight of the other run, divide each row by its "
         "sum, and draw the links of both directions from this"},
        COMMAND_OPTIONS_LINKS(&links_options, "score the links: error rate, precision, recall"),
        COMMAND_OPTION_CHECKPOINT(&checkpoint), COMMAND_OPTION_THREADS(&threads),
        {"json", 0, NULL, OPTION_FLAG, &json, "print the scores as one JSON object; needs --output"}),
    .run = run_align,
};
