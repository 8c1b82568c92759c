/* The measurement of translating: greedy and beam search. */
#include "bench.h"
#include "core/system.h"
#include "search_options.h"

enum { TRANSLATED_TOGETHER = 32, MOST_SENTENCES = 64 };

struct translation {
    struct qkv_search_options options;
    int64_t count;
    int32_t *words;
    struct qkv_ids sources[MOST_SENTENCES];
    struct qkv_workers *workers;
    struct qkv_translator *translator;
};

static enum qkv_status translate_step(void *context, int64_t i, struct qkv_error *error)
{
    struct translation *t = context;
    (void)i;
    const struct qkv_hypothesis *best;
    return qkv_translator_run(t->translator, t->count, t->sources, TRANSLATED_TOGETHER, &t->options, &best,
                              error);
}

static enum qkv_status translation_make(struct translation *t, const struct bench_work *work,
                                        int64_t sentences, int64_t beam, const struct bench_options *options,
                                        struct qkv_error *error)
{
    struct qkv_model *model = work->training.model;
    const int64_t length = bench_work_length(work);
    *t = (struct translation){.count = sentences, .workers = qkv_workers_new((int)options->threads, error)};
    if (!t->workers || set_precision(model, options->precision, error)) return QKV_INVALID;
    t->words = bench_random_words(work, sentences * length, 0);
    for (int64_t i = 0; i < sentences; i++) t->sources[i] = (struct qkv_ids){length, t->words + i * length};
    t->translator = qkv_translator_new(model, t->workers, error);
    if (!t->translator) return QKV_INVALID;
    /* Translations have as many tokens as the source: the bias makes the model never output
     * </s>. */
    t->options = (struct qkv_search_options){beam, 0, 1, length, true};
    ((float *)model->parameters.values)[model->output_bias->offset + QKV_END] = -1e9f;
    return QKV_OK;
}

enum qkv_status bench_decode(struct bench_work *work, const struct bench_options *options,
                             struct bench_report *report, struct qkv_error *error)
{
    static const struct {
        const char *name;
        int64_t beam, sentences;
    } kinds[] = {{"greedy 1", 1, 1}, {"greedy 64", 1, 64}, {"beam 1", 4, 1}, {"beam 64", 4, 64}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !status; i++) {
        struct translation t;
        struct bench_result result = {.name = kinds[i].name};
        status = translation_make(&t, work, kinds[i].sentences, kinds[i].beam, options, error);
        if (!status) status = bench_time(options, &result, translate_step, &t, error);
        if (!status) {
            result.threads = qkv_workers_count(t.workers);
            result.tokens = (double)(kinds[i].sentences * (t.options.max_output_length + 1));
            bench_report_result(report, work, &result);
        }
        qkv_translator_free(t.translator);
        qkv_workers_free(t.workers);
        free(t.words);
    }
    return status;
}
