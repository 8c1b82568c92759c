/* qkv page: writes one HTML file that has a trained run in it and translates without a server, or that has the scenes of
 * tutorials. */
#include "command.h"
#include "config.h"
#include "page/page_files.h"
#include "page_heads.h"
#include "page_scenes.h"
#include "print.h"

#include "config/path.h"
#include "data/corpus.h"
#include "qkv/file.h"
#include "qkv/format.h"
#include "run/packed_run.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static const char *output = "page.html", *checkpoint, *numbers, *opening;
enum { MAX_SNAPSHOTS = 6 };
static int64_t snapshots = -1; /* not given: MAX_SNAPSHOTS */
static struct page_heads_options measured = {.max_pairs = 100};

static const char *numbers_name(const void *context, int64_t index)
{
    (void)context;
    return index == 0 ? "half" : index == 1 ? "float32" : NULL;
}

/* ---- a run ---- */

/* Sets *sentence to the first source sentence of a text of the run. It stays NULL when the text no longer exists. */
static enum qkv_status first_sentence(struct qkv_run *run, const char *path, const char **sentence,
                                      struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    const char *const languages[2] = {data->src.lang, data->trg.lang};
    struct qkv_pair_lines pairs;
    struct qkv_pair_texts texts;
    struct qkv_error inner = {""};
    bool found = false;
    if (!*path || !strcmp(path, "-") || !qkv_path_is_text(path)) return QKV_OK;
    enum qkv_status status = qkv_pair_lines_open(
        &pairs, path, languages, (struct qkv_pair_lines_options){.third_column = true}, &inner);
    if (!status) {
        status = qkv_pair_lines_next(&pairs, &texts, &found, &inner);
        if (!status && found && !(*sentence = qkv_arena_string(&run->arena, texts.source)))
            status = qkv_error_set(&inner, "out of memory for the page");
        qkv_pair_lines_close(&pairs);
    }
    return status
               ? qkv_error_set(error, "%s; --sentence gives the page another first sentence", inner.message)
               : QKV_OK;
}

/* Sets the sentence that the page opens with. */
static enum qkv_status set_opening_sentence(struct page_contents *contents, struct qkv_run *run,
                                            struct qkv_error *error)
{
    const char *sentence = opening;
    enum qkv_status status = QKV_OK;
    if (!sentence) status = first_sentence(run, run->config.data.test, &sentence, error);
    if (!sentence && !status) status = first_sentence(run, run->config.data.dev, &sentence, error);
    contents->opening_sentence = sentence ? sentence : "";
    return status;
}

/* "encoder of 2 layers with 4 heads"; recurrent layers have none. */
static const char *stack_summary(struct qkv_arena *arena, const char *name,
                                 const struct qkv_stack_config *stack)
{
    const char *layers = qkv_arena_format(arena, "%s of %lld %slayer%s", name, (long long)stack->num_layers,
                                          stack->type == QKV_NETWORK_TRANSFORMER ? "" : "recurrent ",
                                          stack->num_layers == 1 ? "" : "s");
    if (!layers || stack->type != QKV_NETWORK_TRANSFORMER) return layers;
    return qkv_arena_format(arena, "%s with %lld head%s", layers, (long long)stack->num_heads,
                            stack->num_heads == 1 ? "" : "s");
}

/* One line about the model; "" when there is no memory. */
static const char *model_summary(struct qkv_run *run, bool float32)
{
    struct qkv_arena *arena = &run->arena;
    const char *encoder = stack_summary(arena, "encoder", &run->config.model.encoder);
    const char *decoder = stack_summary(arena, "decoder", &run->config.model.decoder);
    int64_t update;
    const char *trained = qkv_state_get_count(&run->state, "train.update", &update, NULL)
                              ? ""
                              : qkv_arena_format(arena, ", trained for %lld updates", (long long)update);
    if (!encoder || !decoder || !trained) return "";
    const char *summary = qkv_arena_format(arena, "%s, %s; %lld parameters in %s%s", encoder, decoder,
                                           (long long)qkv_parameters_total(&run->model->parameters),
                                           float32 ? "float32" : "half precision", trained);
    return summary ? summary : "";
}

/* Collects what the page shows about heads and training. Overwrites the parameters of the run. */
static enum qkv_status collect_learning(struct page_contents *contents, struct qkv_run *run,
                                        enum qkv_packed_numbers packed, struct qkv_error *error)
{
    struct page_heads heads = {0};
    enum qkv_status status = page_heads_measure(&heads, run, &measured, error);
    if (!status && !(contents->heads = page_heads_json(&heads)))
        status = qkv_error_set(error, "out of memory for the page");
    if (!status)
        status = page_learning_collect(&contents->learning, run, &heads,
                                       snapshots < 0 ? MAX_SNAPSHOTS : snapshots, packed, error);
    page_heads_release(&heads);
    return status;
}

static enum qkv_status make_page_of_run(const char *path, struct qkv_error *error)
{
    struct qkv_run run;
    struct page_contents contents = {0};
    bool float32 = numbers && !strcmp(numbers, "float32");
    enum qkv_status status = qkv_run_open(&run, path, checkpoint, QKV_FLOAT32, error);
    if (status) return status;
    struct qkv_error inner;
    enum qkv_packed_numbers packed = float32 ? QKV_PACKED_FLOAT32 : QKV_PACKED_HALF;
    if (qkv_run_pack(&run, packed, &contents.model, &contents.model_size, &inner))
        status = qkv_error_set(error, "%s: %s%s", run.checkpoint, inner.message,
                               float32 ? "" : ": keep all digits with --numbers float32");
    if (!status) status = set_opening_sentence(&contents, &run, error);
    contents.model_summary = model_summary(&run, float32);
    if (!status) status = collect_learning(&contents, &run, packed, error);
    if (!status) status = page_write(&contents, output, error);
    page_learning_release(&contents.learning);
    cJSON_free(contents.heads);
    free(contents.model);
    qkv_run_release(&run);
    return status;
}

/* ---- scenes ---- */

static enum qkv_status make_page_of_scenes(int count, char **files, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct page_contents contents = {0};
    enum qkv_status status = page_scenes_collect(&contents, count, files, &arena, error);
    if (!status) status = page_write(&contents, output, error);
    cJSON_free(contents.scenes);
    free(contents.model);
    qkv_arena_release(&arena);
    return status;
}

/* Reports options and operands that do not belong to scenes. */
static int check_scenes(int count, char **files)
{
    const struct {
        const char *option;
        bool given;
    } runs[] = {{"--numbers", numbers},       {"--sentence", opening},
                {"--checkpoint", checkpoint}, {"--snapshots", snapshots >= 0},
                {"--pairs", measured.pairs},  {"--links", measured.links.path}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (runs[i].given)
            return count ? print_error("%s is for runs, but %s is not a run folder", runs[i].option, files[0])
                         : print_error("%s is for runs: give a run folder", runs[i].option);
    for (int i = 0; i < count; i++) {
        if (is_run_folder(files[i]))
            return print_error("a page holds one run, or scenes%s",
                               count == 2 && !qkv_path_exists(files[!i])
                                   ? "; --sentence gives the sentence that it opens with"
                                   : "");
        if (!qkv_path_exists(files[i]))
            return print_error("%s: there is no such run, and no such scene", files[i]);
    }
    return QKV_OK;
}

/* ---- a run or scenes ---- */

/* Browsers display other files as text, or save them. */
static bool is_html(const char *path)
{
    const struct qkv_format *format = qkv_format_of_path(path);
    return format && !strcmp(format->name, "html");
}

static int run(int operands, char **operand)
{
    if (!page_html().bytes)
        return print_error(
            "this qkv was built without the page, which needs the Debian packages clang, lld, wasi-libc and "
            "libclang-rt-14-dev-wasm32 and the source of utf8proc: run tools/test.sh, which installs them "
            "and builds qkv");
    if (measured.links.path && !measured.pairs) return print_error("--links needs --pairs");
    if (links_options_check(&measured.links, measured.pairs)) return QKV_INVALID;
    if (strcmp(output, "-") != 0 && !is_html(output))
        return print_error("-o %s: a page is HTML: name it .html", output);
    struct qkv_error error = {""};
    if (operands == 1 && is_run_folder(operand[0]))
        return conclude(make_page_of_run(operand[0], &error), &error);
    if (check_scenes(operands, operand)) return QKV_INVALID;
    enum qkv_status status = make_page_of_scenes(operands, operand, &error);
    return status && !*error.message ? (int)status
                                     : conclude(status, &error); /* messages of a file are printed */
}

const struct command command_page = {
    .name = "page",
    .summary = "write a web page that translates, or that explains attention",
    .synopsis = "page [RUN | SCENE...] [options]",
    .description =
        "Writes one HTML file that holds a run, or scenes, and the engine as WebAssembly. It needs no "
        "network and no other file: open it in a browser, type a sentence, and see the translation and where "
        "every head looked.\n\n"
        "Without a run the page walks through scenes (`qkv help explain`), step by step: those files, or "
        "the attention tutorials that `configs/seeds` repeats. It shows each with its own numbers, and with "
        "random ones of any seed.\n\n"
        "The parameters of a run are rounded to half precision (11 bits), which halves the file and changes "
        "weights and scores by about 1e-3, so that of two words that are nearly as probable the other may "
        "win. With `--numbers float32` they stay as they are, and the numbers differ from those of `qkv "
        "translate` by less than 1e-5, because WebAssembly has no fused multiply-add.\n\n"
        "With `--pairs` the page has a table of its heads: the change of loss and BLEU when each alone is "
        "silent, as `qkv heads` measures it. It also shows the loss at every moment of training that it "
        "holds, and with `--links` the alignment error of each head that looks from the translation at the "
        "sentence.\n",
    .examples = "  qkv page runs/toy_en_es\n"
                "  qkv page -o tutorials.html\n"
                "  qkv page runs/toy_en_es --numbers float32 -o toy.html\n"
                "  qkv page runs/toy_en_es --pairs datasets/en_es/test.tsv \\\n"
                "      --links datasets/en_es/test.align\n",
    .operands = OPERANDS({"RUN | SCENE", VALUE_CONFIG_OR_RUN,
                          "a run folder, or scenes (YAML); none: the scenes of the tutorials",
                          .optional = true, .repeated = true}),
    .options = OPTIONS(
        {"output", 'o', "FILE", OPTION_TEXT, &output, "the page (default: page.html); -: standard output",
         .completes = VALUE_FILE},
        {"numbers", 0, "FORMAT", OPTION_CHOICE, &numbers, "numbers of the model: half (default), float32",
         .choices = numbers_name},
        {"sentence", 0, "TEXT", OPTION_TEXT, &opening,
         "the sentence that the page opens with (default: the first one of data.test, else of data.dev)"},
        COMMAND_OPTION_CHECKPOINT(&checkpoint),
        {"snapshots", 0, "N", OPTION_INTEGER, &snapshots,
         "hold at most N snapshots of training (training.snapshots), evenly chosen (default: 6); each "
         "takes the room of a model",
         0, 64},
        {"pairs", 0, "FILE", OPTION_TEXT, &measured.pairs,
         "measure the heads on sentence pairs (.tsv, .tsv.gz, or the common prefix of two files)",
         .completes = VALUE_FILE},
        {"max-pairs", 0, "N", OPTION_INTEGER, &measured.max_pairs,
         "use at most the first N pairs (default: 100); all are translated once for each head", 1, 100000},
        COMMAND_OPTIONS_LINKS(&measured.links, "measure the alignment of cross attention"),
        COMMAND_OPTION_THREADS(&measured.threads)),
    .run = run,
};
