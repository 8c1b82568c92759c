/* qkv evaluate: scores a run on parallel text. */
#include "arguments.h"
#include "commands.h"

#include "qkv/evaluate.h"
#include "qkv/metrics.h"
#include "qkv/run.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* How BLEU and chrF are counted. */
struct counting {
    const char *tokenizer;
    bool lowercase;
    enum qkv_bleu_tokenizer bleu_tokenizer;
};

struct evaluation {
    struct qkv_run run;
    struct qkv_corpus corpus;
    struct qkv_workers *workers;
    struct qkv_evaluator *evaluator;
    struct qkv_scores scores;
    double bleu, chrf;
    char bleu_signature[128], chrf_signature[128];
};

static enum qkv_status parse_tokenizer(struct counting *counting)
{
    static const enum qkv_bleu_tokenizer KNOWN[] = {QKV_BLEU_13A, QKV_BLEU_NONE, QKV_BLEU_CHAR};
    for (int i = 0; i < 3; i++) {
        counting->bleu_tokenizer = KNOWN[i];
        if (!strcmp(counting->tokenizer, qkv_bleu_tokenizer_name(KNOWN[i]))) return QKV_OK;
    }
    complain("--tokenize is '%s', but must be 13a, none or char", counting->tokenizer);
    return QKV_INVALID;
}

/* BLEU and chrF of the translations, counted as asked for. */
static enum qkv_status score_texts(struct evaluation *e, const struct counting *counting, struct qkv_error *error)
{
    struct qkv_bleu bleu = {.tokenizer = counting->bleu_tokenizer, .lowercase = counting->lowercase};
    struct qkv_chrf chrf = {.lowercase = counting->lowercase};
    enum qkv_status status = QKV_OK;
    for (int64_t i = 0; !status && i < e->corpus.count; i++) {
        const char *reference = qkv_corpus_target(&e->corpus, i), *output = qkv_evaluator_translation(e->evaluator, i);
        status = qkv_bleu_add(&bleu, output, &reference, 1, error);
        if (!status) status = qkv_chrf_add(&chrf, output, &reference, 1, error);
    }
    e->bleu = qkv_bleu_score(&bleu);
    e->chrf = qkv_chrf_score(&chrf);
    qkv_bleu_signature(&bleu, e->bleu_signature, sizeof e->bleu_signature);
    qkv_chrf_signature(&chrf, e->chrf_signature, sizeof e->chrf_signature);
    qkv_bleu_release(&bleu);
    qkv_chrf_release(&chrf);
    return status;
}

static enum qkv_status evaluate(struct evaluation *e, const char *path, int threads, struct qkv_testing_config *testing,
                                const struct counting *counting, struct qkv_error *error)
{
    const struct qkv_data_config *data = &e->run.config.data;
    const struct qkv_corpus_options keep = {.keep_raw = true};
    if (qkv_corpus_read(&e->corpus, path, data, keep, error)) return QKV_INVALID;
    if (qkv_corpus_encode(&e->corpus, &e->run.source, &e->run.target, error)) return QKV_INVALID;
    e->workers = qkv_workers_new(threads, error);
    if (!e->workers) return QKV_INVALID;
    e->evaluator =
        qkv_evaluator_new(e->run.model, &e->corpus, &data->trg, &e->run.target, e->workers, testing, error);
    if (!e->evaluator || qkv_evaluator_run(e->evaluator, &e->scores, error)) return QKV_INVALID;
    return score_texts(e, counting, error);
}

static void print_table(const struct evaluation *e)
{
    const struct qkv_scores *s = &e->scores;
    printf("sentences          %lld\n", (long long)s->sentences);
    printf("target tokens      %lld\n", (long long)s->tokens);
    printf("loss               %.4f nats per token\n", s->loss);
    printf("perplexity         %.4f\n", s->perplexity);
    printf("token accuracy     %.2f %%\n", 100 * s->token_accuracy);
    printf("sequence accuracy  %.2f %%\n", 100 * s->sequence_accuracy);
    printf("BLEU               %.2f  (%s)\n", e->bleu, e->bleu_signature);
    printf("chrF               %.2f  (%s)\n", e->chrf, e->chrf_signature);
}

static void print_json(const struct evaluation *e)
{
    const struct qkv_scores *s = &e->scores;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "checkpoint", e->run.checkpoint);
    cJSON_AddNumberToObject(object, "sentences", (double)s->sentences);
    cJSON_AddNumberToObject(object, "tokens", (double)s->tokens);
    cJSON_AddNumberToObject(object, "loss", s->loss);
    cJSON_AddNumberToObject(object, "perplexity", s->perplexity);
    cJSON_AddNumberToObject(object, "token_accuracy", s->token_accuracy);
    cJSON_AddNumberToObject(object, "sequence_accuracy", s->sequence_accuracy);
    cJSON_AddNumberToObject(object, "bleu", e->bleu);
    cJSON_AddStringToObject(object, "bleu_signature", e->bleu_signature);
    cJSON_AddNumberToObject(object, "chrf", e->chrf);
    cJSON_AddStringToObject(object, "chrf_signature", e->chrf_signature);
    char *text = cJSON_Print(object);
    puts(text ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(object);
}

static void close_evaluation(struct evaluation *e)
{
    qkv_evaluator_free(e->evaluator);
    qkv_workers_free(e->workers);
    qkv_corpus_release(&e->corpus);
    qkv_run_release(&e->run);
}

int command_evaluate(int argc, char **argv)
{
    struct evaluation e = {0};
    struct counting counting = {.tokenizer = "13a"};
    const char *checkpoint = NULL;
    int64_t beam = 0, threads = 0;
    double alpha = -1;
    bool json = false;
    int operands;
    const struct argument arguments[] = {
        {"beam", 'k', "K", ARGUMENT_INTEGER, &beam, 1, 1000, "hypotheses per sentence; 1: greedy (default: testing.beam_size)"},
        {"length-penalty", 'a', "ALPHA", ARGUMENT_NUMBER, &alpha, 0, 10, "exponent of the length penalty (default: testing.beam_alpha)"},
        {"tokenize", 0, "NAME", ARGUMENT_TEXT, &counting.tokenizer, 0, 0, "how BLEU finds words: 13a (default), none, char"},
        {"lowercase", 0, NULL, ARGUMENT_FLAG, &counting.lowercase, 0, 0, "BLEU and chrF without regard to case"},
        {"checkpoint", 0, "NAME", ARGUMENT_TEXT, &checkpoint, 0, 0, "file in the run folder (default: best, else last)"},
        {"threads", 'j', "N", ARGUMENT_INTEGER, &threads, 1, 1024, "threads (default: as many as the machine has)"},
        {"json", 0, NULL, ARGUMENT_FLAG, &json, 0, 0, "print one JSON object"},
        {0},
    };
    const struct usage usage = {
        .synopsis = "evaluate RUN TSV [options]",
        .description = "Scores a run on parallel text: x.tsv, x.tsv.gz, or the common prefix of two files.\n"
                       "Loss and token accuracy are those of the given translations; sequence accuracy, BLEU\n"
                       "and chrF those of the run's own.\n",
        .arguments = arguments,
        .examples = "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv\n"
                    "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv --beam 5 --json\n",
        .fewest = 2,
        .most = 2,
    };
    enum parsed parsed = arguments_parse(&usage, argc, argv, &operands);
    if (parsed != PARSED_RUN) return parsed == PARSED_HELP ? QKV_OK : QKV_INVALID;
    if (parse_tokenizer(&counting)) return QKV_INVALID;
    struct qkv_error error = {""};
    enum qkv_status status = qkv_run_open(&e.run, argv[1], checkpoint, QKV_FLOAT32, &error);
    if (!status) {
        struct qkv_testing_config testing = e.run.config.testing;
        if (beam) testing.beam_size = beam;
        if (alpha >= 0) testing.beam_alpha = alpha;
        status = evaluate(&e, argv[2], (int)threads, &testing, &counting, &error);
    }
    if (status) complain("%s", error.message);
    else if (json) print_json(&e);
    else print_table(&e);
    close_evaluation(&e);
    return (int)status;
}
