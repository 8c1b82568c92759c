#include "search_options.h"

#include <string.h>

const char *length_penalty_name(const void *context, int64_t index)
{
    (void)context;
    return index <= QKV_LENGTH_PENALTY_NONE ? qkv_length_penalty_name((enum qkv_length_penalty)index) : NULL;
}

enum qkv_status search_options_apply(const struct search_options *options, struct qkv_testing_config *testing,
                                     struct qkv_error *error)
{
    for (int64_t i = 0; options->length_penalty && length_penalty_name(NULL, i); i++)
        if (!strcmp(options->length_penalty, length_penalty_name(NULL, i)))
            testing->length_penalty = (enum qkv_length_penalty)i;
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
