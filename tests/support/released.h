/* Variables that release themselves: for tests and for fuzz targets. */
#pragma once

#include <stdlib.h>

/* Says where a variable is declared what releases it when it goes out of scope:
 *
 *     struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
 *     struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
 */
#define RELEASED(function) __attribute__((cleanup(function), unused))

/* Defines free_graph and so on. */
#define FREE(type)                                                                                           \
    struct qkv_##type;                                                                                       \
    void qkv_##type##_free(struct qkv_##type *);                                                             \
    static inline void free_##type(struct qkv_##type **variable)                                             \
    {                                                                                                        \
        qkv_##type##_free(*variable);                                                                        \
    }
FREE(aligner)
FREE(attention_collector)
FREE(bootstrap)
FREE(bpe)
FREE(data_parallel)
FREE(decoding)
FREE(evaluator)
FREE(gradient_pair)
FREE(graph)
FREE(model)
FREE(panels)
FREE(text_translator)
FREE(translator)
FREE(workers)
#undef FREE

struct cJSON;
void cJSON_Delete(struct cJSON *);
static inline void free_json(struct cJSON **variable)
{
    cJSON_Delete(*variable);
}

/* For pointers of any type to memory of malloc. */
static inline void free_memory(void *variable)
{
    free(*(void **)variable);
}
