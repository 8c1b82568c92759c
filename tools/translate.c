/* qkv translate: lines in, lines out. */
#include "arguments.h"
#include "commands.h"
#include "source.h"

#include "qkv/batch.h"
#include "qkv/run.h"
#include "qkv/search.h"
#include "qkv/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sentences that are read before they are translated together. */
struct block {
    int64_t count;            /* lines */
    struct source_line *line; /* [room] */
    struct qkv_ids *ids;      /* [room]: those that have words, with their place in `line` */
    int64_t *place;
    int64_t filled;
    struct qkv_arena arena;
};

struct options {
    struct qkv_search_options search;
    int64_t batch_size;
    bool scores, quiet;
};

struct translator {
    struct qkv_run run;
    struct options options;
    struct qkv_decoding *decoding;
    struct qkv_batch batch;
    struct qkv_translations translations;
    struct source source;
    struct block block;
};

/* One translation as a line: with --n-best the number of its sentence stands before it, with --scores its
 * score. */
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
    printf("%s\n", text);
    return QKV_OK;
}

/* Translates what the block holds and prints it in the order of the lines; an empty line stays one. */
static enum qkv_status flush(struct translator *t, struct qkv_error *error)
{
    struct block *block = &t->block;
    int64_t n_best = t->options.search.n_best, next = 0;
    if (block->filled) {
        struct qkv_batch_view view;
        if (qkv_batch_make(&t->batch, block->filled, block->ids, NULL, error)) return QKV_INVALID;
        qkv_batch_shard(&t->batch, 0, 1, &view);
        if (qkv_search(t->decoding, &view, &t->options.search, &t->translations, error)) return QKV_INVALID;
    }
    for (int64_t i = 0; i < block->count; i++) {
        bool has_words = next < block->filled && block->place[next] == i;
        const struct qkv_hypothesis nothing = {0},
                                    *best = has_words ? &t->translations.best[next * n_best] : &nothing;
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
        struct source_line line;
        if (source_next(&t->source, &block->arena, &line, &found, error)) {
            struct qkv_error inner;
            flush(t, &inner); /* what stands before the bad line is translated all the same */
            return QKV_INVALID;
        }
        if (found) {
            if (line.ids.length) {
                block->ids[block->filled] = line.ids;
                block->place[block->filled++] = block->count;
            }
            block->line[block->count++] = line;
        }
        /* At a terminal every line is answered at once. */
        if (block->count == t->options.batch_size || !found || (t->source.interactive && block->count)) {
            if (block->count && flush(t, error)) return QKV_INVALID;
        }
    }
    return QKV_OK;
}

static enum qkv_status open_translator(struct translator *t, const char *run, const char *checkpoint,
                                       struct qkv_error *error)
{
    if (qkv_run_open(&t->run, run, checkpoint, QKV_FLOAT32, error)) return QKV_INVALID;
    const struct qkv_testing_config *testing = &t->run.config.testing;
    struct options *o = &t->options;
    if (!o->search.beam_size) o->search.beam_size = testing->beam_size;
    if (o->search.length_penalty < 0) o->search.length_penalty = testing->beam_alpha;
    if (!o->search.n_best) o->search.n_best = testing->n_best;
    if (!o->search.max_output_length) o->search.max_output_length = testing->max_output_length;
    if (!o->batch_size) o->batch_size = testing->batch_size;
    if (o->search.n_best > o->search.beam_size)
        return qkv_error_set(error, "--n-best is %lld, but must not exceed the beam of %lld: raise --beam",
                             (long long)o->search.n_best, (long long)o->search.beam_size);
    size_t room = (size_t)o->batch_size;
    t->block.line = calloc(room, sizeof *t->block.line);
    t->block.ids = calloc(room, sizeof *t->block.ids);
    t->block.place = calloc(room, sizeof *t->block.place);
    t->decoding = qkv_decoding_new(t->run.model);
    if (!t->block.line || !t->block.ids || !t->block.place || !t->decoding)
        return qkv_error_set(error, "out of memory");
    return QKV_OK;
}

static void close_translator(struct translator *t)
{
    source_close(&t->source);
    qkv_decoding_free(t->decoding);
    qkv_translations_release(&t->translations);
    qkv_batch_release(&t->batch);
    qkv_arena_release(&t->block.arena);
    free(t->block.line);
    free(t->block.ids);
    free(t->block.place);
    qkv_run_release(&t->run);
}

int command_translate(int argc, char **argv)
{
    struct translator t = {.options.search.length_penalty = -1};
    struct options *o = &t.options;
    const char *checkpoint = NULL;
    int operands;
    const struct argument arguments[] = {
        ARGUMENT_BEAM(&o->search.beam_size),
        ARGUMENT_LENGTH_PENALTY(&o->search.length_penalty),
        {"n-best", 'n', "N", ARGUMENT_INTEGER, &o->search.n_best, 1, 1000,
         "translations per sentence, each behind the number of its line"},
        {"scores", 0, NULL, ARGUMENT_FLAG, &o->scores, 0, 0,
         "print log-probability / length penalty before each translation"},
        {"max-length", 0, "N", ARGUMENT_INTEGER, &o->search.max_output_length, 1, 1e6,
         "longest translation in tokens"},
        {"batch", 'b', "N", ARGUMENT_INTEGER, &o->batch_size, 1, 1e5,
         "sentences translated together (default: testing.batch_size)"},
        ARGUMENT_CHECKPOINT(&checkpoint),
        {"quiet", 'q', NULL, ARGUMENT_FLAG, &o->quiet, 0, 0, "do not tell of unknown words"},
        {0},
    };
    const struct usage usage = {
        .synopsis = "translate RUN [FILE] [options]",
        .description = "Translates FILE (default, and `-`: standard input) line by line to standard output.\n"
                       "Unknown words and lines that are cut for length are told of on standard error.\n",
        .arguments = arguments,
        .examples = "  echo \"the cat is sleeping\" | qkv translate runs/toy_en_es\n"
                    "  qkv translate runs/toy_en_es lines.txt --beam 5 --n-best 3 --scores\n",
        .fewest = 1,
        .most = 2,
    };
    int code = arguments_parse(&usage, argc, argv, &operands);
    if (code != ARGUMENTS_GOOD) return code;
    struct qkv_error error = {""};
    enum qkv_status status = open_translator(&t, argv[1], checkpoint, &error);
    if (!status) status = source_open(&t.source, &t.run, operands > 1 ? argv[2] : "-", o->quiet, &error);
    if (!status) status = translate(&t, &error);
    close_translator(&t);
    return conclude(status, &error);
}
