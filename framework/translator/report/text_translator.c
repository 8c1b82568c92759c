/* A trained run behind one pointer: text in, translation and attention maps out. */
#include "core/choices.h"
#include "core/memory.h"

#include "report/collect.h"

struct qkv_text_translator {
    struct qkv_run run;
    struct qkv_sentence source;
    struct qkv_translator *translator;
    struct qkv_attention_collector *collector; /* NULL until maps are asked for */
    struct qkv_attention_pair pair;            /* the last translation, */
    bool has_pair;                             /* if it succeeded */
    struct qkv_attention_report report;
    struct qkv_arena arena; /* texts of the last translation */
};

struct qkv_text_translator *qkv_text_translator_open(const char *folder, const char *checkpoint,
                                                     struct qkv_error *error)
{
    struct qkv_text_translator *t = calloc(1, sizeof *t);
    if (!t) {
        qkv_no_memory(error);
        return NULL;
    }
    if (qkv_run_open(&t->run, folder, checkpoint, QKV_FLOAT32, error)) {
        free(t);
        return NULL;
    }
    if (!t->run.sides.has_source)
        qkv_error_set(error, "%s: is a language model, which does not translate", folder);
    else if ((t->translator = qkv_translator_new(t->run.model, NULL, error)))
        return t;
    qkv_text_translator_free(t);
    return NULL;
}

const char *qkv_text_translator_run(struct qkv_text_translator *t, const char *text, int64_t beam_size,
                                    struct qkv_error *error)
{
    t->has_pair = false;
    struct qkv_search_options options = qkv_search_options_from_config(&t->run.config.testing);
    if (beam_size) options.beam_size = beam_size;
    if (qkv_user_sentence_encode(&t->source, &t->run, false, "the sentence", text, error)) return NULL;
    qkv_arena_reset(&t->arena); /* not before: `text` may be the last translation */
    const struct qkv_ids source = {t->source.tokens.count, t->source.ids};
    const struct qkv_hypothesis *best;
    if (qkv_translator_run(t->translator, 1, &source, 1, &options, &best, error)) return NULL;
    const char **tokens = qkv_vocabulary_tokens(&t->run.target, best->length, best->ids, &t->arena);
    const char *translation =
        tokens ? qkv_detokenize(&t->run.config.data.trg, best->length, tokens, &t->arena) : NULL;
    if (!translation) {
        qkv_no_memory(error);
        return NULL;
    }
    t->pair = (struct qkv_attention_pair){
        .source = source,
        .target = {best->length, best->ids},
        .source_tokens = t->source.tokens.token,
        .target_tokens = tokens,
        .unfinished = !best->finished,
    };
    t->has_pair = true;
    return translation;
}

const struct qkv_attention_report *qkv_text_translator_attention(struct qkv_text_translator *t,
                                                                 unsigned kinds, struct qkv_error *error)
{
    if (!t->has_pair) {
        qkv_error_set(error, "there is no translation to show the attention of: call "
                             "qkv_text_translator_run first");
        return NULL;
    }
    if (!t->collector) t->collector = qkv_attention_collector_new(t->run.model, error);
    if (!t->collector || qkv_attention_collect(t->collector, 1, &t->pair, kinds, &t->report, error))
        return NULL;
    const enum qkv_precision precision = t->run.model->parameters.products;
    t->report.model = t->run.config.name;
    t->report.precision = precision == QKV_PRECISION_FLOAT32 ? NULL : qkv_precision_name(precision);
    return &t->report;
}

void qkv_text_translator_free(struct qkv_text_translator *t)
{
    if (!t) return;
    qkv_attention_collector_free(t->collector);
    qkv_translator_free(t->translator);
    qkv_sentence_release(&t->source);
    qkv_run_release(&t->run);
    qkv_arena_release(&t->arena);
    free(t);
}
