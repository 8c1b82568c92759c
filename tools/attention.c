/* qkv attention: where a trained model looks while it translates a sentence. */
#include "arguments.h"
#include "attention_request.h"
#include "commands.h"
#include "source.h"

#include "qkv/attention_collect.h"
#include "qkv/run.h"
#include "qkv/search.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct viewer {
    struct qkv_run run;
    struct qkv_sentence source, target; /* target: only where it is given */
    struct qkv_decoding *decoding;
    struct qkv_batch batch;
    struct qkv_translations translations;
    struct qkv_attention_collector *collector;
    struct qkv_attention_pair pair;
    const char *source_text, *target_text;
    struct qkv_arena arena;
    bool quiet;
};

/* The sentence of the command line, or, for "-", a line of standard input; in the arena. */
static const char *read_sentence(struct viewer *v, const char *operand, struct qkv_error *error)
{
    char *line = NULL;
    size_t room = 0;
    if (strcmp(operand, "-") != 0) return operand;
    ssize_t length = getline(&line, &room, stdin);
    const char *sentence = NULL;
    if (length < 0)
        qkv_error_set(error, "<stdin>: %s", ferror(stdin) ? strerror(errno) : "there is no line");
    else if (strlen(line) != (size_t)length)
        qkv_error_set(error, "<stdin>: column %zu: byte 0x00 is no text", strlen(line) + 1);
    else {
        line[strcspn(line, "\r\n")] = '\0';
        sentence = qkv_arena_string(&v->arena, line);
        if (!sentence) qkv_error_set(error, "out of memory");
    }
    free(line);
    return sentence;
}

/* Makes ids of a sentence that the user gave; `what` it is, for messages. */
static enum qkv_status encode(const struct viewer *v, const char *what, const char *text, bool target,
                              struct qkv_sentence *sentence, struct qkv_error *error)
{
    const struct qkv_data_config *data = &v->run.config.data;
    struct qkv_error inner;
    if (qkv_sentence_encode(sentence, target ? &data->trg : &data->src,
                            target ? &v->run.target : &v->run.source, text, strlen(text), &inner))
        return qkv_error_set(error, "%s: %s", what, inner.message);
    if (!sentence->tokens.count) return qkv_error_set(error, "%s: holds no words", what);
    int64_t longest = qkv_model_longest(v->run.model) - 1; /* </s>, or <s>, has a position as well */
    if (sentence->tokens.count > longest)
        return qkv_error_set(error, "%s: has %lld tokens, but the model has positions for %lld", what,
                             (long long)sentence->tokens.count, (long long)longest);
    if (!v->quiet) tell_unknown(what, sentence);
    return QKV_OK;
}

/* The model's own translation becomes the target. `beam` 0: as the config says. */
static enum qkv_status translate(struct viewer *v, int64_t beam, struct qkv_error *error)
{
    const struct qkv_testing_config *testing = &v->run.config.testing;
    const struct qkv_search_options options = {beam ? beam : testing->beam_size, testing->beam_alpha, 1,
                                               testing->max_output_length};
    struct qkv_batch_view view;
    v->decoding = qkv_decoding_new(v->run.model);
    if (!v->decoding) return qkv_error_set(error, "out of memory");
    if (qkv_batch_make(&v->batch, 1, &v->pair.source, NULL, error)) return QKV_INVALID;
    qkv_batch_shard(&v->batch, 0, 1, &view);
    if (qkv_search(v->decoding, &view, &options, &v->translations, error)) return QKV_INVALID;
    const struct qkv_hypothesis *best = &v->translations.best[0];
    const char **tokens = qkv_arena_allocate(&v->arena, (size_t)best->length * sizeof *tokens);
    if (!tokens) return qkv_error_set(error, "out of memory");
    for (int64_t i = 0; i < best->length; i++) tokens[i] = qkv_vocabulary_token(&v->run.target, best->ids[i]);
    v->pair.target = (struct qkv_ids){best->length, best->ids};
    v->pair.target_tokens = tokens;
    v->pair.unfinished = !best->finished;
    v->target_text = qkv_detokenize(&v->run.config.data.trg, best->length, tokens, &v->arena);
    if (!v->target_text) return qkv_error_set(error, "out of memory");
    if (!v->quiet)
        fprintf(stderr, "%s%s\n", v->target_text,
                best->finished ? "" : " (cut: the longest output is reached)");
    return QKV_OK;
}

/* Fills v->pair with both sides. */
static enum qkv_status make_pair(struct viewer *v, const char *operand, const char *target, int64_t beam,
                                 struct qkv_error *error)
{
    v->source_text = read_sentence(v, operand, error);
    if (!v->source_text || encode(v, "the sentence", v->source_text, false, &v->source, error))
        return QKV_INVALID;
    v->pair.source = (struct qkv_ids){v->source.tokens.count, v->source.ids};
    v->pair.source_tokens = v->source.tokens.token;
    if (!target) return translate(v, beam, error);
    if (encode(v, "--target", target, true, &v->target, error)) return QKV_INVALID;
    v->pair.target = (struct qkv_ids){v->target.tokens.count, v->target.ids};
    v->pair.target_tokens = v->target.tokens.token;
    v->target_text = target;
    return QKV_OK;
}

/* Asks for the maps of no words at all, which are there when those of any others are: what the model does not
 * have is said before the first word is translated. */
static enum qkv_status check_request(struct viewer *v, const struct attention_request *request,
                                     struct qkv_error *error)
{
    static const struct qkv_attention_pair nothing = {0};
    struct qkv_attention_report report, selected;
    v->collector = qkv_attention_collector_new(v->run.model, error);
    if (!v->collector || qkv_attention_collect(v->collector, 1, &nothing, request->kinds, &report, error))
        return QKV_INVALID;
    return attention_request_select(request, &report, &v->arena, &selected, error);
}

static enum qkv_status show(struct viewer *v, const struct attention_request *request,
                            struct qkv_error *error)
{
    struct qkv_attention_report report;
    if (qkv_attention_collect(v->collector, 1, &v->pair, request->kinds, &report, error)) return QKV_INVALID;
    report.model = v->run.config.name;
    report.title = qkv_arena_format(&v->arena, "%s → %s", v->source_text, v->target_text);
    if (!report.title) return qkv_error_set(error, "out of memory");
    return attention_request_write(request, &report, &v->arena, error);
}

static void close_viewer(struct viewer *v)
{
    qkv_attention_collector_free(v->collector);
    qkv_decoding_free(v->decoding);
    qkv_translations_release(&v->translations);
    qkv_batch_release(&v->batch);
    qkv_sentence_release(&v->source);
    qkv_sentence_release(&v->target);
    qkv_run_release(&v->run);
    qkv_arena_release(&v->arena);
}

int command_attention(int argc, char **argv)
{
    struct viewer v = {0};
    struct attention_options options = {0};
    struct attention_request request;
    const char *target = NULL, *checkpoint = NULL;
    int64_t beam = 0;
    int operands;
    const struct argument arguments[] = {
        {"target", 't', "TEXT", ARGUMENT_TEXT, &target, 0, 0,
         "look at this translation instead of the run's own"},
        ARGUMENT_BEAM(&beam),
        ARGUMENTS_ATTENTION(&options),
        ARGUMENT_CHECKPOINT(&checkpoint),
        {"quiet", 'q', NULL, ARGUMENT_FLAG, &v.quiet, 0, 0,
         "do not print the translation, nor tell of unknown words"},
        {0},
    };
    const struct usage usage = {
        .synopsis = "attention RUN SENTENCE [options]",
        .description =
            "Translates SENTENCE (-: a line of standard input) and shows where the model looked: one map a\n"
            "head, each row a distribution over tokens. Kinds: encoder (source at source), decoder\n"
            "(target at target) and cross (target at source). What is not asked for is chosen by format:\n"
            "text shows the mean heads of each cross layer, svg and png every head of every cross layer;\n"
            "json, csv and npz hold all maps.\n",
        .arguments = arguments,
        .examples =
            "  qkv attention runs/toy_en_es \"the cat is sleeping\"\n"
            "  qkv attention runs/toy_en_es \"the cat is sleeping\" -o cross.png --layer 2 --head 1 "
            "--annotate\n"
            "  qkv attention runs/toy_en_es \"the cat is sleeping\" --target \"el gato duerme\" -f json\n",
        .fewest = 2,
        .most = 2,
    };
    int code = arguments_parse(&usage, argc, argv, &operands);
    if (code != ARGUMENTS_GOOD) return code;
    if (target && beam)
        return complain("--target and --beam exclude each other: a given translation is not searched for");
    if (attention_request_read(&request, &options)) return QKV_INVALID;
    struct qkv_error error = {""};
    enum qkv_status status = qkv_run_open(&v.run, argv[1], checkpoint, QKV_FLOAT32, &error);
    if (!status) status = check_request(&v, &request, &error);
    if (!status) status = make_pair(&v, argv[2], target, beam, &error);
    if (!status) status = show(&v, &request, &error);
    close_viewer(&v);
    return conclude(status, &error);
}
