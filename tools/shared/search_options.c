#include "search_options.h"
#include "core/choices.h"
#include "data/corpus.h"

#include "config/config_keys.h"

/* ---- --precision ---- */

NAME_LISTER(precision_name, qkv_precision_name((enum qkv_precision)index));

enum qkv_status set_precision(struct qkv_model *model, const char *name, struct qkv_error *error)
{
    enum qkv_precision precision;
    if (!name) return QKV_OK;
    if (!qkv_precision_find(name, &precision)) return qkv_error_set(error, "there is no precision %s", name);
    return qkv_parameters_set_precision(&model->parameters, precision, error);
}

const char *narrow_precision(const struct qkv_model *model)
{
    enum qkv_precision precision = model->parameters.products;
    return precision == QKV_PRECISION_FLOAT32 ? NULL : qkv_precision_name(precision);
}

/* ---- --with ---- */

/* Refuses vocabularies that differ; the message names the first difference. */
static enum qkv_status compare_vocabularies(const struct qkv_run *run, const struct qkv_run *first,
                                            bool target, struct qkv_error *error)
{
    const struct qkv_vocabulary *actual = target ? &run->target : &run->source;
    const struct qkv_vocabulary *expected = target ? &first->target : &first->source;
    const char *side = target ? "target" : "source";
    int32_t id = qkv_vocabulary_difference(actual, expected);
    if (id < 0) return QKV_OK;
    if (id >= actual->size || id >= expected->size) {
        bool shorter = id >= actual->size;
        return qkv_error_set(
            error,
            "%s: cannot translate together with %s: its %s vocabulary has %d entries instead "
            "of %d; '%s' is only in that of %s",
            run->path, first->path, side, (int)actual->size, (int)expected->size,
            qkv_vocabulary_token(shorter ? expected : actual, id), shorter ? first->path : run->path);
    }
    return qkv_error_set(
        error, "%s: cannot translate together with %s: entry %d of its %s vocabulary is '%s' instead of '%s'",
        run->path, first->path, (int)id, side, qkv_vocabulary_token(actual, id),
        qkv_vocabulary_token(expected, id));
}

/* path: of the run; NULL: the first. */
static void add_model(struct ensemble *ensemble, const struct qkv_model *model, const char *path)
{
    int64_t source = qkv_max_length(&model->config, false), target = qkv_max_length(&model->config, true);
    if (!ensemble->models.count || source < ensemble->longest_source) {
        ensemble->longest_source = source;
        ensemble->shortest_run = path;
    }
    if (!ensemble->models.count || target < ensemble->longest_target) ensemble->longest_target = target;
    ensemble->model[ensemble->models.count++] = model;
}

enum qkv_status ensemble_open(struct ensemble *ensemble, const struct qkv_run *first,
                              const struct option_list *with, const char *precision, struct qkv_error *error)
{
    size_t count = (size_t)with->count;
    *ensemble = (struct ensemble){0};
    ensemble->others = required(calloc(count + 1, sizeof *ensemble->others));
    ensemble->model = required(calloc(count + 1, sizeof(const struct qkv_model *)));
    ensemble->models.models = ensemble->model;
    add_model(ensemble, first->model, NULL);
    for (int i = 0; i < with->count; i++) {
        struct qkv_run *run = &ensemble->others[i];
        enum qkv_status status = qkv_run_open(run, with->value[i], NULL, QKV_FLOAT32, error);
        if (status) return status;
        add_model(ensemble, run->model, with->value[i]); /* from here on, ensemble_close releases it */
        if (run->config.data.text != first->config.data.text)
            return qkv_error_set(error, "%s: data.text is %s, but of %s it is %s", run->path,
                                 qkv_text_form_name(run->config.data.text), first->path,
                                 qkv_text_form_name(first->config.data.text));
        if (set_precision(run->model, precision, error)) return QKV_INVALID;
        if (compare_vocabularies(run, first, false, error) || compare_vocabularies(run, first, true, error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

void ensemble_close(struct ensemble *ensemble)
{
    for (int64_t i = 0; i + 1 < ensemble->models.count; i++) qkv_run_release(&ensemble->others[i]);
    free(ensemble->others);
    free(ensemble->model);
    *ensemble = (struct ensemble){0};
}

/* ---- search ---- */

NAME_LISTER(length_penalty_name, index <= QKV_LENGTH_PENALTY_NONE
                                     ? qkv_length_penalty_name((enum qkv_length_penalty)index)
                                     : NULL);

void note_cut(int64_t cut, int64_t count)
{
    if (cut)
        print_error("note: %lld of %lld translations ended at the limit of their length, and may be cut: "
                    "--max-length N raises it",
                    (long long)cut, (long long)count);
}

enum qkv_status search_options_apply(const struct search_options *options, struct qkv_testing_config *testing,
                                     struct qkv_error *error)
{
    testing->length_penalty = (enum qkv_length_penalty)choice_index(
        options->length_penalty, length_penalty_name, (int)testing->length_penalty);
    if (options->beam) testing->beam_size = options->beam;
    if (options->beam_alpha >= 0) testing->beam_alpha = options->beam_alpha;
    if (options->max_length) testing->max_output_length = options->max_length;
    if (options->min_length >= 0) testing->min_output_length = options->min_length;
    if (options->no_repeat_ngram >= 0) testing->no_repeat_ngram = options->no_repeat_ngram;
    if (options->repetition_penalty >= 0) testing->repetition_penalty = options->repetition_penalty;
    if (options->with.count && options->without.count)
        return qkv_error_set(error,
                             "--with and --without exclude each other: heads of several runs cannot be told "
                             "apart");
    if (options->beam_alpha >= 0 && testing->length_penalty != QKV_LENGTH_PENALTY_WU)
        return qkv_error_set(error,
                             "--beam-alpha is the exponent of the length penalty wu, but the length "
                             "penalty is %s: use --length-penalty wu",
                             qkv_length_penalty_name(testing->length_penalty));
    if (testing->max_output_length && testing->min_output_length > testing->max_output_length)
        return qkv_error_set(error,
                             "the shortest translation is %lld tokens, but the longest is %lld: change "
                             "--min-length or --max-length",
                             (long long)testing->min_output_length, (long long)testing->max_output_length);
    return QKV_OK;
}

enum qkv_status sampling_options_apply(const struct sampling_options *o,
                                       struct qkv_sampling_options *sampling, struct qkv_error *error)
{
    const char *name = o->temperature > 0 ? "temperature"
                       : o->top_k >= 0    ? "top-k"
                       : o->top_p > 0     ? "top-p"
                       : o->seed >= 0     ? "seed"
                                          : NULL;
    if (!o->sample) return name ? qkv_error_set(error, "--%s is for sampling: add --sample", name) : QKV_OK;
    *sampling = (struct qkv_sampling_options){.enabled = true,
                                              .temperature = o->temperature > 0 ? o->temperature : 1,
                                              .top_k = o->top_k > 0 ? o->top_k : 0,
                                              .top_p = o->top_p > 0 ? o->top_p : 1,
                                              .seed = o->seed >= 0 ? (uint64_t)o->seed : 42};
    return QKV_OK;
}
