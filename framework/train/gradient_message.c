/* A message is a list of bits, one for each row of each large table: which rows are sent; then the numbers of all other
 * parameters, and these rows. A row that is not sent has bits of zero only, so that adding it changes the same bits as in one process. */
#include "train/gradient_message.h"

#include <stdlib.h>
#include <string.h>

enum {
    TABLE_FROM = 1 << 16 /* bytes; looking for the rows of a smaller table, and further messages, cost more */
};

/* A part of a block, as it is sent. */
struct part {
    size_t start, size;     /* bytes */
    int64_t rows;           /* of a large table; 0: everything is sent */
    size_t row_size;        /* bytes */
    unsigned char *is_sent; /* [rows / 8], in `bits` */
};

struct qkv_gradient_message {
    int parts;
    struct part *part;
    unsigned char *bits;
    size_t bits_size;
    char *rows; /* room for half of the largest table */
};

static void add_part(struct qkv_gradient_message *message, size_t start, size_t end)
{
    if (end > start) message->part[message->parts++] = (struct part){.start = start, .size = end - start};
}

/* Cuts a block into large tables and what lies between. Returns the size of the largest table. */
static size_t cut(struct qkv_gradient_message *message, const struct qkv_parameters *parameters)
{
    size_t element = qkv_dtype_size(parameters->dtype), start = 0, largest = 0;
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_parameter *p = parameters->list[i];
        size_t size = (size_t)p->count * element, offset = (size_t)p->offset * element;
        if (!p->is_table || size < TABLE_FROM) continue;
        add_part(message, start, offset);
        add_part(message, offset, offset + size);
        struct part *table = &message->part[message->parts - 1];
        table->rows = p->shape.size[0];
        table->row_size = size / (size_t)table->rows;
        message->bits_size += (size_t)(table->rows + 7) / 8;
        if (size > largest) largest = size;
        start = offset + size;
    }
    add_part(message, start, (size_t)parameters->elements * element);
    return largest;
}

struct qkv_gradient_message *qkv_gradient_message_new(const struct qkv_parameters *parameters)
{
    struct qkv_gradient_message *message = calloc(1, sizeof *message);
    if (!message) return NULL;
    message->part = calloc(2 * (size_t)parameters->count + 1, sizeof *message->part);
    size_t largest = message->part ? cut(message, parameters) : 0;
    message->bits = calloc(message->bits_size + 1, 1);
    message->rows = malloc(largest / 2 + 1);
    if (!message->part || !message->bits || !message->rows) {
        qkv_gradient_message_free(message);
        return NULL;
    }
    unsigned char *bits = message->bits;
    for (int i = 0; i < message->parts; i++) {
        message->part[i].is_sent = bits;
        bits += (message->part[i].rows + 7) / 8;
    }
    return message;
}

void qkv_gradient_message_free(struct qkv_gradient_message *message)
{
    if (!message) return;
    free(message->part);
    free(message->bits);
    free(message->rows);
    free(message);
}

static bool is_sent(const struct part *table, int64_t row)
{
    return table->is_sent[row / 8] >> row % 8 & 1;
}

static bool is_zero(const char *row, size_t size)
{
    return row[0] == 0 && !memcmp(row, row + 1, size - 1);
}

/* Finds the rows of a table that are sent: those that are not zero, or, if these are more than half, all. */
static void choose_rows(struct part *table, const char *gradients)
{
    const char *row = gradients + table->start;
    int64_t count = 0;
    memset(table->is_sent, 0, (size_t)(table->rows + 7) / 8);
    for (int64_t i = 0; i < table->rows; i++, row += table->row_size) {
        if (is_zero(row, table->row_size)) continue;
        table->is_sent[i / 8] |= (unsigned char)(1 << i % 8);
        count++;
    }
    if (count > table->rows / 2) memset(table->is_sent, 0xFF, (size_t)(table->rows + 7) / 8);
}

/* Bytes of the rows that are sent. */
static size_t size_of_rows(const struct part *table)
{
    size_t count = 0;
    for (int64_t i = 0; i < table->rows; i++) count += is_sent(table, i);
    return count * table->row_size;
}

/* Copies the rows that are sent from a table to `rows`, or back. */
static void copy_rows(const struct part *table, char *gradients, char *rows, bool is_back)
{
    char *row = gradients + table->start;
    for (int64_t i = 0; i < table->rows; i++, row += table->row_size) {
        if (!is_sent(table, i)) continue;
        memcpy(is_back ? row : rows, is_back ? rows : row, table->row_size);
        rows += table->row_size;
    }
}

enum qkv_status qkv_gradient_message_send(struct qkv_gradient_message *message,
                                          struct qkv_processes *processes, int to, const void *gradients,
                                          struct qkv_error *error)
{
    char *block = (char *)gradients;
    for (int i = 0; i < message->parts; i++)
        if (message->part[i].rows) choose_rows(&message->part[i], block);
    enum qkv_status status = qkv_exchange_send(processes, to, message->bits, message->bits_size, error);
    for (int i = 0; !status && i < message->parts; i++) {
        const struct part *part = &message->part[i];
        size_t size = part->rows ? size_of_rows(part) : part->size;
        if (size < part->size) copy_rows(part, block, message->rows, false);
        const char *data = size < part->size ? message->rows : block + part->start;
        status = qkv_exchange_send(processes, to, data, size, error);
    }
    return status;
}

enum qkv_status qkv_gradient_message_receive(struct qkv_gradient_message *message,
                                             struct qkv_processes *processes, int from, void *gradients,
                                             struct qkv_error *error)
{
    char *block = gradients;
    enum qkv_status status = qkv_exchange_receive(processes, from, message->bits, message->bits_size, error);
    for (int i = 0; !status && i < message->parts; i++) {
        const struct part *part = &message->part[i];
        size_t size = part->rows ? size_of_rows(part) : part->size;
        char *data = size < part->size ? message->rows : block + part->start;
        status = qkv_exchange_receive(processes, from, data, size, error);
        if (status || size == part->size) continue;
        memset(block + part->start, 0, part->size);
        copy_rows(part, block, message->rows, true);
    }
    return status;
}
