/* Different strings, each with a number and a frequency: the different tokens of a text, the keys of a state.
 *
 * Example:
 *     struct qkv_types types = {0};
 *     int32_t house = qkv_types_add(&types, "house", 1);
 *     if (qkv_types_find(&types, "house") == house) puts(qkv_types_token(&types, house));
 *     qkv_types_release(&types);
 */
#ifndef QKV_TYPES_H
#define QKV_TYPES_H

#include "qkv/error.h" /* QKV_API */

#include <stdint.h>

/* Different strings, numbered in the order in which they were added, with their frequencies. Caller's storage; all zero
 * is valid and empty. */
struct qkv_types {
    int64_t size;
    int64_t *frequency; /* [size] */
    /* private */
    int64_t *start; /* [size]: offset of each string in text */
    uint32_t *hash; /* [size] */
    /* [slot_count, a power of two]: hash table with open addressing of type numbers; -1: free */
    int32_t *slots;
    char *text;
    int64_t capacity, start_capacity, hash_capacity, slot_count, text_capacity, text_size;
};

/* Adds `frequency` to the frequency of a string, which is copied if it is new. The sum stays within int64_t. Returns its
 * number. When there is no memory, returns -1 and empties the types. */
QKV_API int32_t qkv_types_add(struct qkv_types *types, const char *token, int64_t frequency);

/* Returns the number of a string, or -1 when it was not added. */
QKV_API int32_t qkv_types_find(const struct qkv_types *types, const char *token);

/* The string of a number, 0 <= type < size, else NULL; valid until the next string is added. */
QKV_API const char *qkv_types_token(const struct qkv_types *types, int64_t type);

QKV_API void qkv_types_release(struct qkv_types *types);

#endif
