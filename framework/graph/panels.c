/* Panels: matrices of parameters in the order in which products go over them. A product of a few dozen rows,
 * as one step of decoding makes them, spends a tenth of its time on bringing its matrix into that order, the
 * same each time. */
#include "graph/graph.h"

#include "qkv/parameters.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A matrix in one of its two readings. */
struct copy {
    atomic_uint_fast64_t of; /* what parameters->changes was, plus 1; 0: not made yet */
    void *memory;
};

struct qkv_panels {
    const struct qkv_parameters *parameters;
    pthread_mutex_t mutex; /* of making one */
    char *block;           /* one for all, filled from its start: so it can stand on large pages */
    size_t size, used;
    struct copy copy[][2]; /* by parameter; as it stands, transposed */
};

/* Room for each matrix once, whatever the reading and the width of a panel: zeros behind the last column. */
static size_t room_for(const struct qkv_parameters *parameters)
{
    enum { WIDEST = 32, ALIGNMENT = 64 };
    size_t room = 0, number = qkv_dtype_size(parameters->dtype);
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_shape *shape = &parameters->list[i]->shape;
        if (shape->rank == 2)
            room += (size_t)((shape->size[0] + WIDEST) * (shape->size[1] + WIDEST)) * number + ALIGNMENT;
    }
    return room;
}

struct qkv_panels *qkv_panels_new(const struct qkv_parameters *parameters)
{
    struct qkv_panels *panels =
        calloc(1, sizeof *panels + (size_t)parameters->count * sizeof panels->copy[0]);
    if (!panels) return NULL;
    panels->parameters = parameters;
    panels->size = room_for(parameters);
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

/* NULL where there is no room: if many matrices are wanted in both readings. */
static void *take(struct qkv_panels *panels, size_t bytes)
{
    size_t whole = (bytes + 63) / 64 * 64;
    if (whole > panels->size - panels->used) return NULL;
    panels->used += whole;
    return panels->block + panels->used - whole;
}

const void *qkv_panels_of(const struct qkv_tensor *weight, bool transposed, size_t bytes,
                          void (*make)(const struct qkv_tensor *weight, bool transposed, void *panels))
{
    struct qkv_panels *panels = weight->graph->panels;
    if (!panels || !weight->parameter) return NULL;
    struct copy *copy = &panels->copy[weight->parameter->index][transposed];
    uint64_t wanted = panels->parameters->changes + 1;
    if (atomic_load_explicit(&copy->of, memory_order_acquire) == wanted) return copy->memory;
    pthread_mutex_lock(&panels->mutex);
    if (!copy->memory) copy->memory = take(panels, bytes);
    if (copy->memory && atomic_load_explicit(&copy->of, memory_order_relaxed) != wanted) {
        make(weight, transposed, copy->memory);
        atomic_store_explicit(&copy->of, wanted, memory_order_release);
    }
    pthread_mutex_unlock(&panels->mutex);
    return copy->memory;
}
