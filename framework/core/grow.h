/* Arrays that grow. */
#ifndef QKV_DATA_GROW_H
#define QKV_DATA_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for `wanted` units, at least half as many again as there was, so that adding one by one stays
 * linear. When there is no memory the old array is freed and `room` becomes 0: no half-valid state is left.
 */
static inline void *qkv_grow(void *memory, int64_t *room, int64_t wanted, size_t unit)
{
    int64_t more = *room + *room / 2 + 16;
    if (more < wanted) more = wanted;
    void *grown = (uint64_t)more > SIZE_MAX / 2 / unit ? NULL : realloc(memory, (size_t)more * unit);
    if (!grown) free(memory);
    *room = grown ? more : 0;
    return grown;
}

/* True when `array` has room for `wanted` elements; grows it, and the room that counts its elements. */
#define QKV_RESERVE(array, room, wanted)                                                                     \
    ((wanted) <= (room) || ((array) = qkv_grow((array), &(room), (wanted), sizeof *(array))) != NULL)

#endif
