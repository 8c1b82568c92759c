#include "sentence_pair.h"
#include "open_run.h"

#include "output_options.h"
#include "search_options.h"
#include "text_notes.h"

#include "report/collect.h"

NAME_LISTER(versus_name, index == 0 ? "random" : NULL);

enum qkv_status sentence_pair_open(struct sentence_pair *v, const char *run,
                                   const struct sentence_pair_options *options, enum qkv_dtype dtype,
                                   struct qkv_error *error)
{
    *v = (struct sentence_pair){.options = options};
    if (options->target && options->beam)
        return qkv_error_set(
            error, "--target and --beam exclude each other: a given translation is not searched for");
    enum qkv_status status = open_run(&v->run, run, options->checkpoint, dtype, NULL, error);
    if (!status && !v->run.sides.has_source && (options->target || options->beam))
        return qkv_error_set(
            error, "%s: is a language model, which does not translate: leave out --target and --beam", run);
    if (!status) status = silence_heads(v->run.model, &options->without, error);
    return status ? status : set_precision(v->run.model, options->precision, error);
}

/* Reads the next line of standard input that is not blank. */
static enum qkv_status read_line(struct sentence_pair *v, struct qkv_error *error)
{
    do
        if (qkv_lines_next(&v->lines, &v->has_next, error)) return QKV_INVALID;
    while (v->has_next && strspn(v->lines.line, " \t\r") == v->lines.size);
    return QKV_OK;
}

/* Sets the source to the next line of standard input, and v->number unless it is the only one. */
static enum qkv_status next_line(struct sentence_pair *v, bool *found, struct qkv_error *error)
{
    bool first = !v->lines.path;
    if (first && (qkv_lines_open(&v->lines, "-", error) || read_line(v, error))) return QKV_INVALID;
    *found = v->has_next;
    if (first && !*found) return qkv_error_set(error, "<stdin>: the input is empty: a sentence is missing");
    if (!*found) return QKV_OK;
    if (*v->late.message) return qkv_error_set(error, "%s", v->late.message);
    int64_t number = v->lines.number;
    v->source_text = TEXT_IN(&v->arena, "%s", v->lines.line);
    if (read_line(v, &v->late)) v->has_next = true; /* the error is reported after the present line */
    v->number = first && !v->has_next ? 0 : number;
    return QKV_OK;
}

/* Encodes a sentence of the user; messages call it `what`. */
static enum qkv_status encode(const struct sentence_pair *v, const char *what, const char *text, bool target,
                              struct qkv_sentence *sentence, struct qkv_error *error)
{
    if (qkv_user_sentence_encode(sentence, &v->run, target, what, text, error)) return QKV_INVALID;
    if (v->options->quiet) return QKV_OK;
    warn_of_unknown_words(what, sentence, &v->run, target, NULL);
    if (!target && sentence->unknown && qkv_path_exists(text))
        print_error(
            "%s is read as a sentence, but is a file; to read its lines, give - as the sentence, and <%s",
            text, text);
    return QKV_OK;
}

/* Translates the source, and sets the target to the translation. */
static enum qkv_status translate(struct sentence_pair *v, struct qkv_error *error)
{
    struct qkv_search_options options = qkv_search_options_from_config(&v->run.config.testing);
    if (v->options->beam) options.beam_size = v->options->beam;
    const struct qkv_hypothesis *best;
    if (!v->translator) v->translator = qkv_translator_new(v->run.model, NULL, error);
    if (!v->translator) return QKV_INVALID;
    enum qkv_status status = qkv_translator_run(v->translator, 1, &v->pair.source, 1, &options, &best, error);
    if (status) return status;
    const char **tokens =
        required((void *)qkv_vocabulary_tokens(&v->run.target, best->length, best->ids, &v->arena));
    v->pair.target = (struct qkv_ids){best->length, best->ids};
    v->pair.target_tokens = tokens;
    v->pair.unfinished = !best->finished;
    v->target_text = required(qkv_detokenize(&v->run.config.data.trg, best->length, tokens, &v->arena));
    v->words.target =
        required((void *)qkv_token_words(&v->run.config.data.trg, best->length, tokens, &v->arena));
    if (v->options->quiet) return QKV_OK;
    print_plain(stderr, v->target_text);
    fputs(best->finished ? "\n" : " (incomplete: stopped at the longest output)\n", stderr);
    return QKV_OK;
}

/* Sets the target, and its text. */
static enum qkv_status set_target(struct sentence_pair *v, const char *what, const char *text,
                                  struct qkv_error *error)
{
    if (encode(v, what, text, true, &v->target, error)) return QKV_INVALID;
    v->pair.target = (struct qkv_ids){v->target.tokens.count, v->target.ids};
    v->pair.target_tokens = v->target.tokens.token;
    v->words.target = v->target.tokens.word;
    v->target_text = text;
    return QKV_OK;
}

/* Sets the target to the text of a language model. */
static enum qkv_status set_text(struct sentence_pair *v, const char *what, struct qkv_error *error)
{
    if (strchr(v->source_text, '\n'))
        return qkv_error_set(error, "%s has several lines: give one, or - to read them one by one", what);
    if (set_target(v, what, v->source_text, error)) return QKV_INVALID;
    static const int32_t END = QKV_END;
    v->pair.before = v->run.sides.runs_on ? &END : NULL;
    v->pair.vocabulary = &v->run.target;
    v->target_text = "";
    return QKV_OK;
}

enum qkv_status sentence_pair_next(struct sentence_pair *v, const char *sentence, bool *found,
                                   struct qkv_error *error)
{
    const char *target = v->options->target, *what = "the sentence";
    qkv_arena_reset(&v->arena);
    v->pair = (struct qkv_attention_pair){0};
    if (!strcmp(sentence, "-")) {
        if (next_line(v, found, error)) return QKV_INVALID;
        if (*found && v->number)
            what = TEXT_IN(&v->arena, "<stdin>:%lld: the sentence", (long long)v->number);
    } else {
        *found = v->source_text != sentence;
        v->source_text = sentence;
    }
    if (!*found) return QKV_OK;
    if (!v->run.sides.has_source) return set_text(v, what, error);
    if (encode(v, what, v->source_text, false, &v->source, error)) return QKV_INVALID;
    v->pair.source = (struct qkv_ids){v->source.tokens.count, v->source.ids};
    v->pair.source_tokens = v->source.tokens.token;
    v->words.source = v->source.tokens.word;
    if (!target) return translate(v, error);
    if (v->number)
        return qkv_error_set(error, "--target is the translation of one sentence, but <stdin> has several");
    return set_target(v, "--target", target, error);
}

const struct qkv_model *sentence_pair_untrained(struct sentence_pair *v, struct qkv_error *error)
{
    const struct qkv_model *trained = v->run.model;
    struct qkv_model *model = v->untrained;
    if (model) return model;
    v->untrained = model = qkv_model_new(&trained->config, trained->source_size, trained->target_size,
                                         trained->parameters.dtype, error);
    if (!model) return NULL;
    qkv_parameters_initialize(&model->parameters, (uint64_t)v->run.config.training.random_seed);
    for (int64_t i = 0; i < qkv_model_head_count(model); i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        qkv_model_ablate(model, head, qkv_model_is_ablated(trained, head));
    }
    return model;
}

struct qkv_attention_collector *sentence_pair_collector(struct sentence_pair *v, bool untrained, bool norms,
                                                        struct qkv_error *error)
{
    const struct qkv_model *model = untrained ? sentence_pair_untrained(v, error) : v->run.model;
    struct qkv_attention_collector *collector = v->collector[untrained];
    if (collector || !model) return collector;
    v->collector[untrained] = collector = qkv_attention_collector_new(model, error);
    if (collector) qkv_attention_collector_measure_norms(collector, norms);
    return collector;
}

const char *sentence_pair_title(struct sentence_pair *v)
{
    return attention_title(v->run.model, v->source_text, *v->target_text ? v->target_text : NULL, &v->arena);
}

void sentence_pair_close(struct sentence_pair *v)
{
    qkv_translator_free(v->translator);
    for (int i = 0; i < 2; i++) qkv_attention_collector_free(v->collector[i]);
    qkv_model_free(v->untrained);
    qkv_sentence_release(&v->source);
    qkv_sentence_release(&v->target);
    if (v->run.model) qkv_run_release(&v->run);
    qkv_arena_release(&v->arena);
    qkv_lines_close(&v->lines);
}
