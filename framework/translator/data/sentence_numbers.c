#include "data/sentence_numbers.h"

#include "core/grow.h"
#include "data/unicode.h"

#include <stdlib.h>
#include <string.h>

/* Working memory for a sentence that is compared. */
struct buffer {
    int32_t *points;
    char *text;
    int64_t points_capacity, text_capacity;
};

/* Returns the letters, marks and digits of a sentence in lower case; or the sentence itself if it has none, such as "?!" or an
 * emoji. NULL when memory runs out. */
static const char *comparable(struct buffer *buffer, const char *text)
{
    size_t size = strlen(text);
    if (!QKV_RESERVE(buffer->points, buffer->points_capacity, (int64_t)size + 1)) return NULL;
    int64_t count = qkv_utf8_decode(text, size, buffer->points), kept = 0;
    count = qkv_normalize(&buffer->points, &buffer->points_capacity, count, true);
    if (count < 0) {
        buffer->points_capacity = 0;
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        if (!qkv_is_space(buffer->points[i]) && !qkv_is_punctuation(buffer->points[i]))
            buffer->points[kept++] = buffer->points[i];
    if (!kept) return text;
    if (!QKV_RESERVE(buffer->text, buffer->text_capacity, 4 * kept + 1)) return NULL;
    qkv_utf8_encode(buffer->points, kept, buffer->text);
    return buffer->text;
}

/* Finds pairs that are equal to an earlier one. */
static bool find_repeated(struct qkv_sentence_numbers *numbers, const struct qkv_pairs *pairs,
                          struct buffer *buffer)
{
    struct qkv_types seen = {0};
    bool complete = true;
    for (int64_t i = 0; i < pairs->count && complete; i++) {
        const char *source = qkv_pairs_text(pairs, i, 0), *target = qkv_pairs_text(pairs, i, 1);
        size_t source_size = strlen(source), target_size = strlen(target);
        int64_t different = seen.size;
        complete = QKV_RESERVE(buffer->text, buffer->text_capacity, (int64_t)(source_size + target_size + 2));
        if (!complete) break;
        memcpy(buffer->text, source, source_size);
        buffer->text[source_size] = '\t'; /* no sentence contains a tab */
        memcpy(buffer->text + source_size + 1, target, target_size + 1);
        complete = qkv_types_add(&seen, buffer->text, 1) >= 0;
        numbers->is_new[i] = seen.size > different;
    }
    qkv_types_release(&seen);
    return complete;
}

bool qkv_sentence_numbers_init(struct qkv_sentence_numbers *numbers, const struct qkv_pairs *pairs)
{
    size_t count = (size_t)pairs->count + 1;
    struct buffer buffer = {0};
    *numbers = (struct qkv_sentence_numbers){.is_new = malloc(count * sizeof(bool))};
    bool complete = numbers->is_new != NULL;
    for (int side = 0; side < 2 && complete; side++) {
        numbers->number[side] = malloc(count * sizeof *numbers->number[side]);
        complete = numbers->number[side] != NULL;
        for (int64_t i = 0; i < pairs->count && complete; i++) {
            const char *key = comparable(&buffer, qkv_pairs_text(pairs, i, side));
            numbers->number[side][i] = key ? qkv_types_add(&numbers->types[side], key, 1) : -1;
            complete = numbers->number[side][i] >= 0;
        }
        numbers->uses[side] = numbers->types[side].frequency;
        numbers->different[side] = numbers->types[side].size;
    }
    complete = complete && find_repeated(numbers, pairs, &buffer);
    free(buffer.points);
    free(buffer.text);
    if (!complete) qkv_sentence_numbers_release(numbers);
    return complete;
}

void qkv_sentence_numbers_release(struct qkv_sentence_numbers *numbers)
{
    for (int side = 0; side < 2; side++) {
        free(numbers->number[side]);
        qkv_types_release(&numbers->types[side]);
    }
    free(numbers->is_new);
    *numbers = (struct qkv_sentence_numbers){0};
}
