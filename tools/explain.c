/* qkv explain: shows attention step by step, for a scene or for a trained run. */
#include "config.h"
#include "explain/scene.h"
#include "output_options.h"
#include "sentence_pair.h"

#include "report/words.h"

/* The options as they are given, and what they mean. */
struct request {
    struct sentence_pair_options pair;
    struct output_options output_options;
    struct option_list follow, settings;
    const char *kind, *head;
    int64_t layer, digits; /* 0: the last layer, 4 digits (2 in the brief text of a run) */
    bool full, reference, words;

    struct output output;
    enum qkv_attention_kind attention;
    int selected_head; /* QKV_ATTENTION_EACH, QKV_ATTENTION_BEST, or a number */
};

static int read_options(struct request *r, bool run)
{
    r->attention = QKV_ATTENTION_CROSS;
    if (r->kind) qkv_attention_kind_find(r->kind, &r->attention);
    if (output_read(&r->output, &r->output_options)) return QKV_INVALID;
    const bool brief = run && !r->full && r->output.format->use == QKV_FORMAT_TERMINAL;
    r->selected_head = brief ? QKV_ATTENTION_BEST : QKV_ATTENTION_EACH;
    if (brief && !r->digits) r->digits = 2;
    r->output.style.full = r->full;
    r->output.quiet = r->pair.quiet;
    r->output.style.digits = (int)r->digits;
    return read_layer_or_head("--head", r->head, ACCEPT_ALL | ACCEPT_BEST, &r->selected_head);
}

/* ---- writing ---- */

/* Writes the walks. `best` is the best head of the last walk, that of the trained model. */
static enum qkv_status write_walks(struct request *r, struct qkv_explanation *walks, int count,
                                   struct qkv_arena *arena, struct qkv_error *error)
{
    int head = r->selected_head;
    for (int i = count - 1; head != QKV_ATTENTION_EACH && i >= 0; i--) {
        if (qkv_explanation_select_head(&walks[i], head, arena, error)) return QKV_INVALID;
        head = walks[i].first_head;
    }
    return output_explanations(&r->output, walks, count, error);
}

/* ---- a scene ---- */

/* The overrides of the scene, in the arena: those of --set, and one for --follow. NULL if memory runs out. */
static const char **overrides_of(const struct request *r, struct qkv_arena *arena, int *count)
{
    const char **overrides = qkv_arena_allocate(arena, ((size_t)r->settings.count + 1) * sizeof *overrides);
    const char *text = "follow=";
    if (!overrides) return NULL;
    memcpy(overrides, r->settings.value, (size_t)r->settings.count * sizeof *overrides);
    for (int i = 0; text && i < r->follow.count; i++)
        text = qkv_arena_format(arena, "%s%s%s", text, i ? " " : "", r->follow.value[i]);
    *count = r->settings.count;
    if (r->follow.count) overrides[(*count)++] = text;
    return text ? overrides : NULL;
}

static enum qkv_status explain_scene(struct request *r, const char *path, struct qkv_arena *arena,
                                     struct qkv_error *error)
{
    struct qkv_scene scene;
    struct qkv_messages messages;
    struct qkv_explanation walk;
    int count;
    const char **overrides = overrides_of(r, arena, &count);
    if (!overrides) return qkv_no_memory(error);
    if (!strcmp(path, "-")) path = "/dev/stdin";
    if (qkv_scene_read(&scene, arena, path, NULL, overrides, count, &messages))
        return refuse_scene(path, &messages, arena, error);
    enum qkv_status status = qkv_explain_scene(&scene, arena, &walk, error);
    if (status) return status;
    if (!*walk.title) walk.title = path;
    return write_walks(r, &walk, 1, arena, error);
}

/* ---- a run ---- */

static enum qkv_status walk_run(struct request *r, struct sentence_pair *pair, struct qkv_error *error)
{
    const struct qkv_explain_options options = {.kind = r->attention,
                                                .layer = (int)r->layer,
                                                .follow = {r->follow.count, r->follow.value},
                                                .words = r->words ? &pair->words : NULL,
                                                .target_vocabulary = &pair->run.target};
    const struct qkv_model *untrained = r->pair.versus ? sentence_pair_untrained(pair, error) : NULL;
    struct qkv_explanation walks[2];
    int count = r->pair.versus ? 2 : 1;
    enum qkv_status status = r->pair.versus && !untrained ? QKV_INVALID : QKV_OK;
    for (int i = 0; !status && i < count; i++) {
        bool learned = i == count - 1;
        if (qkv_explain_model(learned ? pair->run.model : untrained, &pair->pair, &options, &pair->arena,
                              &walks[i], error)) {
            status = QKV_INVALID;
            break;
        }
        walks[i].label = learned ? "learned" : "random";
        walks[i].model = pair->run.config.name;
        walks[i].title = sentence_pair_title(pair);
        walks[i].about =
            qkv_arena_format(&pair->arena, "%s attention, layer %d of %s%s",
                             qkv_attention_kind_name(r->attention), walks[i].layer, pair->run.config.name,
                             r->pair.versus ? ", before training (random) and after it (learned)" : "");
        if (!walks[i].title || !walks[i].about) status = qkv_no_memory(error);
    }
    return status ? status : write_walks(r, walks, count, &pair->arena, error);
}

static enum qkv_status explain_run(struct request *r, const char *path, const char *sentence,
                                   struct qkv_error *error)
{
    struct sentence_pair pair;
    enum qkv_status status = sentence_pair_open(&pair, path, &r->pair, QKV_FLOAT64, error);
    if (!status && !r->kind && !(pair.run.sides.attention & 1u << QKV_ATTENTION_CROSS))
        r->attention = QKV_ATTENTION_DECODER;
    for (bool found = true; !status && found;) {
        status = sentence_pair_next(&pair, sentence, &found, error);
        r->output.number = pair.number;
        if (!status && found) status = walk_run(r, &pair, error);
    }
    sentence_pair_close(&pair);
    return status;
}

/* ---- a scene or a run ---- */

/* Reports operands and options that contradict each other. `run`: `path` is a folder. */
static int check_operands(const struct request *r, int operands, const char *path, bool run)
{
    if (run && operands < 2) return print_error("%s is a run: give a sentence as well", path);
    if (run && r->settings.count) return print_error("--set is for scenes: a run has its config inside");
    if (run) return QKV_OK;
    if (operands > 1 && !qkv_path_exists(path)) return print_error("%s: there is no such run", path);
    if (operands > 1)
        return print_error(
            "%s is not a run folder, and a scene takes no SENTENCE: its key tokens has the words", path);
    const struct {
        const char *option;
        bool given;
    } runs[] = {{"--target", r->pair.target}, {"--beam", r->pair.beam},
                {"--kind", r->kind},          {"--layer", r->layer},
                {"--versus", r->pair.versus}, {"--checkpoint", r->pair.checkpoint},
                {"--words", r->words}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (runs[i].given)
            return print_error("%s is for runs, but %s is not a run folder", runs[i].option, path);
    return QKV_OK;
}

static int explain(struct request *r, int operands, char **operand)
{
    bool run;
    if (find_run_folder(operand[0], &run) || read_options(r, run)) return QKV_INVALID;
    if (check_operands(r, operands, operand[0], run)) return QKV_INVALID;
    struct qkv_arena arena = {0};
    struct qkv_error error = {""};
    enum qkv_status status =
        run ? explain_run(r, operand[0], operand[1], &error) : explain_scene(r, operand[0], &arena, &error);
    if (status && *error.message) print_error("%s", error.message);
    qkv_arena_release(&arena);
    return (int)status;
}

static struct request request;

static int run_explain(int operands, char **operand)
{
    if (request.reference && operands) return print_error("--reference takes no operand");
    if (request.reference) return (int)qkv_scene_write_reference(stdout);
    if (!operands) return print_usage_error(&command_explain, "SCENE or RUN is missing");
    if (operands == 1 && strchr(operand[0], ' ') && !qkv_path_exists(operand[0]))
        return print_usage_error(&command_explain, "'%s' looks like a sentence, but RUN is missing before it",
                                 operand[0]);
    return explain(&request, operands, operand);
}

const struct command command_explain = {
    .name = "explain",
    .summary = "walk through attention step by step: a scene, or a trained run",
    .synopsis = "explain SCENE | RUN SENTENCE [options]",
    .description =
        "Walks through attention step by step: words, embeddings, positions, W_Q W_K W_V, queries, keys, "
        "values, scores, scaled scores, mask, weights, context, concatenated heads, output; in a run also "
        "feed forward, logits and the chosen words; each step with its formula, shape and matrix.\n\n"
        "A scene says in YAML which words and matrices go in; a run shows its learned matrices at work on a "
        "sentence. All numbers are float64, computed by the same ops as the models.\n\n"
        "As text, a run is shown briefly: queries, keys, scores, weights and context of one head, of wide "
        "matrices the first rows. --full prints all. Matrices that are wider than the terminal are split "
        "into blocks of columns.\n",
    .examples = "  qkv explain configs/seeds/general_attention.yaml --digits 8\n"
                "  qkv explain configs/seeds/general_attention.yaml --follow word_1 -o word.html\n"
                "  qkv explain runs/toy_en_es \"the cat is sleeping\" --head best --versus random\n",
    .operands =
        OPERANDS({"SCENE | RUN", VALUE_CONFIG_OR_RUN, "a YAML file (-: standard input), or a run folder",
                  .optional = true},
                 {"SENTENCE", VALUE_OTHER, "for a run: the text to translate; -: each line of standard input",
                  .optional = true}),
    .options = OPTIONS(
        COMMAND_OPTIONS_OUTPUT(&request.output_options),
        {"full", 0, NULL, OPTION_FLAG, &request.full, "run: all steps and heads; all rows of large matrices"},
        {"digits", 0, "N", OPTION_INTEGER, &request.digits,
         "digits after the decimal point (default: 4; 2 in the brief text of a run)", 1, 17},
        {"follow", 0, "WORDS", OPTION_LIST, &request.follow,
         "show the queries of these words only: words, or their numbers from 1; may be repeated"},
        {"head", 0, "H", OPTION_TEXT, &request.head,
         "a head from 1, all (default), or best: the one of this layer that agrees most with the mean of "
         "its heads (default of the brief text of a run)"},
        {"set", 's', "KEY=VALUE", OPTION_LIST, &request.settings, "scene: override a key; may be repeated"},
        {"reference", 0, NULL, OPTION_FLAG, &request.reference,
         "print tables of all keys of a scene, in Markdown; no operand"},
        COMMAND_OPTIONS_SENTENCE_PAIR(&request.pair, "run: ", ""),
        {"kind", 0, "KIND", OPTION_CHOICE, &request.kind, "run: {choices} attention (default: cross)",
         .choices = kind_name},
        {"layer", 0, "L", OPTION_INTEGER, &request.layer, "run: a layer from 1 (default: the last)", 1, 1000},
        {"words", 0, NULL, OPTION_FLAG, &request.words,
         "run: also show weights between words: summed over the tokens of a key word, mean over those of "
         "a query word"}),
    .run = run_explain,
};
