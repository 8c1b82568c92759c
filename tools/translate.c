/* qkv translate: translates lines of text. */
#include "commands.h"
#include "complain.h"
#include "input_lines.h"
#include "terminal.h"

#include "qkv/run.h"
#include "qkv/tokenizer.h"
#include "qkv/translator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Batches of a block: enough for every thread of a large machine. The number must not depend on the
 * number of threads, because sentences that are translated together share rounding. */
enum { BATCHES_AHEAD = 64 };

/* Lines that are read before they are translated together. */
struct block {
    int64_t capacity;        /* lines */
    int64_t count;           /* lines */
    struct input_line *line; /* [capacity] */
    struct qkv_ids *ids;     /* [capacity]: the lines that have words */
    int64_t *place;          /* [capacity]: ids[i] are those of line[place[i]] */
    int64_t filled;          /* number of `ids` */
    struct qkv_arena arena;
};

struct options {
    struct qkv_search_options search;
    int64_t batch_size, threads;
    bool scores, quiet;
};

struct translator {
    struct qkv_run run;
    struct options options;
    struct qkv_workers *workers;
    struct qkv_translator *translator;
    struct input_lines input;
    struct block block;
};

/* Prints one translation as a line, after the number of its line (--n-best) and its score (--scores). */
static enum qkv_status print_hypothesis(struct translator *t, int64_t line,
                                        const struct qkv_hypothesis *hypothesis, struct qkv_error *error)
{
    const char **tokens =
        qkv_arena_allocate(&t->block.arena, (size_t)(hypothesis->length + 1) * sizeof *tokens);
    if (!tokens) return qkv_error_set(error, "out of memory");
    for (int64_t i = 0; i < hypothesis->length; i++)
        tokens[i] = qkv_vocabulary_token(&t->run.target, hypothesis->ids[i]);
    const char *text = qkv_detokenize(&t->run.config.data.trg, hypothesis->length, tokens, &t->block.arena);
    if (!text) return qkv_error_set(error, "out of memory");
    if (t->options.search.n_best > 1) printf("%lld\t", (long long)line);
    if (t->options.scores) printf("%.6f\t", hypothesis->score);
    print_result(stdout, text);
    putchar('\n');
    return QKV_OK;
}

/* Translates the block and prints it in the order of the lines; an empty line gives an empty line. */
static enum qkv_status flush(struct translator *t, struct qkv_error *error)
{
    struct block *block = &t->block;
    int64_t n_best = t->options.search.n_best, next = 0;
    const struct qkv_hypothesis *found;
    enum qkv_status status = qkv_translator_run(t->translator, block->filled, block->ids,
                                                t->options.batch_size, &t->options.search, &found, error);
    if (status) return status;
    for (int64_t i = 0; i < block->count; i++) {
        bool has_words = next < block->filled && block->place[next] == i;
        const struct qkv_hypothesis nothing = {0}, *best = has_words ? &found[next * n_best] : &nothing;
        if (has_words) next++;
        for (int64_t k = 0; k < n_best && (k == 0 || (has_words && best[k].ids)); k++)
            if (print_hypothesis(t, block->line[i].number, &best[k], error)) return QKV_INVALID;
    }
    block->count = block->filled = 0;
    qkv_arena_reset(&block->arena);
    if (fflush(stdout) != 0) return qkv_error_set(error, "<stdout>: cannot be written: %s", strerror(errno));
    return QKV_OK;
}

static enum qkv_status translate(struct translator *t, struct qkv_error *error)
{
    struct block *block = &t->block;
    for (bool found = true; found;) {
        struct input_line line;
        if (input_lines_next(&t->input, &block->arena, &line, &found, error)) {
            struct qkv_error inner;
            flush(t, &inner); /* translate the lines before the bad one */
            return QKV_INVALID;
        }
        if (found) {
            if (line.ids.length) {
                block->ids[block->filled] = line.ids;
                block->place[block->filled++] = block->count;
            }
            block->line[block->count++] = line;
        }
        /* At a terminal, answer each line at once. */
        if (block->count == block->capacity || !found || (t->input.interactive && block->count)) {
            enum qkv_status status = block->count ? flush(t, error) : QKV_OK;
            if (status) return status;
        }
    }
    return QKV_OK;
}

static enum qkv_status open_translator(struct translator *t, const char *run, const char *checkpoint,
                                       struct qkv_error *error)
{
    enum qkv_status status = qkv_run_open(&t->run, run, checkpoint, QKV_FLOAT32, error);
    if (status) return status;
    const struct qkv_testing_config *testing = &t->run.config.testing;
    struct options *o = &t->options;
    if (!o->search.beam_size) o->search.beam_size = testing->beam_size;
    if (o->search.length_penalty < 0) o->search.length_penalty = testing->beam_alpha;
    if (!o->search.n_best) o->search.n_best = testing->n_best;
    o->search.unscored = !o->scores;
    if (!o->search.max_output_length) o->search.max_output_length = testing->max_output_length;
    if (!o->batch_size) o->batch_size = testing->batch_size;
    if (o->search.n_best > o->search.beam_size)
        return qkv_error_set(error, "--n-best is %lld, but must not exceed the beam size, %lld: raise --beam",
                             (long long)o->search.n_best, (long long)o->search.beam_size);
    /* A batch of one serves programs that wait for the answer to each line. */
    t->block.capacity = o->batch_size == 1 ? 1 : o->batch_size * BATCHES_AHEAD;
    size_t capacity = (size_t)t->block.capacity;
    t->block.line = calloc(capacity, sizeof *t->block.line);
    t->block.ids = calloc(capacity, sizeof *t->block.ids);
    t->block.place = calloc(capacity, sizeof *t->block.place);
    if (!t->block.line || !t->block.ids || !t->block.place) return qkv_error_set(error, "out of memory");
    t->workers = qkv_workers_new((int)o->threads, error);
    if (!t->workers) return QKV_INVALID;
    t->translator = qkv_translator_new(t->run.model, t->workers, error);
    return t->translator ? QKV_OK : QKV_INVALID;
}

static void close_translator(struct translator *t)
{
    input_lines_close(&t->input);
    qkv_translator_free(t->translator);
    qkv_workers_free(t->workers);
    qkv_arena_release(&t->block.arena);
    free(t->block.line);
    free(t->block.ids);
    free(t->block.place);
    qkv_run_release(&t->run);
}

/* Whether a path that does not exist looks like a sentence: it has a space, or neither a folder nor an extension. */
static bool is_sentence(const char *path)
{
    if (!strcmp(path, "-") || access(path, F_OK) == 0 || errno != ENOENT) return false;
    const char *dot = strrchr(path, '.');
    return strchr(path, ' ') || !(strchr(path, '/') || (dot && dot[1]));
}

static struct options options = {.search.length_penalty = -1};
static const char *checkpoint;

static int run(int operands, char **operand)
{
    struct translator t = {.options = options};
    struct qkv_error error = {""};
    if (operands > 1 && is_sentence(operand[1]))
        return complain("there is no file '%s'; a sentence is read from standard input: echo \"%s\" | qkv "
                        "translate %s",
                        operand[1], operand[1], operand[0]);
    enum qkv_status status = open_translator(&t, operand[0], checkpoint, &error);
    if (!status)
        status = input_lines_open(&t.input, &t.run, operands > 1 ? operand[1] : "-", options.quiet, &error);
    if (!status) status = translate(&t, &error);
    close_translator(&t);
    return conclude(status, &error);
}

const struct command command_translate = {
    .name = "translate",
    .summary = "translate lines of text with a trained run",
    .description = "Translates FILE line by line and prints the translations.\n\n"
                   "Warnings go to standard error: words that the vocabulary lacks, and lines that are cut "
                   "because the model has no more positions.\n",
    .examples = "  echo \"the cat is sleeping\" | qkv translate runs/toy_en_es\n"
                "  qkv translate runs/toy_en_es lines.txt --beam 5 --n-best 3 --scores\n",
    .operands =
        (const struct command_operand[]){
            {"RUN", VALUE_RUN, "a run folder"},
            {"FILE", VALUE_FILE, "a text file, one sentence a line; -: standard input (default)",
             .optional = true},
            {0},
        },
    .options =
        (const struct command_option[]){
            COMMAND_OPTION_BEAM(&options.search.beam_size),
            COMMAND_OPTION_LENGTH_PENALTY(&options.search.length_penalty),
            {"n-best", 'n', "N", OPTION_INTEGER, &options.search.n_best,
             "print the N best translations of each sentence, each after its line number", 1, 1000},
            {"scores", 0, NULL, OPTION_FLAG, &options.scores,
             "print log-probability / length penalty before each translation"},
            {"max-length", 0, "N", OPTION_INTEGER, &options.search.max_output_length,
             "longest translation in tokens (default: testing.max_output_length)", 1, 1e6},
            {"batch", 'b', "N", OPTION_INTEGER, &options.batch_size,
             "sentences translated together; 1: answer each line at once (default: testing.batch_size)", 1,
             1e5},
            COMMAND_OPTION_THREADS(&options.threads),
            COMMAND_OPTION_CHECKPOINT(&checkpoint),
            {"quiet", 'q', NULL, OPTION_FLAG, &options.quiet, "do not warn about unknown words"},
            {0},
        },
    .run = run,
};
