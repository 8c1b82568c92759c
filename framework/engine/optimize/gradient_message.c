/* The message for a bucket of a large table begins with a bit mask of the rows that are sent. All other buckets are sent as
 * plain numbers. Only rows of +0 are left out; the receiver adds zeros for them, so that the sum has the same bits as in one
 * process. */
#include "optimize/gradient_message.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUCKET = 1 << 22, /* bytes at most, unless a row is larger */
    TABLE_FROM =
        1 << 16, /* bytes; for a smaller table, finding rows and further messages cost more than they save */
};

struct bucket {
    size_t start, size; /* bytes */
    int64_t rows;       /* of a large table; 0: everything is sent */
    size_t row_size;    /* bytes */
};

struct qkv_gradient_message {
    const struct qkv_parameters *parameters;
    int buckets;
    struct bucket *bucket;  /* from the end of a block to its start */
    size_t largest;         /* bytes of a bucket */
    unsigned char *is_sent; /* bit mask of the rows of a bucket that are sent */
    char *sent;             /* [largest]: packed rows of a bucket, to send or as received */
    char *received;         /* [largest] */
};

/* Appends the buckets of a part of a block, from its end to its start; only counts them if message->bucket is NULL. row_size:
 * bytes of a unit that is not cut, a row or a number; is_table: the part is a large table. */
static void cut_part(struct qkv_gradient_message *message, size_t start, size_t size, size_t row_size,
                     bool is_table)
{
    size_t max = row_size < BUCKET ? BUCKET / row_size * row_size : row_size;
    for (size_t left = size; left > 0;) {
        size_t length = left % max ? left % max : max;
        left -= length;
        if (length > message->largest) message->largest = length;
        if (message->bucket)
            message->bucket[message->buckets] =
                (struct bucket){start + left, length, is_table ? (int64_t)(length / row_size) : 0, row_size};
        message->buckets++;
    }
}

/* Cuts a block into buckets: each large table by rows, the parameters between them by numbers. */
static void cut(struct qkv_gradient_message *message)
{
    const struct qkv_parameters *parameters = message->parameters;
    size_t element = qkv_dtype_size(parameters->dtype), end = (size_t)parameters->elements * element;
    message->buckets = 0;
    for (int64_t i = parameters->count - 1; i >= 0; i--) {
        const struct qkv_parameter *p = parameters->list[i];
        size_t size = (size_t)p->count * element, offset = (size_t)p->offset * element;
        if (!p->is_table || size < TABLE_FROM) continue;
        cut_part(message, offset + size, end - offset - size, element, false);
        cut_part(message, offset, size, size / (size_t)p->shape.size[0], true);
        end = offset;
    }
    cut_part(message, 0, end, element, false);
}

struct qkv_gradient_message *qkv_gradient_message_new(const struct qkv_parameters *parameters)
{
    struct qkv_gradient_message *message = calloc(1, sizeof *message);
    if (!message) return NULL;
    message->parameters = parameters;
    cut(message);
    message->bucket = calloc((size_t)message->buckets + 1, sizeof *message->bucket);
    if (message->bucket) cut(message);
    message->is_sent = malloc(message->largest / 8 + 1);
    message->sent = malloc(message->largest + 1);
    message->received = malloc(message->largest + 1);
    if (message->bucket && message->is_sent && message->sent && message->received) return message;
    qkv_gradient_message_free(message);
    return NULL;
}

void qkv_gradient_message_free(struct qkv_gradient_message *message)
{
    if (!message) return;
    free(message->bucket);
    free(message->is_sent);
    free(message->sent);
    free(message->received);
    free(message);
}

int qkv_gradient_message_buckets(const struct qkv_gradient_message *message)
{
    return message->buckets;
}

struct qkv_gradient_range qkv_gradient_message_range(const struct qkv_gradient_message *message, int bucket)
{
    const struct qkv_parameters *all = message->parameters;
    size_t element = qkv_dtype_size(all->dtype);
    struct qkv_gradient_range range = {
        .start = (int64_t)(message->bucket[bucket].start / element),
        .count = (int64_t)(message->bucket[bucket].size / element),
    };
    while (range.first < all->count &&
           all->list[range.first]->offset + all->list[range.first]->count <= range.start)
        range.first++;
    range.end = range.first;
    while (range.end < all->count && all->list[range.end]->offset < range.start + range.count) range.end++;
    return range;
}

static bool is_sent(const struct qkv_gradient_message *message, int64_t row)
{
    return message->is_sent[row / 8] >> row % 8 & 1;
}

static bool is_zero(const char *row, size_t size)
{
    return row[0] == 0 && !memcmp(row, row + 1, size - 1);
}

static size_t size_of_bits(const struct bucket *bucket)
{
    return (size_t)(bucket->rows + 7) / 8;
}

/* Chooses the rows to send: those that are not zero, or all rows if more than half of them are not zero. */
static void choose_rows(struct qkv_gradient_message *message, const struct bucket *bucket, const char *row)
{
    int64_t count = 0;
    memset(message->is_sent, 0, size_of_bits(bucket));
    for (int64_t i = 0; i < bucket->rows; i++, row += bucket->row_size) {
        if (is_zero(row, bucket->row_size)) continue;
        message->is_sent[i / 8] |= (unsigned char)(1 << i % 8);
        count++;
    }
    if (count > bucket->rows / 2) memset(message->is_sent, 0xFF, size_of_bits(bucket));
}

/* Bytes of the rows that are sent. */
static size_t size_of_rows(const struct qkv_gradient_message *message, const struct bucket *bucket)
{
    size_t count = 0;
    for (int64_t i = 0; i < bucket->rows; i++) count += is_sent(message, i);
    return count * bucket->row_size;
}

enum qkv_status qkv_gradient_message_send(struct qkv_gradient_message *message, int bucket,
                                          struct qkv_processes *processes, int to, const void *gradients,
                                          struct qkv_error *error)
{
    const struct bucket *sent = &message->bucket[bucket];
    const char *numbers = (const char *)gradients + sent->start, *row = numbers;
    if (!sent->rows) return qkv_exchange_send(processes, to, numbers, sent->size, error);
    choose_rows(message, sent, numbers);
    if (qkv_exchange_send(processes, to, message->is_sent, size_of_bits(sent), error)) return QKV_INVALID;
    size_t size = size_of_rows(message, sent);
    if (size == sent->size) return qkv_exchange_send(processes, to, numbers, size, error);
    char *copy = message->sent;
    for (int64_t i = 0; i < sent->rows; i++, row += sent->row_size) {
        if (!is_sent(message, i)) continue;
        memcpy(copy, row, sent->row_size);
        copy += sent->row_size;
    }
    return qkv_exchange_send(processes, to, message->sent, size, error);
}

enum qkv_status qkv_gradient_message_receive(struct qkv_gradient_message *message, int bucket,
                                             struct qkv_processes *processes, int from, void **numbers,
                                             struct qkv_error *error)
{
    const struct bucket *received = &message->bucket[bucket];
    *numbers = message->received;
    if (!received->rows)
        return qkv_exchange_receive(processes, from, message->received, received->size, error);
    if (qkv_exchange_receive(processes, from, message->is_sent, size_of_bits(received), error))
        return QKV_INVALID;
    size_t size = size_of_rows(message, received);
    if (size == received->size) return qkv_exchange_receive(processes, from, message->received, size, error);
    if (qkv_exchange_receive(processes, from, message->sent, size, error)) return QKV_INVALID;
    char *row = message->received;
    const char *copy = message->sent;
    for (int64_t i = 0; i < received->rows; i++, row += received->row_size) {
        bool has_gradient = is_sent(message, i);
        if (has_gradient)
            memcpy(row, copy, received->row_size);
        else
            memset(row, 0, received->row_size);
        copy += has_gradient ? received->row_size : 0;
    }
    return QKV_OK;
}
