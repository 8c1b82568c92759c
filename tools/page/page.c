/* qkv page: writes one HTML file that has a trained run in it and translates without a server, or that has the scenes of
 * tutorials. */
#include "page/page.h"
#include "config.h"
#include "open_run.h"

#include "checkpoint/safetensors.h"
#include "config/path.h"
#include "data/corpus.h"
#include "explain/scene.h"

static bool lesson;
static const char *output = "page.html", *checkpoint, *numbers, *opening;
enum { NOT_GIVEN = -1, MAX_SNAPSHOTS = 6, EXAMPLES = 8 /* sentences of the run's text */ };
static struct page_options options = {.max_pairs = 100, .snapshots = NOT_GIVEN};

static NAME_LISTER(numbers_name, index == 0 ? "half" : index == 1 ? "float32" : NULL);

/* ---- a run ---- */

/* Adds the first source sentences of a text of the run; none for a language model, and when the text no longer
 * exists. */
static enum qkv_status add_examples(struct qkv_run *run, const char *path, cJSON *examples,
                                    struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    const char *const languages[2] = {data->src.lang, data->trg.lang};
    struct qkv_pair_lines pairs;
    struct qkv_pair_texts texts;
    struct qkv_error inner = {""};
    bool found = true;
    if (!run->sides.has_source || !*path || !strcmp(path, "-") || !qkv_path_is_text(path)) return QKV_OK;
    enum qkv_status status = qkv_pair_lines_open(
        &pairs, path, languages, (struct qkv_pair_lines_options){.third_column = true}, &inner);
    if (!status) {
        while (!status && found && cJSON_GetArraySize(examples) < EXAMPLES) {
            status = qkv_pair_lines_next(&pairs, &texts, &found, &inner);
            if (!status && found) cJSON_AddItemToArray(examples, cJSON_CreateString(texts.source));
        }
        qkv_pair_lines_close(&pairs);
    }
    return status ? qkv_error_set(error, "%s; the page takes its examples from this text: mend or move it",
                                  inner.message)
                  : QKV_OK;
}

/* "encoder of 2 layers with 4 heads"; recurrent layers have none. */
static const char *stack_summary(struct qkv_arena *arena, const char *name,
                                 const struct qkv_stack_config *stack)
{
    const char *layers =
        TEXT_IN(arena, "%s of %lld %slayer%s", name, (long long)stack->num_layers,
                stack->type == QKV_NETWORK_RECURRENT ? "recurrent " : "", stack->num_layers == 1 ? "" : "s");
    if (stack->type == QKV_NETWORK_RECURRENT) return layers;
    return TEXT_IN(arena, "%s with %lld head%s", layers, (long long)stack->num_heads,
                   stack->num_heads == 1 ? "" : "s");
}

/* One line about the model. */
static const char *model_summary(struct qkv_run *run, bool float32)
{
    struct qkv_arena *arena = &run->arena;
    const char *encoder =
        run->sides.has_encoder
            ? TEXT_IN(arena, "%s, ", stack_summary(arena, "encoder", &run->config.model.encoder))
            : "";
    const char *decoder = stack_summary(arena, "decoder", &run->config.model.decoder);
    int64_t update;
    const char *trained = qkv_state_get_count(&run->state, "train.update", &update, NULL)
                              ? ""
                              : TEXT_IN(arena, ", trained for %lld updates", (long long)update);
    return TEXT_IN(arena, "%s%s; %lld parameters in %s%s", encoder, decoder,
                   (long long)qkv_parameters_total(&run->model->parameters),
                   float32 ? "float32" : "half precision", trained);
}

/* run-data: {"name", "source", "target", "summary", "sentence", "examples"}: the languages, of which a language model has no
 * source, the sentence with which the page opens, and other ones. */
static enum qkv_status add_facts(struct page *page, struct qkv_run *run, bool float32,
                                 struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    cJSON *object = cJSON_CreateObject(), *examples = cJSON_AddArrayToObject(object, "examples");
    enum qkv_status status = add_examples(run, data->test, examples, error);
    if (!cJSON_GetArraySize(examples) && !status) status = add_examples(run, data->dev, examples, error);
    const char *sentence = opening ? opening : cJSON_GetStringValue(cJSON_GetArrayItem(examples, 0));
    JSON_TEXTS(object, {"name", run->config.name}, {"source", data->src.lang}, {"target", data->trg.lang},
               {"summary", model_summary(run, float32)}, {"sentence", sentence ? sentence : ""});
    page_add_json(page, "id=\"run-data\"", object);
    return status;
}

static enum qkv_status add_run(struct page *page, const char *path, struct qkv_error *error)
{
    const bool float32 = numbers && !strcmp(numbers, "float32");
    struct qkv_run run;
    struct qkv_error inner;
    unsigned char *model = NULL;
    size_t size;
    if (options.snapshots == NOT_GIVEN) options.snapshots = MAX_SNAPSHOTS;
    options.numbers = float32 ? QKV_PACKED_FLOAT32 : QKV_PACKED_HALF;
    if (open_run(&run, path, checkpoint, QKV_FLOAT32,
                 options.pairs ? "has no pairs: leave out --pairs and --links" : NULL, error))
        return QKV_INVALID;
    const struct qkv_model_config *config = &run.config.model;
    enum qkv_status status = QKV_OK;
    if (lesson && (!run.sides.has_encoder || config->encoder.type != QKV_NETWORK_TRANSFORMER ||
                   config->decoder.type != QKV_NETWORK_TRANSFORMER))
        status = qkv_error_set(
            error, "%s: --lesson needs a translator whose encoder and decoder are transformers", path);
    if (lesson && !status) page_add_lesson(page);
    if (!status && qkv_run_pack(&run, options.numbers, &model, &size, &inner)) {
        status = QKV_INVALID;
        qkv_error_set(error, "%s: %s%s", run.checkpoint, inner.message,
                      float32 ? "" : ": keep all digits with --numbers float32");
    }
    if (!status) page_add_data(page, "id=\"model-data\"", model, size);
    free(model);
    if (!status) status = add_facts(page, &run, float32, error);
    if (!status) status = page_add_learning(page, &run, &options, error);
    qkv_run_release(&run);
    return status;
}

/* ---- scenes ---- */

static bool add_bytes(void *block, void *bytes, size_t size)
{
    qkv_bytes_append(block, bytes, size);
    return true;
}

/* Whether two explanations of a scene have the same numbers. */
static bool is_same(const struct qkv_explanation *a, const struct qkv_explanation *b)
{
    for (int64_t i = 0; i < a->step_count; i++) {
        const struct qkv_step *step = &a->steps[i];
        int64_t count = (step->heads ? step->heads : 1) * step->rows * step->columns;
        if (memcmp(step->values, b->steps[i].values, (size_t)count * sizeof *step->values) != 0) return false;
    }
    return true;
}

/* Finds out whether the numbers of a scene depend on the seed. */
static enum qkv_status find_random(const struct qkv_scene *scene, struct qkv_arena *arena, bool *is_random,
                                   struct qkv_error *error)
{
    struct qkv_explanation with_seed, other;
    struct qkv_scene drawn = *scene;
    drawn.random.seed = scene->random.seed ? scene->random.seed - 1 : 1;
    if (qkv_explain_scene(scene, arena, &with_seed, error) || qkv_explain_scene(&drawn, arena, &other, error))
        return QKV_INVALID;
    *is_random = !is_same(&with_seed, &other);
    return QKV_OK;
}

static enum qkv_status read_scene(struct qkv_scene *scene, const char *path, const char *text,
                                  struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_messages messages;
    if (qkv_scene_read(scene, arena, path, text, NULL, 0, &messages))
        return refuse_scene(path, &messages, arena, error);
    if (*scene->run.path)
        return qkv_error_set(error,
                             "%strained numbers cannot be in a page of scenes: `qkv page %s` makes the page "
                             "of that run",
                             qkv_scene_place(scene, "run.path", arena), scene->run.path);
    return QKV_OK;
}

/* Reads a scene, lists the facts that the page shows about it, and packs it into the block. text, tutorial: of a scene that
 * is built into this program; otherwise NULL. */
static enum qkv_status add_scene(struct bytes *block, cJSON *list, const char *path, const char *text,
                                 const char *tutorial, struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_scene scene;
    bool is_random;
    if (read_scene(&scene, path, text, arena, error) || find_random(&scene, arena, &is_random, error))
        return QKV_INVALID;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(list, object);
    if (tutorial) cJSON_AddStringToObject(object, "tutorial", tutorial);
    JSON_TEXTS(object, {"file", file}, {"name", *scene.name ? scene.name : file}, {"about", scene.about});
    JSON_NUMBERS(object, {"seed", (double)scene.random.seed});
    cJSON_AddBoolToObject(object, "isRandom", is_random);
    if (!qkv_scene_pass(&scene, add_bytes, block, arena)) required(NULL);
    return QKV_OK;
}

/* Adds the scenes of the tutorials, or of `count` files, one after another (explain/scene.h), and a list with {"tutorial",
 * "file", "name", "about", "seed", "isRandom"} for each; "tutorial" only for scenes of the tutorials. Messages about a file
 * are printed; *error is then empty. */
static enum qkv_status add_scenes(struct page *page, int count, char **files, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct bytes block = {0};
    cJSON *list = cJSON_CreateArray();
    enum qkv_status status = QKV_OK;
    int64_t total = count;
    while (!count && page_scene(total)) total++;
    add_bytes(&block, &total, sizeof total);
    for (int64_t i = 0; !status && i < total; i++) {
        const struct page_scene built_in = count ? (struct page_scene){files[i], NULL, NULL} : *page_scene(i);
        status = add_scene(&block, list, built_in.file, built_in.text, built_in.tutorial, &arena, error);
    }
    qkv_arena_release(&arena);
    if (status) {
        cJSON_Delete(list);
    } else {
        page_add_data(page, "id=\"model-data\"", required(block.failed ? NULL : block.data), block.size);
        page_add_json(page, "id=\"scenes-data\"", list);
    }
    free(block.data);
    return status;
}

/* Reports options and operands that do not belong to scenes. */
static int check_scenes(int count, char **files)
{
    const struct {
        const char *option;
        bool given;
    } runs[] = {{"--numbers", numbers},       {"--sentence", opening},
                {"--checkpoint", checkpoint}, {"--snapshots", options.snapshots != NOT_GIVEN},
                {"--pairs", options.pairs},   {"--links", options.links.path},
                {"--lesson", lesson}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (runs[i].given)
            return count ? print_error("%s is for runs, but %s is not a run folder", runs[i].option, files[0])
                         : print_error("%s is for runs: give a run folder", runs[i].option);
    for (int i = 0; i < count; i++) {
        bool is_run;
        if (find_run_folder(files[i], &is_run)) return QKV_INVALID;
        if (is_run)
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

static int run_page(int operands, char **operand)
{
    if (!page_is_built())
        return print_error(
            "this qkv was built without the page, which needs the Debian packages clang, lld, wasi-libc and "
            "libclang-rt-14-dev-wasm32 and the source of utf8proc: run tools/test.sh, which installs them "
            "and builds qkv");
    if (options.links.path && !options.pairs) return print_error("--links needs --pairs");
    if (links_options_check(&options.links, options.pairs)) return QKV_INVALID;
    if (strcmp(output, "-") != 0 && !is_html(output))
        return print_error("-o %s: a page is HTML: name it .html", output);
    struct qkv_error error = {""};
    struct page page = {0};
    bool is_run = false;
    if (operands == 1 && find_run_folder(operand[0], &is_run)) return QKV_INVALID;
    if (!is_run && check_scenes(operands, operand)) return QKV_INVALID;
    page_begin(&page);
    enum qkv_status status =
        is_run ? add_run(&page, operand[0], &error) : add_scenes(&page, operands, operand, &error);
    if (!status) status = page_write(&page, output, &error);
    page_release(&page);
    return conclude(status, &error);
}

const struct command command_page = {
    .name = "page",
    .summary = "write a web page of a model, or one that explains attention",
    .synopsis = "page [RUN | SCENE...] [options]",
    .description =
        "Writes one HTML file that holds a run, or scenes, and the engine as WebAssembly. It needs no "
        "network and no other file: open it in a browser, type a sentence, and see the translation and where "
        "every head looked. A language model continues the text that you type.\n\n"
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
        {"snapshots", 0, "N", OPTION_INTEGER, &options.snapshots,
         "hold at most N snapshots of training (training.snapshots), evenly chosen (default: 6); each "
         "takes the room of a model",
         0, 64},
        {"lesson", 0, NULL, OPTION_FLAG, &lesson,
         "hold a lesson on attention, in English and Spanish, which begins with a click on `lesson`"},
        {"pairs", 0, "FILE", OPTION_TEXT, &options.pairs,
         "measure the heads on sentence pairs (.tsv, .tsv.gz, or the common prefix of two files)",
         .completes = VALUE_FILE},
        {"max-pairs", 0, "N", OPTION_INTEGER, &options.max_pairs,
         "use at most the first N pairs (default: 100); all are translated once for each head", 1, 100000},
        COMMAND_OPTIONS_LINKS(&options.links, "measure the alignment of cross attention"),
        COMMAND_OPTION_THREADS(&options.threads)),
    .run = run_page,
};
