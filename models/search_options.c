#include "qkv/search.h"

#include <math.h>

struct qkv_search_options qkv_search_options_from_config(const struct qkv_testing_config *testing)
{
    return (struct qkv_search_options){.beam_size = testing->beam_size,
                                       .beam_alpha = testing->beam_alpha,
                                       .n_best = 1,
                                       .max_output_length = testing->max_output_length,
                                       .skip_scores = true,
                                       .length_penalty = testing->length_penalty,
                                       .min_output_length = testing->min_output_length,
                                       .no_repeat_ngram = testing->no_repeat_ngram,
                                       .repetition_penalty = testing->repetition_penalty};
}

static enum qkv_status check_constraints(const struct qkv_search_options *options, struct qkv_error *error)
{
    double penalty = options->repetition_penalty;
    if (options->max_output_length < 0)
        return qkv_error_set(error, "max_output_length is %lld, but must be 0 or more",
                             (long long)options->max_output_length);
    if (options->min_output_length < 0)
        return qkv_error_set(error, "min_output_length is %lld, but must be 0 or more",
                             (long long)options->min_output_length);
    if (options->max_output_length && options->min_output_length > options->max_output_length)
        return qkv_error_set(error, "min_output_length is %lld, but must not exceed max_output_length (%lld)",
                             (long long)options->min_output_length, (long long)options->max_output_length);
    if (options->no_repeat_ngram < 0)
        return qkv_error_set(error, "no_repeat_ngram is %lld, but must be 0 or more",
                             (long long)options->no_repeat_ngram);
    if (penalty >= 0 && penalty <= QKV_REPETITION_PENALTY_MAX) return QKV_OK;
    return qkv_error_set(error, "repetition_penalty is %g, but must be between 0 and %d", penalty,
                         QKV_REPETITION_PENALTY_MAX);
}

static enum qkv_status check_sampling(const struct qkv_search_options *options, struct qkv_error *error)
{
    const struct qkv_sampling_options *sampling = &options->sampling;
    if (options->beam_size != 1)
        return qkv_error_set(error, "samples have no beam: beam_size is %lld, but must be 1",
                             (long long)options->beam_size);
    if (options->n_best < 1 || options->n_best > QKV_BEAM_MAX)
        return qkv_error_set(error, "n_best is %lld, but must be between 1 and %d",
                             (long long)options->n_best, QKV_BEAM_MAX);
    if (!(sampling->temperature > 0) || !isfinite(sampling->temperature))
        return qkv_error_set(error, "temperature is %g, but must be above 0, and finite",
                             sampling->temperature);
    if (sampling->top_k < 0)
        return qkv_error_set(error, "top_k is %lld, but must be 0 or more", (long long)sampling->top_k);
    if (sampling->top_p > 0 && sampling->top_p <= 1) return QKV_OK;
    return qkv_error_set(error, "top_p is %g, but must be above 0, and at most 1", sampling->top_p);
}

enum qkv_status qkv_search_options_check(const struct qkv_search_options *options, struct qkv_error *error)
{
    if (options->sampling.enabled && check_sampling(options, error)) return QKV_INVALID;
    if (options->beam_size < 1 || options->beam_size > QKV_BEAM_MAX)
        return qkv_error_set(error, "beam_size is %lld, but must be between 1 and %d",
                             (long long)options->beam_size, QKV_BEAM_MAX);
    if (!options->sampling.enabled && (options->n_best < 1 || options->n_best > options->beam_size))
        return qkv_error_set(error, "n_best is %lld, but must be between 1 and beam_size (%lld)",
                             (long long)options->n_best, (long long)options->beam_size);
    if (!(options->beam_alpha >= 0) || !isfinite(options->beam_alpha))
        return qkv_error_set(error, "beam_alpha is %g, but must be 0 or more, and finite",
                             options->beam_alpha);
    if ((int)options->length_penalty < 0 || options->length_penalty > QKV_LENGTH_PENALTY_NONE)
        return qkv_error_set(error, "there is no length penalty of kind %d", (int)options->length_penalty);
    return check_constraints(options, error);
}
