/* Arrays that grow, in amortised constant time per element. */
#ifndef QKV_CORE_GROW_H
#define QKV_CORE_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Reallocates an array for at least `wanted` elements and at least half as many again as before. When memory is
 * out, frees the array, sets `capacity` to 0 and returns NULL: the caller must then forget its elements. */
static inline void *qkv_grow(void *array, int64_t *capacity, int64_t wanted, size_t element_size)
{
    int64_t larger = *capacity + *capacity / 2 + 16;
    if (larger < wanted) larger = wanted;
    void *grown =
        (uint64_t)larger > SIZE_MAX / 2 / element_size ? NULL : realloc(array, (size_t)larger * element_size);
    if (!grown) free(array);
    *capacity = grown ? larger : 0;
    return grown;
}

/* True when `array` has memory for `wanted` elements; grows `array` and `capacity` if necessary. */
#define QKV_RESERVE(array, capacity, wanted)                                                                 \
    ((wanted) <= (capacity) || ((array) = qkv_grow((array), &(capacity), (wanted), sizeof *(array))) != NULL)

#endif
