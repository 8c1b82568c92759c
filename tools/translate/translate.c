/* qkv translate: translates lines of text. */
#include "line_editor.h"

#include "open_run.h"
#include "output_options.h"
#include "program.h"
#include "replace_unknown.h"
#include "run_processes.h"
#include "search_options.h"

#include "report/aligner.h"

#include <signal.h>

struct block {
    int64_t capacity;               /* lines */
    int64_t count;                  /* lines */
    struct input_line *line;        /* [capacity] */
    struct qkv_ids *ids;            /* [capacity]: the lines that have words */
    struct qkv_ids *prefix;         /* [capacity]: the beginnings of their translations */
    int64_t *number;                /* [capacity]: their numbers */
    int64_t filled;                 /* number of `ids` */
    bool is_end;                    /* nothing follows; for other processes */
    struct qkv_arena arena, memory; /* of the present lines; of the arrays */
};

/* ---- lines that are translated together ---- */

static void block_open(struct block *block, int64_t capacity)
{
    struct qkv_arena *arena = &block->memory;
    block->capacity = capacity;
    block->line = required(qkv_arena_zeros(arena, capacity, sizeof *block->line));
    block->ids = required(qkv_arena_zeros(arena, capacity, sizeof *block->ids));
    block->prefix = required(qkv_arena_zeros(arena, capacity, sizeof *block->prefix));
    block->number = required(qkv_arena_zeros(arena, capacity, sizeof *block->number));
}

static void block_add(struct block *block, const struct input_line *line)
{
    if (line->source.ids.length) {
        block->ids[block->filled] = line->source.ids;
        block->prefix[block->filled] = line->prefix.ids;
        block->number[block->filled++] = line->number;
    }
    block->line[block->count++] = *line;
}

static void block_clear(struct block *block)
{
    block->count = block->filled = 0;
    qkv_arena_reset(&block->arena);
}

static void move_ids(struct block *block, struct qkv_parcel *parcel, struct qkv_ids *ids)
{
    qkv_parcel_move(parcel, &ids->length, sizeof ids->length);
    size_t size = (size_t)ids->length * sizeof *ids->ids;
    int32_t *words = parcel->received ? qkv_arena_allocate(&block->arena, size) : (int32_t *)ids->ids;
    if (ids->length && !words) {
        parcel->has_failed = true;
        return;
    }
    qkv_parcel_move(parcel, words, size);
    ids->ids = words;
}

static void move(void *context, int rank, struct qkv_parcel *parcel)
{
    struct block *block = context;
    (void)rank;
    qkv_parcel_move(parcel, &block->is_end, sizeof block->is_end);
    qkv_parcel_move(parcel, &block->filled, sizeof block->filled);
    for (int64_t i = 0; i < block->filled && !parcel->has_failed; i++) {
        qkv_parcel_move(parcel, &block->number[i], sizeof block->number[i]);
        move_ids(block, parcel, &block->ids[i]);
        move_ids(block, parcel, &block->prefix[i]);
    }
}

/* Sends the lines with words, which process 0 has read, to the other processes. Does nothing in a single process. */
static enum qkv_status block_share(struct block *block, struct qkv_processes *processes,
                                   struct qkv_error *error)
{
    const struct qkv_parcel_contents contents = {block, move};
    return qkv_share(processes, &contents, error);
}

/* Batches of a block: enough for every thread of a large machine. The number must not depend on the
 * number of threads, because sentences that are translated together share rounding. */
enum { BATCHES_AHEAD = 64 };

/* The options as they are given. */
static struct {
    struct search_options search;
    int64_t n_best, batch_size, threads; /* 0: not given */
    bool scores, quiet, has_prefixes, as_trained, replace_unknown, alignment;
    struct sampling_options sampling;
} options = {.search = SEARCH_OPTIONS_DEFAULT, .sampling = SAMPLING_OPTIONS_DEFAULT};

/* The last sentence that was typed at the prompt. */
struct typed_sentence {
    const char *text; /* NULL: no sentence with words was typed yet */
    struct input_line line;
    struct qkv_arena arena;
};

struct translator {
    int64_t printed, cut; /* translations; those that ended at the limit of their length */
    struct qkv_run run;
    struct ensemble ensemble;
    struct qkv_search_options search;
    struct qkv_workers *workers;
    struct qkv_processes *processes;
    struct qkv_translator *translator;
    struct unknown_replacer replacer; /* only with --replace-unk */
    struct qkv_aligner *aligner;      /* only with --alignment */
    struct input_lines input;
    struct block block;
    const struct qkv_hypothesis *found; /* of the last block; valid until the next */
    bool has_prompt, was_interrupted;   /* by Ctrl-C */
    int64_t beam_size;                  /* from the options; /nbest may raise the beam size of `search` */
    struct typed_sentence typed;
};

static const char *detokenized(const struct translator *t, int64_t count, const char *const *tokens,
                               struct qkv_arena *arena)
{
    return required((char *)qkv_detokenize(&t->run.config.data.trg, count, tokens, arena));
}

static const char **tokens_of(const struct translator *t, const struct qkv_hypothesis *hypothesis,
                              struct qkv_arena *arena)
{
    return required(qkv_vocabulary_tokens(&t->run.target, hypothesis->length, hypothesis->ids, arena));
}

/* The text of a translation. Its prefix is as the line has it: joining its tokens could spell it in another way. */
static const char *text_of(struct translator *t, const struct input_line *line, int64_t count,
                           const char *const *tokens)
{
    struct qkv_arena *arena = &t->block.arena;
    int64_t forced = line->prefix.ids.length;
    const char *complete = detokenized(t, count, tokens, arena);
    if (!forced || forced > count) return complete;
    const char *joined = detokenized(t, forced, tokens, arena);
    size_t size = strlen(joined);
    if (!strncmp(complete, joined, size)) return TEXT_IN(arena, "%s%s", line->prefix_text, complete + size);
    /* The words after the prefix change how it is joined, as the other mark of a pair does. */
    return TEXT_IN(arena, "%s %s", line->prefix_text, detokenized(t, count - forced, tokens + forced, arena));
}

/* A translation of a block. */
struct translation {
    const struct input_line *line;
    const struct qkv_hypothesis *hypothesis;
    int64_t rank; /* among those of the line, from 1 */
};

/* Sets the texts of a translation and its source. The prefix is as the line has it. */
static enum qkv_status make_texts(struct translator *t, const struct translation *translation,
                                  struct qkv_pair_texts *texts, struct qkv_error *error)
{
    const struct input_line *line = translation->line;
    const struct qkv_hypothesis *hypothesis = translation->hypothesis;
    const char **tokens = tokens_of(t, hypothesis, &t->block.arena);
    int64_t count = hypothesis->length;
    t->printed++;
    t->cut += hypothesis->ids && !hypothesis->finished;
    for (int64_t i = 0; i < count && i < line->prefix.ids.length; i++) tokens[i] = line->prefix.texts[i];
    if (options.replace_unknown && replace_unknown(&t->replacer, line, hypothesis, tokens, &count, error))
        return QKV_INVALID;
    const char *text = text_of(t, line, count, tokens);
    *texts = (struct qkv_pair_texts){line->text, text};
    return QKV_OK;
}

/* Prints a translation as a line, after a number (--n-best) and its score (--scores), before its links (--alignment). The number
 * is that of the line or, at the prompt, the rank of the translation. */
static void print_translation(const struct translator *t, const struct translation *translation,
                              const struct qkv_aligned_pair *pair)
{
    int64_t line = translation->line->number;
    if (t->search.n_best > 1) printf("%lld\t", (long long)(t->has_prompt ? translation->rank : line));
    if (options.scores) printf("%.6f\t", translation->hypothesis->score);
    print_result(stdout, pair->texts.target);
    if (t->aligner) putchar('\t');
    print_links(stdout, &pair->links);
    putchar('\n');
    if (pair->reason && !options.quiet)
        print_error("%s:%lld: %s: no links", t->has_prompt ? "<stdin>" : t->input.lines.path, (long long)line,
                    pair->reason);
}

/* Translates the block and prints it in the order of the lines; an empty line gives an empty line. */
static enum qkv_status flush(struct translator *t, struct qkv_error *error)
{
    struct block *block = &t->block;
    int64_t n_best = t->search.n_best, next = 0, count = 0;
    const size_t most = (size_t)(block->count * n_best);
    struct translation *all = required(qkv_arena_allocate(&block->arena, most * sizeof *all));
    struct qkv_aligned_pair *pairs = required(qkv_arena_zeros(&block->arena, (int64_t)most, sizeof *pairs));
    if (block_share(block, t->processes, error)) return QKV_INVALID;
    enum qkv_status status = qkv_translator_run(t->translator, block->filled, block->ids, options.batch_size,
                                                &t->search, &t->found, error);
    if (status) return status;
    for (int64_t i = 0; i < block->count; i++) {
        bool has_words = block->line[i].source.ids.length;
        static const struct qkv_hypothesis nothing = {0};
        const struct qkv_hypothesis *best = has_words ? &t->found[next++ * n_best] : &nothing;
        for (int64_t k = 0; k < n_best && (k == 0 || (has_words && best[k].ids)); k++)
            all[count++] = (struct translation){&block->line[i], &best[k], k + 1};
    }
    for (int64_t i = 0; i < count; i++)
        if (make_texts(t, &all[i], &pairs[i].texts, error)) return QKV_INVALID;
    if (t->aligner) status = qkv_aligner_run(t->aligner, count, pairs, error);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) print_translation(t, &all[i], &pairs[i]);
    block_clear(block);
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
        if (found) block_add(block, &line);
        /* At a terminal, translate each line immediately. */
        if (block->count == block->capacity || !found || (t->input.interactive && block->count)) {
            enum qkv_status status = block->count ? flush(t, error) : QKV_OK;
            if (status) return status;
        }
    }
    if (!options.quiet) note_cut(t->cut, t->printed);
    if (options.replace_unknown && t->input.unknown_words.lines && !t->replacer.has_replaced)
        print_error(
            "note: --replace-unk replaced nothing, because the model has written no <unk>: it learns to "
            "where training leaves rare words out of the target vocabulary (data.trg.voc_min_freq, "
            "data.trg.voc_limit)");
    return QKV_OK;
}

/* Runs in processes other than 0: translates their part of each block of process 0. */
static enum qkv_status follow(struct translator *t, struct qkv_error *error)
{
    struct block *block = &t->block;
    enum qkv_status status = QKV_OK;
    for (;;) {
        if (block_share(block, t->processes, status ? NULL : error)) return QKV_INVALID;
        if (block->is_end) return status;
        status = qkv_translator_run(t->translator, block->filled, block->ids, options.batch_size, &t->search,
                                    &t->found, error);
        block_clear(block);
    }
}

/* ---- the prompt ---- */

static enum qkv_status translate_typed(struct translator *t, const char *sentence, struct qkv_error *error)
{
    struct typed_sentence *typed = &t->typed;
    typed->text = NULL;
    qkv_arena_reset(&typed->arena);
    if (!qkv_is_utf8(sentence)) return qkv_error_set(error, "the sentence is not valid UTF-8");
    const char *text = TEXT_IN(&typed->arena, "%s", sentence);
    if (input_lines_encode(&t->input, "the sentence", text, &typed->arena, &typed->line, error))
        return QKV_INVALID;
    if (!typed->line.source.ids.length) {
        putchar('\n');
        return QKV_OK;
    }
    t->block.count = t->block.filled = 0; /* a sentence that failed may be left */
    block_add(&t->block, &typed->line);
    if (flush(t, error)) return QKV_INVALID;
    typed->text = text;
    note_cut(t->cut, t->printed);
    t->cut = t->printed = 0;
    return QKV_OK;
}

/* Draws the attention of the last sentence, by tokens or by words. */
static enum qkv_status print_map(struct translator *t, bool by_words, struct qkv_error *error)
{
    struct typed_sentence *typed = &t->typed;
    if (!typed->text) return qkv_error_set(error, "there is no translation to draw: type a sentence first");
    const struct qkv_hypothesis *best = &t->found[0];
    const char **tokens = tokens_of(t, best, &typed->arena);
    const struct qkv_data_config *data = &t->run.config.data;
    const struct input_tokens *source = &typed->line.source;
    struct cross_attention drawn = {
        .pair = {.source = source->ids,
                 .target = {best->length, best->ids},
                 .source_tokens = source->texts,
                 .target_tokens = tokens,
                 .unfinished = !best->finished},
        .source = typed->text,
        .target = detokenized(t, best->length, tokens, &typed->arena),
        .names_run = t->ensemble.models.count > 1,
    };
    if (by_words) {
        drawn.words.source = qkv_token_words(&data->src, source->ids.length, source->texts, &typed->arena);
        drawn.words.target = qkv_token_words(&data->trg, best->length, tokens, &typed->arena);
        if (!drawn.words.source || !drawn.words.target) return qkv_no_memory(error);
    }
    return print_cross_attention(&t->run, &drawn, error);
}

enum { MAX_TRANSLATIONS = 1000 };

/* The commands. An argument is the rest of the line, without spaces around it. */
enum { MAP, WORDS, NBEST, HELP, QUIT, COMMANDS_OF_PROMPT };
static const struct {
    const char *name, *argument, *help; /* "/nbest", "N"; "" if it has none */
} COMMAND[COMMANDS_OF_PROMPT] = {
    [MAP] = {"/map", "", "draw the cross attention of the last sentence"},
    [WORDS] = {"/words", "", "draw it between words, if the tokens are parts of words"},
    [NBEST] = {"/nbest", "N", "print the N best translations of each sentence"},
    [HELP] = {"/help", "", "print this list"},
    [QUIT] = {"/quit", "", "end, as Ctrl-D does"},
};

/* Sets the number of translations. Raises the beam size to that number if it is smaller. */
static void set_n_best(struct translator *t, const char *argument)
{
    char *end;
    errno = 0;
    long long n_best = strtoll(argument, &end, 10);
    if (end == argument || *end || errno || n_best < 1 || n_best > MAX_TRANSLATIONS) {
        print_error("/nbest needs a number from 1 to %d", MAX_TRANSLATIONS);
        return;
    }
    t->search.n_best = n_best;
    if (!options.sampling.sample) t->search.beam_size = n_best > t->beam_size ? n_best : t->beam_size;
}

static void print_help(void)
{
    enum { HELP_COLUMN = 10 };
    for (int c = 0; c < COMMANDS_OF_PROMPT; c++) {
        int columns = printf("%s %s", COMMAND[c].name, COMMAND[c].argument);
        printf("%*s%s\n", HELP_COLUMN - columns, "", COMMAND[c].help);
    }
    puts("Other lines are sentences, also those with a space before a slash.");
}

/* Runs the command in a line that begins with a slash. Returns false to leave the prompt. */
static bool run_command(struct translator *t, char *line)
{
    struct qkv_error error;
    size_t length = strlen(line), size = strcspn(line, " \t");
    while (strchr(" \t", line[length - 1])) line[--length] = '\0';
    const char *argument = line + size + strspn(line + size, " \t");
    int c = 0;
    while (c < COMMANDS_OF_PROMPT &&
           (strlen(COMMAND[c].name) != size || strncmp(line, COMMAND[c].name, size) != 0))
        c++;
    if (c == COMMANDS_OF_PROMPT)
        print_error("there is no command %.*s; /help lists the commands", (int)size, line);
    else if (*argument && !*COMMAND[c].argument)
        print_error("%s has no argument, but got '%s'", COMMAND[c].name, argument);
    else if (c == MAP || c == WORDS)
        conclude(print_map(t, c == WORDS, &error), &error);
    else if (c == NBEST)
        set_n_best(t, argument);
    else if (c == HELP)
        print_help();
    else
        return false;
    return true;
}

/* Reads lines and translates them, or runs their commands, until Ctrl-D or /quit. */
static void run_prompt(struct translator *t)
{
    enum line_event event;
    char *line;
    t->beam_size = t->search.beam_size;
    if (!options.quiet) {
        const struct qkv_data_config *data = &t->run.config.data;
        print_result(stdout, data->src.lang);
        fputs(" to ", stdout);
        print_result(stdout, data->trg.lang);
        puts("; /help lists the commands, Ctrl-D ends");
    }
    line_editor_open();
    while ((event = line_editor_read(&line)) == LINE_TYPED) {
        struct qkv_error error;
        if (*line != '/')
            conclude(translate_typed(t, line, &error), &error);
        else if (!run_command(t, line))
            break;
    }
    if (event != LINE_TYPED) putchar('\n');
    line_editor_close();
    t->was_interrupted = event == LINE_LEFT;
}

/* ---- options ---- */

/* Sets the options of sampling. Refuses options that have no effect with it. */
static enum qkv_status set_sampling(struct translator *t, struct qkv_error *error)
{
    if (sampling_options_apply(&options.sampling, &t->search.sampling, error)) return QKV_INVALID;
    if (!options.sampling.sample) return QKV_OK;
    if (options.search.beam)
        return qkv_error_set(error, "--sample and --beam exclude each other: --n-best N draws N samples");
    t->search.beam_size = 1;
    return QKV_OK;
}

/* Sets the options of the search: those of the config, overridden by those of the command line. */
static enum qkv_status set_search(struct translator *t, struct qkv_error *error)
{
    struct qkv_testing_config testing = t->run.config.testing;
    if (search_options_apply(&options.search, &testing, error)) return QKV_INVALID;
    t->search = qkv_search_options_from_config(&testing);
    t->search.n_best = options.n_best ? options.n_best : testing.n_best;
    t->search.skip_scores = !options.scores;
    t->search.allow_unknown = options.replace_unknown;
    if (!options.batch_size) options.batch_size = testing.batch_size;
    if (set_sampling(t, error)) return QKV_INVALID;
    if (options.sampling.sample || t->search.n_best <= t->search.beam_size) return QKV_OK;
    return qkv_error_set(error, "%s is %lld, but must not exceed the beam size, %lld: raise --beam%s",
                         options.n_best ? "--n-best" : "testing.n_best of the run",
                         (long long)t->search.n_best, (long long)t->search.beam_size,
                         options.n_best ? "" : ", or give --n-best");
}

static enum qkv_status open_translator(struct translator *t, const char *run, const char *checkpoint,
                                       struct qkv_error *error)
{
    enum qkv_status status =
        open_run(&t->run, run, checkpoint, QKV_FLOAT32, "does not translate: use qkv complete", error);
    if (!status) status = set_search(t, error);
    if (!status) status = silence_heads(t->run.model, &options.search.without, error);
    if (!status) status = set_precision(t->run.model, options.search.precision, error);
    if (!status)
        status = ensemble_open(&t->ensemble, &t->run, &options.search.with, options.search.precision, error);
    if (!status && options.replace_unknown) status = unknown_replacer_open(&t->replacer, &t->run, error);
    if (status) return status;
    /* With a batch size of 1, each line is translated immediately, for programs that wait for the answer to each line. */
    struct block *block = &t->block;
    block_open(block, options.batch_size == 1 ? 1 : options.batch_size * BATCHES_AHEAD);
    t->search.numbers = block->number;
    if (options.has_prefixes) t->search.prefixes = block->prefix;
    t->workers = qkv_workers_new(threads_of(t->processes, options.threads), error);
    if (!t->workers) return QKV_INVALID;
    const struct qkv_aligner_options drawing = {.drawing = QKV_DRAWING_TARGET};
    if (options.alignment && !(t->aligner = qkv_aligner_new(&t->run, NULL, &drawing, t->workers, error)))
        return QKV_INVALID;
    t->translator = qkv_translator_new_ensemble(t->ensemble.models, t->workers, error);
    if (!t->translator) return QKV_INVALID;
    qkv_translator_divide(t->translator, t->processes);
    return QKV_OK;
}

static enum qkv_status open_input(struct translator *t, const char *path, struct qkv_error *error)
{
    if (t->has_prompt)
        t->input = (struct input_lines){.run = &t->run, .interactive = true, .unknown_words.shows_all = true};
    else if (input_lines_open(&t->input, &t->run, path, error))
        return QKV_INVALID;
    int64_t longest = t->search.max_output_length, possible = t->ensemble.longest_target - 1;
    t->input.quiet = options.quiet;
    t->input.has_prefixes = options.has_prefixes;
    t->input.as_trained = options.as_trained || t->has_prompt;
    t->input.needs_words = options.replace_unknown;
    t->input.longest = t->ensemble.longest_source - 1;
    t->input.limited_by = t->ensemble.shortest_run;
    bool is_limited = longest && longest < possible;
    t->input.longest_prefix = is_limited ? longest : possible;
    t->input.prefix_limit = is_limited ? "--max-length" : "the positions of the model";
    return QKV_OK;
}

static void close_translator(struct translator *t)
{
    input_lines_close(&t->input);
    qkv_translator_free(t->translator);
    qkv_aligner_free(t->aligner);
    qkv_workers_free(t->workers);
    qkv_arena_release(&t->block.arena);
    qkv_arena_release(&t->block.memory);
    qkv_arena_release(&t->typed.arena);
    unknown_replacer_close(&t->replacer);
    ensemble_close(&t->ensemble);
    qkv_run_release(&t->run);
}

/* Refuses a path that does not exist and looks like a sentence: it has a space, or neither a folder nor an extension. */
static enum qkv_status check_path(const char *path, const char *run, struct qkv_error *error)
{
    if (!strcmp(path, "-") || access(path, F_OK) == 0 || errno != ENOENT) return QKV_OK;
    const char *dot = strrchr(path, '.');
    if (!strchr(path, ' ') && (strchr(path, '/') || (dot && dot[1]))) return QKV_OK;
    return qkv_error_set(error,
                         "there is no file '%s'; a sentence is read from standard input: echo \"%s\" | qkv "
                         "translate %s",
                         path, path, run);
}

static const char *checkpoint;

/* Runs in process 0, which also ends the work of the other processes. */
static enum qkv_status lead(struct translator *t, const char *path, struct qkv_error *error)
{
    enum qkv_status status = open_input(t, path, error);
    if (!status && t->has_prompt) run_prompt(t);
    if (!status && !t->has_prompt) status = translate(t, error);
    block_clear(&t->block);
    t->block.is_end = true;
    if (block_share(&t->block, t->processes, status ? NULL : error)) return QKV_INVALID;
    return status;
}

static int run_translate(int operands, char **operand)
{
    struct translator t = {0};
    struct qkv_error error = {""};
    const char *path = operands > 1 ? operand[1] : "-";
    if (join_processes(&command_translate, &t.processes)) return QKV_INVALID;
    t.has_prompt = operands == 1 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !t.processes;
    enum qkv_status status = check_path(path, operand[0], &error);
    if (!status) status = open_translator(&t, operand[0], checkpoint, &error);
    const struct opened_run opened = {
        .run = &t.run, .models = t.ensemble.models, .search = t.search, .batch_size = options.batch_size};
    status = agree_on_run(t.processes, &opened, status, &error);
    if (!status) status = qkv_processes_rank(t.processes) == 0 ? lead(&t, path, &error) : follow(&t, &error);
    close_translator(&t);
    if (t.was_interrupted) end_by_signal(SIGINT);
    conclude(status, &error);
    qkv_processes_leave(t.processes);
    return (int)status;
}

const struct command command_translate = {
    .name = "translate",
    .summary = "translate lines of text with a trained run",
    .description =
        "Translates FILE line by line and prints the translations. Without FILE, on a terminal, it shows a "
        "prompt: type sentences, or /help.\n\n"
        "Warnings go to standard error: words that the vocabulary lacks (in the first ten lines that have "
        "any; the others are counted), and lines longer than the model's maximum length, which are cut, and "
        "the number of translations that ended at the limit of their length.\n\n"
        "`mpirun -n N qkv translate RUN FILE` divides the lines among N processes, each of which opens RUN; "
        "process 0 alone reads FILE and prints the same as one process.\n",
    .examples = "  echo \"the cat is sleeping\" | qkv translate runs/toy_en_es\n"
                "  qkv translate runs/toy_en_es lines.txt --beam 5 --n-best 3 --scores\n"
                "  qkv translate runs/toy_en_es lines.txt --alignment | cut -f 2\n"
                "  qkv translate runs/toy_en_es lines.txt --sample --top-p 0.9 --n-best 3\n"
                "  printf 'the turtle sleeps\\tuna\\n' | qkv translate runs/toy_en_es --prefix\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder"},
                         {"FILE", VALUE_FILE, "a text file, one sentence a line; -: standard input (default)",
                          .optional = true}),
    .options = OPTIONS(
        COMMAND_OPTIONS_SEARCH(&options.search),
        {"n-best", 'n', "N", OPTION_INTEGER, &options.n_best,
         "print the N best translations of each sentence, each after its line number (N at most the "
         "beam); with --sample, N samples; fewer where there are no more, as of an empty line",
         1, 1000},
        {"scores", 0, NULL, OPTION_FLAG, &options.scores,
         "print before each translation its score: the log-probability divided by the length penalty"},
        {"alignment", 0, NULL, OPTION_FLAG, &options.alignment,
         "print after each translation a tab and its links, 0-0 1-2: the words of the line and of the "
         "translation that qkv align links (by RUN alone, with --with)"},
        COMMAND_OPTIONS_SAMPLING(&options.sampling, "searching for the best translation; excludes --beam"),
        {"prefix", 0, NULL, OPTION_FLAG, &options.has_prefixes,
         "lines are a source, a tab and a prefix: what the translation begins with"},
        {"as-trained", 0, NULL, OPTION_FLAG, &options.as_trained,
         "read words that the vocabulary lacks in the case and with the punctuation marks of the training "
         "text, if it has them so; the prompt always does"},
        {"replace-unk", 0, NULL, OPTION_FLAG, &options.replace_unknown,
         "let the model output <unk>, and print instead the source word with the most attention"},
        {"batch", 'b', "N", OPTION_INTEGER, &options.batch_size,
         "sentences translated together; 1: answer each line at once (default: testing.batch_size)", 1, 1e5},
        COMMAND_OPTION_THREADS(&options.threads), COMMAND_OPTION_CHECKPOINT(&checkpoint),
        {"quiet", 'q', NULL, OPTION_FLAG, &options.quiet,
         "do not warn about unknown words, tabs, or translations at the limit of their length"}),
    .run = run_translate,
    .is_divided = true,
};
