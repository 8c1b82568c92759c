/* qkv attribute: how much each word that a model reads contributes to each word that it predicts. */
#include "output_options.h"
#include "search_options.h"
#include "sentence_pair.h"
#include "text_notes.h"
#include "trust.h"

#include "qkv/attention_map.h"
#include "report/attribution.h"

/* The options as they are given, and what they mean. */
static struct sentence_pair_options pair_options;
static struct qkv_attribution_options options;
static struct output_options output_options;
static const char *method, *layer, *head;
static bool words, lens, shares, is_of_layers; /* is_of_layers: --lens or --patch-from */
static const char *patch_from, *word;
static struct links_options links_options;
static struct trust_options trust = {.links = &links_options};

static NAME_LISTER(method_name, index < QKV_ATTRIBUTION_METHODS
                                    ? qkv_attribution_method_info((enum qkv_attribution_method)index)->name
                                    : NULL);

/* Attributes the sentence pair, by the run or by the untrained model. */
static enum qkv_status attribute(struct sentence_pair *pair, bool untrained,
                                 struct qkv_attention_report *report, struct qkv_error *error)
{
    struct qkv_attention_collector *collector = sentence_pair_collector(pair, untrained, false, error);
    enum qkv_status status =
        collector ? qkv_attribute(collector, &pair->pair, &options, report, error) : QKV_INVALID;
    if (!status && report->missed > 1e-3 && !pair_options.quiet)
        say(stderr,
            "note: contributions of integrated gradients miss the rise of log p by up to %.2g %% of it (of 1 "
            "nat, where it rises by less): more --steps come closer\n",
            100 * report->missed);
    if (!status && words)
        status = qkv_attention_merge_words(report, pair->words, &pair->arena, report, error);
    return status || !shares ? status : qkv_attribution_shares(report, options.method, &pair->arena, error);
}

/* Inserts the maps of the untrained model before those of the run. */
static enum qkv_status add_untrained(struct sentence_pair *pair, struct qkv_attention_report *report,
                                     struct qkv_error *error)
{
    struct qkv_attention_report random;
    int64_t count = report->map_count;
    struct qkv_attention_map *maps = required(qkv_arena_array(&pair->arena, 2 * count, sizeof *maps));
    if (attribute(pair, true, &random, error)) return QKV_INVALID;
    for (int64_t i = 0; i < 2 * count; i++) {
        maps[i] = i % 2 ? report->maps[i / 2] : random.maps[i / 2];
        maps[i].label_prefix = i % 2 ? "learned" : "random";
    }
    report->maps = maps;
    report->map_count = 2 * count;
    return QKV_OK;
}

/* ---- layers ---- */

/* Sets *step to the step that predicts --word: its first place in the target, or that number. */
static enum qkv_status find_step(const struct qkv_attention_pair *pair, int64_t *step,
                                 struct qkv_error *error)
{
    const char *wanted = word ? word : "1";
    char *end;
    *step = strtoll(wanted, &end, 10) - 1;
    bool is_number = !*end && *step >= 0 && *step < pair->target.length;
    for (int64_t t = 0; word && t < pair->target.length; t++) {
        if (strcmp(pair->target_tokens[t], word) != 0) continue;
        *step = t;
        return QKV_OK;
    }
    return is_number
               ? QKV_OK
               : qkv_error_set(error,
                               "--word is '%s', but must be a token of the output, or its number: 1 to %lld",
                               wanted, (long long)pair->target.length);
}

static enum qkv_status patch(struct sentence_pair *pair, struct qkv_attention_collector *collector,
                             struct qkv_explanation *explanation, struct qkv_error *error)
{
    const struct qkv_run *run = &pair->run;
    bool is_target = !run->sides.has_source;
    struct qkv_sentence other = {0};
    int64_t step;
    enum qkv_status status = find_step(&pair->pair, &step, error);
    if (!status) status = qkv_user_sentence_encode(&other, run, is_target, "--patch-from", patch_from, error);
    if (!status && !pair_options.quiet) warn_of_unknown_words("--patch-from", &other, run, is_target, NULL);
    if (!status)
        status = qkv_patch(collector, &pair->pair, (struct qkv_ids){other.tokens.count, other.ids}, step,
                           explanation, error);
    qkv_sentence_release(&other);
    return status;
}

/* ---- all ---- */

static enum qkv_status show(struct sentence_pair *pair, struct output *output, struct qkv_error *error)
{
    struct qkv_attention_report report;
    struct qkv_explanation explanation;
    output->number = pair->number;
    pair->pair.vocabulary = &pair->run.target;
    if (is_of_layers) {
        struct qkv_attention_collector *collector = sentence_pair_collector(pair, false, false, error);
        if (!collector || (lens ? qkv_lens(collector, &pair->pair, &explanation, error)
                                : patch(pair, collector, &explanation, error)))
            return QKV_INVALID;
        explanation.title = sentence_pair_title(pair);
        return output_explanations(output, &explanation, 1, error);
    }
    enum qkv_status status = attribute(pair, false, &report, error);
    if (!status && pair_options.versus) status = add_untrained(pair, &report, error);
    if (status) return status;
    report.model = pair->run.config.name;
    report.precision = narrow_precision(pair->run.model);
    report.title = sentence_pair_title(pair);
    return output_maps(output, &report, error);
}

/* Reads the options of the attribution. */
static int read_options(const struct output *output)
{
    options.method = (enum qkv_attribution_method)choice_index(method, method_name, QKV_ATTRIBUTION_ERASURE);
    is_of_layers = lens || patch_from;
    const enum qkv_attribution_shape shape = qkv_attribution_method_info(options.method)->shape;
    bool has_heads = shape == QKV_ATTRIBUTION_WEIGHTS, is_data = output->format->use == QKV_FORMAT_DATA;
    shares = !has_heads && !is_data;
    if (pair_options.without.count && shape == QKV_ATTRIBUTION_MIXED_WEIGHTS)
        return print_error("--without: %s follows where heads look, which silent ones do, too: choose "
                           "another method",
                           method);
    if (options.steps && options.method != QKV_ATTRIBUTION_INTEGRATED)
        return print_error("--steps is for --method integrated");
    if ((layer || head) && !has_heads)
        return print_error("--layer and --head are for the methods attention and norms: "
                           "the others follow the whole model");
    if (!!method + lens + !!patch_from + !!trust.path > 1)
        return print_error(
            "--method, --lens, --patch-from and --compare are different questions: give one of them");
    if ((trust.seeds.count || trust.limit || links_options.path) && !trust.path)
        return print_error("--links, --seed and --limit are for --compare");
    if (word && !patch_from) return print_error("--word is for --patch-from");
    if (is_of_layers && (pair_options.versus || words))
        return print_error("--versus and --words are for attribution, not for --lens and --patch-from");
    if ((is_of_layers || trust.path) && is_image(output->format))
        return print_error(
            "--lens, --patch-from and --compare are written as text, json, csv, npz or html, not as %s",
            output->format->name);
    if (pair_options.versus && is_data)
        return print_error("--versus is for formats that people look at, but %s is for programs",
                           output->format->name);
    if (read_layer_or_head("--layer", layer, ACCEPT_ALL | ACCEPT_MEAN, &options.layer)) return QKV_INVALID;
    return read_layer_or_head("--head", head, ACCEPT_ALL | ACCEPT_MEAN | ACCEPT_BEST, &options.head);
}

static int run_attribute(int operands, char **operand)
{
    struct sentence_pair pair = {0};
    struct output output;
    struct qkv_error error = {""};
    if (output_read(&output, &output_options) || read_options(&output) ||
        links_options_check(&links_options, trust.path))
        return QKV_INVALID;
    if ((operands == 2) == !!trust.path)
        return print_error(trust.path ? "--compare reads sentence pairs from its file: leave out SENTENCE"
                                      : "SENTENCE is missing: qkv attribute RUN SENTENCE");
    output.quiet = pair_options.quiet;
    enum qkv_status status = sentence_pair_open(&pair, operand[0], &pair_options, QKV_FLOAT32, &error);
    if (!status && trust.path) status = compare_methods(&pair.run, &trust, &output, &error);
    for (bool found = !trust.path; !status && found;) {
        status = sentence_pair_next(&pair, operand[1], &found, &error);
        if (!status && found) status = show(&pair, &output, &error);
        if (status && found && pair.number && strncmp(error.message, "<stdin>", 7) != 0) {
            const struct qkv_error inner = error;
            qkv_error_set(&error, "<stdin>:%lld: %s", (long long)pair.number, inner.message);
        }
    }
    sentence_pair_close(&pair);
    return conclude(status, &error);
}

const struct command command_attribute = {
    .name = "attribute",
    .summary = "show how much each word contributes to each word of the output",
    .description =
        "Translates SENTENCE and shows, for each word of the translation, how much each word of the source "
        "and each word before it contributed. Of a language model: how much each token of SENTENCE "
        "contributed to each one after it, and to the one that the model itself would write next. Methods, "
        "of which the last four measure the whole model, not attention "
        "alone (log p: the log-probability of the predicted token):\n\n"
#define ATTRIBUTION_METHOD(id, name, shape, function, value, help) #name ": " help ".\n\n"
#include "qkv/attribution_methods.def"
#undef ATTRIBUTION_METHOD
        "Formats that people look at show shares: the absolute values of a row sum to 1. Text also "
        "names, in nats, what they are shares of: rows of a few hundredths are noise. A negative share "
        "is of a word that made the prediction less likely. Formats for programs have the numbers "
        "themselves. docs/attribution.md has definitions, and measures which methods are to be trusted.\n\n"
        "--lens shows instead what the output layer would predict from the state after each layer of the "
        "decoder. --patch-from shows instead how the probability of one word of the output changes when the "
        "output of one head, or the state of one word after one layer, is that of another sentence; a line "
        "of standard input that has not as many tokens ends the command, as any bad line does. --compare "
        "makes a table of all methods, on sentence pairs: how well the strongest source words agree with "
        "gold links, how far the probability falls when they are erased (comprehensiveness) and when all "
        "others are (sufficiency), and whether runs agree.\n",
    .examples = "  qkv attribute runs/toy_en_es \"the cat is sleeping\"\n"
                "  qkv attribute runs/toy_en_es \"the cat is sleeping\" -m integrated -o cat.svg\n"
                "  qkv attribute runs/toy_en_es \"the cat is sleeping\" -t \"el perro duerme\"\n"
                "  qkv attribute runs/toy_en_es \"the cat is sleeping\" --lens\n"
                "  qkv attribute runs/toy_en_es \"the cat is sleeping\" \\\n"
                "      --patch-from \"the dog is sleeping\" --word 2\n"
                "  qkv attribute runs/toy_en_es --compare datasets/en_es/test.tsv \\\n"
                "      --links datasets/en_es/test.align --limit 10\n",
    .operands =
        OPERANDS({"RUN", VALUE_RUN, "a run folder"},
                 {"SENTENCE", VALUE_OTHER,
                  "the text to translate, or to read; -: each line of standard input", .optional = true}),
    .options = OPTIONS(
        {"method", 'm', "METHOD", OPTION_CHOICE, &method, "{choices} (default: erasure)",
         .choices = method_name},
        {"layer", 0, "L", OPTION_TEXT, &layer, "attention, norms: a layer from 1, all, or mean (default)"},
        {"head", 0, "H", OPTION_TEXT, &head, "attention, norms: a head from 1, all, best, or mean (default)"},
        {"steps", 0, "N", OPTION_INTEGER, &options.steps,
         "integrated: about how many points of the way from <unk> to begin with; where the error is large, "
         "up to 8 times as many follow (default: 50)",
         1, 10000},
        {"words", 0, NULL, OPTION_FLAG, &words,
         "merge the tokens of each word, such as pieces of byte-pair encoding: columns are summed, rows "
         "averaged"},
        {"lens", 0, NULL, OPTION_FLAG, &lens, "what each layer of the decoder would predict"},
        {"patch-from", 0, "TEXT", OPTION_TEXT, &patch_from,
         "replace heads and states by those of this sentence"},
        {"word", 0, "WORD", OPTION_TEXT, &word,
         "--patch-from: the token of the output, or its number (default: 1)"},
        {"compare", 0, "TSV", OPTION_TEXT, &trust.path, "compare all methods on these sentence pairs",
         .completes = VALUE_FILE},
        COMMAND_OPTIONS_LINKS(&links_options, "--compare: measure alignment errors"),
        {"seed", 0, "RUN", OPTION_LIST, &trust.seeds,
         "--compare: a run of the same config with another seed, for agreement; may be repeated",
         .completes = VALUE_RUN},
        {"limit", 0, "N", OPTION_INTEGER, &trust.limit, "--compare: the first N pairs (default: 100)", 1,
         1e6},
        COMMAND_OPTIONS_SENTENCE_PAIR(&pair_options, "", " (not in formats for programs)"),
        COMMAND_OPTION_PRECISION(&pair_options.precision), COMMAND_OPTIONS_OUTPUT(&output_options),
        COMMAND_OPTION_WITHOUT(&pair_options.without)),
    .run = run_attribute,
};
