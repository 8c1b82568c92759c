/* qkv evaluate: scores a run on parallel text. */
#include "alignment_table.h"
#include "arguments.h"
#include "commands.h"
#include "counting.h"

#include "qkv/evaluate.h"
#include "qkv/run.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

struct evaluation {
    struct qkv_run run;
    struct qkv_corpus corpus;
    struct qkv_workers *workers;
    struct qkv_evaluator *evaluator;
    struct qkv_scores scores;
    struct texts_score texts;
    struct qkv_alignment_score alignment; /* empty without --links */
};

/* BLEU and chrF of the translations, counted as asked for. */
static enum qkv_status score_texts(struct evaluation *e, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int64_t i = 0; !status && i < e->corpus.count; i++) {
        const char *reference = qkv_corpus_target(&e->corpus, i);
        status = texts_score_add(&e->texts, qkv_evaluator_translation(e->evaluator, i), &reference, 1, error);
    }
    return status;
}

static enum qkv_status evaluate(struct evaluation *e, const char *path, const char *links, int threads,
                                struct qkv_testing_config *testing, struct qkv_error *error)
{
    const struct qkv_data_config *data = &e->run.config.data;
    const struct qkv_corpus_options keep = {.keep_raw = true};
    if (qkv_corpus_read(&e->corpus, path, data, keep, error)) return QKV_INVALID;
    if (qkv_corpus_fits(&e->corpus, path, &e->run.config.model, error)) return QKV_INVALID;
    if (qkv_corpus_encode(&e->corpus, &e->run.source, &e->run.target, error)) return QKV_INVALID;
    if (links && qkv_alignment_evaluate(&e->run, &e->corpus, links, &e->alignment, error)) return QKV_INVALID;
    e->workers = qkv_workers_new(threads, error);
    if (!e->workers) return QKV_INVALID;
    e->evaluator =
        qkv_evaluator_new(e->run.model, &e->corpus, &data->trg, &e->run.target, e->workers, testing, error);
    if (!e->evaluator || qkv_evaluator_run(e->evaluator, &e->scores, error)) return QKV_INVALID;
    return score_texts(e, error);
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
    texts_score_print(&e->texts);
    if (!e->alignment.count) return;
    putchar('\n');
    print_alignment(&e->alignment, stdout);
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
    texts_score_json(&e->texts, object);
    if (e->alignment.count) cJSON_AddItemToObject(object, "alignment", alignment_json(&e->alignment));
    char *text = cJSON_Print(object);
    puts(text ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(object);
}

static void close_evaluation(struct evaluation *e)
{
    texts_score_release(&e->texts);
    qkv_alignment_score_release(&e->alignment);
    qkv_evaluator_free(e->evaluator);
    qkv_workers_free(e->workers);
    qkv_corpus_release(&e->corpus);
    qkv_run_release(&e->run);
}

int command_evaluate(int argc, char **argv)
{
    struct evaluation e = {0};
    struct counting counting = COUNTING_DEFAULT;
    const char *checkpoint = NULL, *links = NULL;
    int64_t beam = 0, threads = 0;
    double alpha = -1;
    bool json = false;
    int operands;
    const struct argument arguments[] = {
        {"beam", 'k', "K", ARGUMENT_INTEGER, &beam, 1, 1000,
         "hypotheses per sentence; 1: greedy (default: testing.beam_size)"},
        {"length-penalty", 'a', "ALPHA", ARGUMENT_NUMBER, &alpha, 0, 10,
         "exponent of the length penalty (default: testing.beam_alpha)"},
        ARGUMENTS_COUNTING(&counting),
        {"links", 'l', "FILE", ARGUMENT_TEXT, &links, 0, 0,
         "gold word links (Pharaoh's 0-0 1-2, a line a pair): score the cross attention"},
        {"checkpoint", 0, "NAME", ARGUMENT_TEXT, &checkpoint, 0, 0,
         "file in the run folder (default: best, else last)"},
        {"threads", 'j', "N", ARGUMENT_INTEGER, &threads, 1, 1024,
         "threads (default: as many as the machine has)"},
        {"json", 0, NULL, ARGUMENT_FLAG, &json, 0, 0, "print one JSON object"},
        {0},
    };
    const struct usage usage = {
        .synopsis = "evaluate RUN TSV [options]",
        .description =
            "Scores a run on parallel text: x.tsv, x.tsv.gz, `-` for standard input, or the common prefix "
            "of\n"
            "two files.\n"
            "Loss and token accuracy are those of the given translations; sequence accuracy, BLEU\n"
            "and chrF those of the run's own.\n",
        .arguments = arguments,
        .examples =
            "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv\n"
            "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv --beam 5 --json\n"
            "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv --links datasets/en_es/test.align\n",
        .fewest = 2,
        .most = 2,
    };
    enum parsed parsed = arguments_parse(&usage, argc, argv, &operands);
    if (parsed != PARSED_RUN) return parsed == PARSED_HELP ? QKV_OK : QKV_INVALID;
    if (texts_score_init(&e.texts, &counting)) return QKV_INVALID;
    struct qkv_error error = {""};
    enum qkv_status status = qkv_run_open(&e.run, argv[1], checkpoint, QKV_FLOAT32, &error);
    if (!status) {
        struct qkv_testing_config testing = e.run.config.testing;
        if (beam) testing.beam_size = beam;
        if (alpha >= 0) testing.beam_alpha = alpha;
        status = evaluate(&e, argv[2], links, (int)threads, &testing, &error);
    }
    if (status)
        complain("%s", error.message);
    else if (json)
        print_json(&e);
    else
        print_table(&e);
    close_evaluation(&e);
    return (int)status;
}
