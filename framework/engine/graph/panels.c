/* Panels: copies of parameter matrices in the order in which products read them. A panel is a strip of a few
 * neighbouring columns, stored row after row. Without these copies a product of a few dozen rows, as in a step of
 * decoding, would spend a tenth of its time on copying the same matrix again. */
#include "graph/graph.h"

#include "core/memory.h"
#include "graph/internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A packed matrix, transposed or not. */
struct copy {
    atomic_uint_fast64_t version; /* parameters->changes + 1 when it was packed; 0: never */
    void *memory;
    size_t size; /* of the memory, bytes */
};

struct qkv_panels {
    const struct qkv_parameters *parameters;
    pthread_mutex_t mutex; /* held while packing */
    char *block;           /* memory of all copies: one block, so that it can use huge pages */
    size_t size, used;     /* of the block, bytes */
    struct copy copy[][2]; /* [parameter][transposed] */
};

/* Bytes for one copy of each matrix, for any panel width: panels are padded with zeros. */
static size_t bytes_for(const struct qkv_parameters *parameters)
{
    enum { WIDEST_PANEL = 32, ALIGNMENT = 64 };
    size_t bytes = 0, number = qkv_dtype_size(parameters->dtype);
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_shape *shape = &parameters->list[i]->shape;
        if (shape->rank == 2)
            bytes += (size_t)((shape->size[0] + WIDEST_PANEL) * (shape->size[1] + WIDEST_PANEL)) * number +
                     ALIGNMENT;
    }
    return bytes;
}

struct qkv_panels *qkv_panels_new(const struct qkv_parameters *parameters)
{
    if (!parameters->values) return NULL; /* more parameters may still be declared */
    struct qkv_panels *panels =
        calloc(1, sizeof *panels + (size_t)parameters->count * sizeof panels->copy[0]);
    if (!panels) return NULL;
    panels->parameters = parameters;
    panels->size = bytes_for(parameters);
    panels->block = qkv_block_new(panels->size, panels->size);
    if (!panels->block) {
        free(panels);
        return NULL;
    }
    pthread_mutex_init(&panels->mutex, NULL);
    return panels;
}

void qkv_panels_free(struct qkv_panels *panels)
{
    if (!panels) return;
    pthread_mutex_destroy(&panels->mutex);
    qkv_block_free(panels->block, panels->size);
    free(panels);
}

void qkv_graph_set_panels(struct qkv_graph *graph, struct qkv_panels *panels)
{
    graph->panels = panels;
}

/* Memory for a copy; NULL when the block is full. It has room for one copy of each matrix, so it
 * fills up when many matrices are used both transposed and not. */
static void *allocate_copy(struct qkv_panels *panels, size_t bytes)
{
    size_t aligned = (bytes + 63) / 64 * 64;
    if (aligned > panels->size - panels->used) return NULL;
    panels->used += aligned;
    return panels->block + panels->used - aligned;
}

const void *qkv_panels_of(const struct qkv_tensor *weight, bool transposed, size_t bytes,
                          void (*pack)(const struct qkv_tensor *weight, bool transposed, void *panels))
{
    struct qkv_panels *panels = weight->graph->panels;
    if (!panels || !weight->binding || weight->binding->parameters != panels->parameters) return NULL;
    struct copy *copy = &panels->copy[weight->parameter->index][transposed];
    uint64_t version = panels->parameters->changes + 1;
    if (atomic_load_explicit(&copy->version, memory_order_acquire) == version) return copy->memory;
    pthread_mutex_lock(&panels->mutex);
    if (copy->size < bytes) { /* the precision of products may have changed */
        copy->memory = allocate_copy(panels, bytes);
        copy->size = copy->memory ? bytes : 0;
    }
    if (copy->memory && atomic_load_explicit(&copy->version, memory_order_relaxed) != version) {
        pack(weight, transposed, copy->memory);
        atomic_store_explicit(&copy->version, version, memory_order_release);
    }
    pthread_mutex_unlock(&panels->mutex);
    return copy->memory;
}
