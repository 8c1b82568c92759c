#include "run_processes.h"
#include "data/corpus.h"

#include "search_options.h"

#include <zlib.h>

enum qkv_status join_processes(const struct command *command, struct qkv_processes **processes)
{
    struct qkv_error error = {""};
    struct qkv_handshake handshake = {0};
    enum qkv_status status = qkv_processes_join(processes, &error);
    if (!status && *processes) {
        qkv_handshake_add(&handshake, "the command", "%s", command->name);
        status = qkv_handshake(*processes, &handshake, QKV_OK, &error);
    }
    if (!status) return QKV_OK;
    conclude(status, &error);
    qkv_processes_leave(*processes);
    return status;
}

static uLong add_text(uLong sum, const char *text)
{
    return crc32_z(sum, (const Bytef *)text, strlen(text) + 1);
}

/* A checksum of everything that the models compute with: parameters, silent heads and precisions. */
static uint32_t sum_models(struct qkv_ensemble models)
{
    uLong sum = 0;
    for (int64_t i = 0; i < models.count; i++) {
        const struct qkv_model *model = models.models[i];
        const struct qkv_parameters *parameters = &model->parameters;
        size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
        char silent[1024];
        const char *precision = narrow_precision(model);
        sum = crc32_z(sum, parameters->values, size);
        sum = add_text(sum, list_silent_heads(model, silent, sizeof silent));
        sum = add_text(sum, precision ? precision : "");
    }
    return (uint32_t)sum;
}

static uint32_t sum_options(const struct opened_run *opened)
{
    const struct qkv_search_options *search = &opened->search;
    const struct qkv_sampling_options *sampling = &search->sampling;
    char text[512];
    snprintf(text, sizeof text, "%lld %.17g %lld %lld %.17g %.17g %d %d %lld %lld %.17g %d %lld",
             (long long)search->beam_size, search->beam_alpha, (long long)search->n_best,
             (long long)search->max_output_length, search->length_limit[0], search->length_limit[1],
             search->skip_scores, (int)search->length_penalty, (long long)search->min_output_length,
             (long long)search->no_repeat_ngram, search->repetition_penalty, search->allow_unknown,
             (long long)opened->batch_size);
    uLong sum = add_text(0, text);
    if (!sampling->enabled) return (uint32_t)sum;
    snprintf(text, sizeof text, "%.17g %lld %.17g %llu", sampling->temperature, (long long)sampling->top_k,
             sampling->top_p, (unsigned long long)sampling->seed);
    return (uint32_t)add_text(sum, text);
}

static void describe(const struct opened_run *opened, struct qkv_handshake *handshake)
{
    qkv_handshake_add_build(handshake);
    qkv_handshake_add_checksum(handshake, "the model", sum_models(opened->models));
    qkv_handshake_add_checksum(handshake, "the source vocabulary",
                               qkv_vocabulary_checksum(&opened->run->source));
    qkv_handshake_add_checksum(handshake, "the target vocabulary",
                               qkv_vocabulary_checksum(&opened->run->target));
    qkv_handshake_add_checksum(handshake, "options and keys of testing", sum_options(opened));
    if (!opened->text) return;
    qkv_handshake_add(handshake, "--no-translation", "%s", opened->no_translation ? "given" : "not given");
    qkv_handshake_add(handshake, "the text", "%lld pairs, checksum %08lx", (long long)opened->text->count,
                      (unsigned long)qkv_corpus_checksum(opened->text));
}

enum qkv_status agree_on_run(struct qkv_processes *processes, const struct opened_run *opened,
                             enum qkv_status status, struct qkv_error *error)
{
    if (!processes) return status;
    struct qkv_handshake handshake = {0};
    if (!status) describe(opened, &handshake);
    return qkv_handshake(processes, &handshake, status, error);
}

int threads_of(const struct qkv_processes *processes, int64_t threads)
{
    return threads ? (int)threads : qkv_processes_threads(processes);
}
