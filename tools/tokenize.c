/* qkv tokenize: splits lines of text into the tokens of a run. */
#include "open_run.h"
#include "text_notes.h"

#include "data/lines.h"

static const char *side = "src";
static bool quiet;

static NAME_LISTER(side_name, index == 0 ? "src" : index == 1 ? "trg" : NULL);

static void print_tokens(const struct qkv_tokens *tokens)
{
    for (int64_t i = 0; i < tokens->count; i++) {
        if (i) putchar(' ');
        print_result(stdout, tokens->token[i]);
    }
    putchar('\n');
}

/* Prints the tokens of each line, separated by spaces, and warns of those that the model reads as <unk>. */
static enum qkv_status tokenize(struct qkv_lines *lines, struct qkv_sentence *sentence,
                                const struct qkv_run *run, bool is_target, struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    enum qkv_status status;
    struct unknown_words unknown_words = {.shows_all =
                                              !strcmp(lines->path, "<stdin>") && isatty(STDIN_FILENO)};
    bool found, has_told_of_tab = false;
    while (!(status = qkv_lines_next(lines, &found, error)) && found) {
        char place[300];
        status =
            qkv_sentence_encode(sentence, is_target ? &data->trg : &data->src,
                                is_target ? &run->target : &run->source, lines->line, lines->size, error);
        if (status) break;
        snprintf(place, sizeof place, "%.250s:%lld", lines->path, (long long)lines->number);
        if (!quiet && !has_told_of_tab && strchr(lines->line, '\t')) {
            print_error("%s: has a tab, but a line is one sentence: give one column (cut -f1)", place);
            has_told_of_tab = true;
        }
        if (!quiet) unknown_words_note(&unknown_words, place, sentence, run, is_target, NULL, lines->number);
        print_tokens(&sentence->tokens);
    }
    unknown_words_end(&unknown_words);
    return status;
}

static int run_tokenize(int operands, char **operand)
{
    struct qkv_run opened = {0};
    struct qkv_error error = {""};
    enum qkv_status status = open_run(&opened, operand[0], NULL, QKV_FLOAT32, NULL, &error);
    struct qkv_lines lines = {0};
    struct qkv_sentence sentence = {0};
    bool is_target = !strcmp(side, "trg") || !opened.sides.has_source; /* its only side */
    if (!status) status = qkv_lines_open(&lines, operands > 1 ? operand[1] : "-", &error);
    if (!status) status = tokenize(&lines, &sentence, &opened, is_target, &error);
    qkv_sentence_release(&sentence);
    qkv_lines_close(&lines);
    qkv_run_release(&opened);
    return conclude(status, &error);
}

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "show how a run splits lines of text into tokens",
    .description =
        "Prints the tokens of each line of FILE with a space between, as the model of RUN reads them: "
        "words, characters, or pieces of words (data.src.level). A piece that ends in `@@` goes on with "
        "the next one; `▁` stands for white space, and `￭` at an end of a token says that no space is there. "
        "Tokens that are not in the vocabulary, which the model "
        "reads as `<unk>`, are named on standard error, those of the first ten lines that have any.\n",
    .examples = "  echo \"the cat is sleeping\" | qkv tokenize runs/toy_en_es\n"
                "  qkv tokenize runs/toy_en_es lines.es --side trg\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder"},
                         {"FILE", VALUE_FILE, "a text file, one sentence a line; -: standard input (default)",
                          .optional = true}),
    .options = OPTIONS({"side", 0, "SIDE", OPTION_CHOICE, &side,
                        "language of the lines: {choices} (default: src)", .choices = side_name},
                       {"quiet", 'q', NULL, OPTION_FLAG, &quiet, "do not warn about unknown words"}),
    .run = run_tokenize,
};
