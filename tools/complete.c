/* qkv complete: a language model continues a text. */
#include "open_run.h"
#include "search_options.h"
#include "text_notes.h"

#include "core/system.h"
#include "data/lines.h"

static struct sampling_options sampling = SAMPLING_OPTIONS_DEFAULT;
static int64_t max_length, n = 1, threads;
static struct option_list with;
static const char *checkpoint, *file, *precision;
static bool quiet;

/* The tokens of a text with several lines. */
struct prompt {
    struct qkv_arena arena;
    int32_t *ids;
    const char **tokens; /* as the text has them, unknown ones included; NULL: a line end */
    int64_t count, ids_capacity, tokens_capacity;
};

/* One text that the model writes. */
struct completion {
    const struct qkv_run *run;
    struct bytes *text;  /* what is written; printed at once if `is_streamed` */
    const char **tokens; /* of the current line: [room] */
    int64_t count, room;
    size_t written; /* bytes of the line that are in `text` */
    bool is_streamed, has_failed;
    struct qkv_arena arena;
};

/* ---- writing ---- */

static void write_text(struct completion *c, const char *text)
{
    qkv_bytes_text(c->text, text);
    if (!c->is_streamed) return;
    print_result(stdout, text);
    fflush(stdout);
}

/* Writes what is new in the current line. A last token that another one may still change waits. */
static void write_line(struct completion *c, bool is_complete)
{
    const struct qkv_text_config *config = &c->run->config.data.trg;
    const char *last = c->count ? c->tokens[c->count - 1] : "";
    bool is_piece = config->level == QKV_LEVEL_BPE && *last && qkv_ends_in(last + 1, "@@");
    if (is_piece && !is_complete) return;
    qkv_arena_reset(&c->arena);
    const char *line = qkv_detokenize(config, c->count, c->tokens, &c->arena);
    c->has_failed = c->has_failed || !line;
    if (c->has_failed || strlen(line) <= c->written) return;
    write_text(c, line + c->written);
    c->written = strlen(line);
}

/* Adds a token; NULL: a line end. */
static void add_token(struct completion *c, const char *token)
{
    if (token) {
        c->has_failed = c->has_failed || c->count == c->room;
        if (c->has_failed) return;
        c->tokens[c->count++] = token;
        write_line(c, false);
        return;
    }
    write_line(c, true);
    write_text(c, "\n");
    c->count = 0;
    c->written = 0;
}

static void add_id(void *context, int32_t id)
{
    struct completion *c = context;
    add_token(c, id == QKV_END ? NULL : qkv_vocabulary_token(&c->run->target, id));
}

/* ---- the prompt ---- */

static bool add_to_prompt(struct prompt *prompt, int32_t id, const char *token)
{
    int64_t room = prompt->count + 1;
    if (!QKV_RESERVE(prompt->ids, prompt->ids_capacity, room) ||
        !QKV_RESERVE(prompt->tokens, prompt->tokens_capacity, room))
        return false;
    const char *kept = token ? qkv_arena_string(&prompt->arena, token) : NULL;
    prompt->ids[prompt->count] = id;
    prompt->tokens[prompt->count++] = kept;
    return kept || !token;
}

/* Adds a line, before it a line end unless it is the first. */
static enum qkv_status add_prompt_line(struct prompt *prompt, const struct qkv_run *run, const char *line,
                                       size_t size, bool is_first, struct qkv_error *error)
{
    struct qkv_sentence sentence = {0};
    enum qkv_status status =
        qkv_sentence_encode(&sentence, &run->config.data.trg, &run->target, line, size, error);
    bool complete = status || is_first || add_to_prompt(prompt, QKV_END, NULL);
    for (int64_t i = 0; !status && complete && i < sentence.tokens.count; i++)
        complete = add_to_prompt(prompt, sentence.ids[i], sentence.tokens.token[i]);
    if (!status && !quiet) warn_of_unknown_words("the text", &sentence, run, true, NULL);
    qkv_sentence_release(&sentence);
    return complete ? status : qkv_no_memory(error);
}

/* Reads the text of the operand, or of a file. */
static enum qkv_status read_prompt(struct prompt *prompt, const struct qkv_run *run, const char *text,
                                   struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    bool has_lines = run->sides.runs_on, is_first = true, found = true;
    struct qkv_lines lines = {0};
    if (!text && qkv_lines_open(&lines, file ? file : "-", error)) return QKV_INVALID;
    while (!status && (text || (!(status = qkv_lines_next(&lines, &found, error)) && found))) {
        size_t size = text ? strcspn(text, "\n") : lines.size;
        if (!is_first && !has_lines && size)
            status = qkv_error_set(error,
                                   "the text has several lines, but the model was trained on single ones "
                                   "(data.text is %s)",
                                   qkv_text_form_name(run->config.data.text));
        if (!status && (is_first || has_lines))
            status = add_prompt_line(prompt, run, text ? text : lines.line, size, is_first, error);
        is_first = false;
        if (text && !text[size]) break;
        if (text) text += size + 1;
    }
    qkv_lines_close(&lines);
    return status;
}

/* ---- the texts ---- */

struct writing {
    const struct qkv_run *run;
    const struct prompt *prompt;
    struct qkv_completion options;
    struct written {
        struct bytes text;
        enum qkv_status status;
        struct qkv_error error;
    } * written; /* [n] */
};

/* Writes text `index`; called by several threads. */
static void write_one(void *context, int index)
{
    struct writing *w = context;
    const struct prompt *prompt = w->prompt;
    struct written *written = &w->written[index];
    struct completion c = {.run = w->run, .text = &written->text, .is_streamed = n == 1};
    struct qkv_completion options = w->options;
    options.number = index;
    options.token = add_id;
    options.context = &c;
    c.room = prompt->count + options.max_length;
    c.tokens = malloc((size_t)(c.room + 1) * sizeof *c.tokens);
    for (int64_t i = 0; c.tokens && i < prompt->count; i++) add_token(&c, prompt->tokens[i]);
    written->status =
        c.tokens ? qkv_complete(&options, (struct qkv_ids){prompt->count, prompt->ids}, &written->error)
                 : qkv_no_memory(&written->error);
    if (!written->status && c.count) add_token(&c, NULL);
    if (!written->status && (c.has_failed || c.text->failed))
        written->status = qkv_no_memory(&written->error);
    free(c.tokens);
    qkv_arena_release(&c.arena);
}

/* Writes n texts, and prints them unless the only one was printed already. */
static enum qkv_status write_all(struct writing *w, struct qkv_workers *workers, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    w->written = required(calloc((size_t)n, sizeof *w->written));
    qkv_workers_run(workers, (int)n, write_one, w);
    for (int64_t i = 0; i < n; i++) {
        const struct written *written = &w->written[i];
        if (written->status && !status) {
            status = written->status;
            *error = written->error;
        }
        if (!status && n > 1) {
            if (i) puts("---");
            print_result(stdout, written->text.data ? written->text.data : "");
        }
        free(written->text.data);
    }
    free(w->written);
    return status;
}

static enum qkv_status complete(const struct qkv_run *run, const char *text, struct qkv_error *error)
{
    struct prompt prompt = {0};
    struct writing writing = {.run = run, .prompt = &prompt};
    struct qkv_workers *workers = NULL;
    struct ensemble ensemble;
    enum qkv_status status = ensemble_open(&ensemble, run, &with, precision, error);
    writing.options = (struct qkv_completion){
        .model = run->model,
        .ensemble = with.count ? ensemble.models : (struct qkv_ensemble){0},
        .runs_on = run->sides.runs_on,
        .window = run->config.data.context,
        .max_length = max_length ? max_length : 500,
    };
    if (!status) status = sampling_options_apply(&sampling, &writing.options.sampling, error);
    if (!status && n > 1 && !sampling.sample)
        status = qkv_error_set(error, "--n above 1 needs --sample: without, all texts are the same");
    if (!status && text && file) status = qkv_error_set(error, "give TEXT or --file, not both");
    if (!status) status = read_prompt(&prompt, run, text && !strcmp(text, "-") ? NULL : text, error);
    if (!status && !(workers = qkv_workers_new((int)threads, error))) status = QKV_INVALID;
    if (!status) status = write_all(&writing, workers, error);
    qkv_workers_free(workers);
    ensemble_close(&ensemble);
    qkv_arena_release(&prompt.arena);
    free(prompt.ids);
    free(prompt.tokens);
    return status;
}

static int run_complete(int operands, char **operand)
{
    struct qkv_run opened = {0};
    struct qkv_error error = {""};
    enum qkv_status status = open_run(&opened, operand[0], checkpoint, QKV_FLOAT32, NULL, &error);
    if (!status && opened.sides.has_source)
        status = qkv_error_set(
            &error, "%s: is a translator, which does not continue a text: use qkv translate", operand[0]);
    if (!status) status = set_precision(opened.model, precision, &error);
    if (!status) status = complete(&opened, operands > 1 ? operand[1] : NULL, &error);
    qkv_run_release(&opened);
    return conclude(status, &error);
}

const struct command command_complete = {
    .name = "complete",
    .summary = "continue a text with a language model",
    .description =
        "Prints TEXT and what the language model RUN writes after it, token by token as the model chooses "
        "it: the most probable token, or with --sample one that is drawn from the probabilities. The text is "
        "the same for any number of threads.\n\n"
        "A model of running text goes on until --max-length. It sees as many tokens as it was trained with "
        "(data.context); when these are full, it goes on with the last half of them. Other models end the "
        "text themselves.\n",
    .examples = "  qkv complete runs/characters \"ROMEO:\" --sample --temperature 0.8\n"
                "  qkv complete runs/characters --file start.txt --sample --n 3 --max-length 200\n",
    .operands = OPERANDS(
        {"RUN", VALUE_RUN, "a run folder"},
        {"TEXT", VALUE_OTHER, "the beginning of the text; -: standard input (default)", .optional = true}),
    .options = OPTIONS(
        {"file", 0, "FILE", OPTION_TEXT, &file, "read the beginning of the text from a file",
         .completes = VALUE_FILE},
        {"max-length", 0, "N", OPTION_INTEGER, &max_length, "tokens to write at most (default: 500)", 1, 1e6},
        COMMAND_OPTIONS_SAMPLING(&sampling, "taking the most probable one"),
        {"n", 'n', "N", OPTION_INTEGER, &n, "print N samples, with a line --- between (default: 1)", 1, 1000},
        COMMAND_OPTION_WITH(&with), COMMAND_OPTION_THREADS(&threads), COMMAND_OPTION_CHECKPOINT(&checkpoint),
        COMMAND_OPTION_PRECISION(&precision),
        {"quiet", 'q', NULL, OPTION_FLAG, &quiet, "do not warn about unknown words"}),
    .run = run_complete,
};
