/* Before processes work together, each states facts about itself that must be the same in all, and process 0 compares them. */
#ifndef QKV_TRAIN_STATEMENT_H
#define QKV_TRAIN_STATEMENT_H

#include "core/exchange.h"
#include "qkv/processes.h"

#include <stdint.h>

enum { QKV_FACTS = 10, QKV_FACT_SIZE = 64 };

struct qkv_statement {
    enum qkv_status status; /* of the preparation of this process */
    struct qkv_error error;
    int facts;
    struct {
        char name[32], value[QKV_FACT_SIZE];
    } fact[QKV_FACTS];
};

/* Adds a fact. All processes add the same names in the same order. */
void qkv_statement_add(struct qkv_statement *statement, const char *name, const char *format, ...)
    QKV_PRINTF(3, 4);
void qkv_statement_add_checksum(struct qkv_statement *statement, const char *name, uint32_t checksum);

/* Adds the version of qkv with a checksum of its source, because many builds share a version, and the kernels. */
void qkv_statement_add_build(struct qkv_statement *statement);

/* Sets the error: a fact of process 0 differs from that of process `rank`. Returns QKV_INVALID. */
enum qkv_status qkv_statement_differs(const struct qkv_processes *processes, const char *name,
                                      const char *value, int rank, const char *other,
                                      struct qkv_error *error);

/* Compares the statements of all processes. Returns the same status in all: that of the first process whose preparation has
 * failed, or QKV_INVALID if two facts differ. Process 0 gets the message; in the other processes it is empty. */
enum qkv_status qkv_statements_compare(struct qkv_processes *processes, const struct qkv_statement *statement,
                                       struct qkv_error *error);

#endif
