/* qkv page: a trained run as one HTML file that translates by itself. */
#include "commands.h"
#include "complain.h"
#include "page/page_files.h"
#include "page_heads.h"
#include "page_learning.h"

#include "qkv/file.h"
#include "qkv/lines.h"
#include "run/packed_run.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Where page.html has the engine and the model. */
static const char PLACE[] = "<!-- engine and model -->";

static const char *output = "page.html", *checkpoint, *numbers, *opening;
static int64_t snapshots = 6;
static struct page_heads_options measured = {.most = 100};

static const char *numbers_name(const void *context, int64_t index)
{
    (void)context;
    return index == 0 ? "half" : index == 1 ? "float32" : NULL;
}

/* ---- text of the page ---- */

/* Writes bytes in base64 (RFC 4648), which a script element can hold, without line breaks. */
static void write_base64(FILE *file, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t rest = size - i;
        unsigned long bits = (unsigned long)bytes[i] << 16;
        if (rest > 1) bits |= (unsigned long)bytes[i + 1] << 8;
        if (rest > 2) bits |= bytes[i + 2];
        putc(digits[bits >> 18], file);
        putc(digits[bits >> 12 & 63], file);
        putc(rest > 1 ? digits[bits >> 6 & 63] : '=', file);
        putc(rest > 2 ? digits[bits & 63] : '=', file);
    }
}

/* Writes compressed bytes as a script element, which no browser runs: its type is none. */
static enum qkv_status write_data(FILE *file, const char *attribute, const unsigned char *bytes, size_t size,
                                  struct qkv_error *error)
{
    uLongf compressed_size = compressBound(size);
    unsigned char *compressed = malloc(compressed_size);
    if (!compressed || compress2(compressed, &compressed_size, bytes, size, Z_BEST_COMPRESSION) != Z_OK) {
        free(compressed);
        return qkv_error_set(error, "out of memory for the page");
    }
    fprintf(file, "<script type=\"application/base64\" %s>", attribute);
    write_base64(file, compressed, compressed_size);
    fputs("</script>\n", file);
    free(compressed);
    return QKV_OK;
}

/* What a page holds besides the engine. */
struct contents {
    unsigned char *model;
    size_t model_size;
    const char *opening_sentence, *model_summary;
    char *heads; /* page_heads_json */
    struct page_learning learning;
};

static void write_text(FILE *file, const char *id, const char *text)
{
    fprintf(file, "<script type=\"application/base64\" id=\"%s\">", id);
    write_base64(file, (const unsigned char *)text, strlen(text));
    fputs("</script>\n", file);
}

static enum qkv_status write_page(FILE *file, const struct contents *contents, struct qkv_error *error)
{
    struct page_file html = page_html(), engine = page_engine();
    size_t place = 0;
    while (place + sizeof PLACE <= html.size && memcmp(html.bytes + place, PLACE, sizeof PLACE - 1) != 0)
        place++;
    QKV_BUG(place + sizeof PLACE > html.size, "the page has no %s", PLACE);
    fwrite(html.bytes, 1, place, file);
    if (write_data(file, "id=\"engine-data\"", engine.bytes, engine.size, error) ||
        write_data(file, "id=\"model-data\"", contents->model, contents->model_size, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < contents->learning.snapshot_count; i++) {
        const struct page_snapshot *snapshot = &contents->learning.snapshots[i];
        if (write_data(file, "class=\"snapshot-data\"", snapshot->bytes, snapshot->size, error))
            return QKV_INVALID;
    }
    write_text(file, "opening-sentence", contents->opening_sentence);
    write_text(file, "model-summary", contents->model_summary);
    write_text(file, "heads-data", contents->heads);
    write_text(file, "learning-data", contents->learning.json);
    size_t rest = place + sizeof PLACE - 1;
    fwrite(html.bytes + rest, 1, html.size - rest, file);
    return QKV_OK;
}

/* ---- the command ---- */

/* The first source sentence of a text of the run, for a page that opens with one: a table of pairs, or the file of the
 * source language. NULL when the text is not there any more. */
static const char *first_sentence(struct qkv_run *run, const char *path)
{
    const char *files[] = {path, qkv_arena_format(&run->arena, "%s.%s", path, run->config.data.src.lang)};
    const char *sentence = NULL;
    for (int i = 0; i < 2 && *path && !sentence; i++) {
        struct qkv_lines lines = {0};
        struct qkv_error error; /* a text that cannot be read is not needed */
        bool found = false;
        if (!files[i] || qkv_file_check(files[i], &error) || qkv_lines_open(&lines, files[i], &error))
            continue;
        if (!qkv_lines_next(&lines, &found, &error) && found) {
            lines.line[strcspn(lines.line, "\t")] = '\0';
            sentence = qkv_arena_string(&run->arena, lines.line);
        }
        qkv_lines_close(&lines);
    }
    return sentence;
}

/* The sentence that the page opens with. */
static const char *opening_sentence(struct qkv_run *run)
{
    const char *sentence = opening;
    if (!sentence) sentence = first_sentence(run, run->config.data.test);
    if (!sentence) sentence = first_sentence(run, run->config.data.dev);
    return sentence ? sentence : "";
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

static enum qkv_status write_file(const struct contents *contents, struct qkv_error *error)
{
    if (!strcmp(output, "-")) return write_page(stdout, contents, error);
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, output, error)) return QKV_INVALID;
    if (write_page(writer.file, contents, error)) {
        qkv_file_abandon(&writer);
        return QKV_INVALID;
    }
    if (qkv_file_commit(&writer, error)) return QKV_INVALID;
    fprintf(stderr, "%s is written: open it in a browser\n", output);
    return QKV_OK;
}

/* What the page says of its heads and of training. The parameters of the run are overwritten. */
static enum qkv_status collect_learning(struct contents *contents, struct qkv_run *run,
                                        enum qkv_packed_numbers packed, struct qkv_error *error)
{
    struct page_heads heads = {0};
    enum qkv_status status = page_heads_measure(&heads, run, &measured, error);
    if (!status && !(contents->heads = page_heads_json(&heads)))
        status = qkv_error_set(error, "out of memory for the page");
    if (!status) status = page_learning_collect(&contents->learning, run, &heads, snapshots, packed, error);
    page_heads_release(&heads);
    return status;
}

static enum qkv_status make_page(const char *path, struct qkv_error *error)
{
    struct qkv_run run;
    struct contents contents = {0};
    bool float32 = numbers && !strcmp(numbers, "float32");
    enum qkv_status status = qkv_run_open(&run, path, checkpoint, QKV_FLOAT32, error);
    if (status) return status;
    struct qkv_error inner;
    enum qkv_packed_numbers packed = float32 ? QKV_PACKED_FLOAT32 : QKV_PACKED_HALF;
    if (qkv_run_pack(&run, packed, &contents.model, &contents.model_size, &inner))
        status = qkv_error_set(error, "%s: %s%s", run.checkpoint, inner.message,
                               float32 ? "" : ": keep all digits with --numbers float32");
    contents.opening_sentence = opening_sentence(&run);
    contents.model_summary = model_summary(&run, float32);
    if (!status) status = collect_learning(&contents, &run, packed, error);
    if (!status) status = write_file(&contents, error);
    page_learning_release(&contents.learning);
    cJSON_free(contents.heads);
    free(contents.model);
    qkv_run_release(&run);
    return status;
}

static int run(int operands, char **operand)
{
    (void)operands;
    if (!page_html().bytes)
        return complain(
            "this qkv was built without the page, which needs the Debian packages clang, lld, wasi-libc and "
            "libclang-rt-14-dev-wasm32 and the source of utf8proc: run tools/test.sh, which installs them "
            "and builds qkv");
    if (measured.links.path && !measured.pairs) return complain("--links needs --pairs");
    if (measured.links.from && !measured.links.path) return complain("--links-from needs --links");
    struct qkv_error error = {""};
    return conclude(make_page(operand[0], &error), &error);
}

const struct command command_page = {
    .name = "page",
    .summary = "make a page in which a trained run translates, with its attention maps",
    .description =
        "Writes one HTML file that holds the model and the engine as WebAssembly. It needs no network and no "
        "other file: "
        "open it in a browser, type a sentence, and see the translation and where every head looked.\n\n"
        "The parameters are rounded to half precision (11 bits), which halves the file and changes weights "
        "and scores by about 1e-3, so that of two words that are nearly as probable the other may win. With "
        "`--numbers float32` they stay as they are, and the numbers differ from those of `qkv translate` by "
        "less than 1e-5, because WebAssembly has no fused multiply-add.\n\n"
        "With `--pairs` the page has a table of its heads: the change of loss and BLEU when each alone is "
        "silent, as `qkv heads` measures it. With `--links`, too, it shows the alignment error of each head "
        "that looks from the translation at the sentence, at every moment of training that it holds.\n",
    .examples = "  qkv page runs/toy_en_es\n"
                "  qkv page runs/toy_en_es --numbers float32 -o toy.html\n"
                "  qkv page runs/toy_en_es --pairs datasets/en_es/test.tsv \\\n"
                "      --links datasets/en_es/test.align\n",
    .operands = (const struct command_operand[]){{"RUN", VALUE_RUN, "a run folder"}, {0}},
    .options =
        (const struct command_option[]){
            {"output", 'o', "FILE", OPTION_TEXT, &output, "the page (default: page.html); -: standard output",
             .completes = VALUE_FILE},
            {"numbers", 0, "FORMAT", OPTION_CHOICE, &numbers, "numbers of the model: half (default), float32",
             .choices = numbers_name},
            {"sentence", 0, "TEXT", OPTION_TEXT, &opening,
             "the sentence that the page opens with (default: the first one of data.test, else of data.dev)"},
            COMMAND_OPTION_CHECKPOINT(&checkpoint),
            {"snapshots", 0, "N", OPTION_INTEGER, &snapshots,
             "hold at most N snapshots of training (training.snapshots), evenly chosen (default: 6); each "
             "takes the room "
             "of a model",
             0, 64},
            {"pairs", 0, "FILE", OPTION_TEXT, &measured.pairs,
             "measure the heads on sentence pairs (.tsv, .tsv.gz, or the common prefix of two files)",
             .completes = VALUE_FILE},
            {"most-pairs", 0, "N", OPTION_INTEGER, &measured.most,
             "use at most the first N pairs (default: 100); all are translated once for each head", 1,
             100000},
            COMMAND_OPTIONS_LINKS(&measured.links, "measure the alignment of cross attention"),
            COMMAND_OPTION_THREADS(&measured.threads),
            {0},
        },
    .run = run,
};
