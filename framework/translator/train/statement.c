#include "train/statement.h"

#include "qkv/kernels.h"
#include "qkv/version.h"
#include "source_checksum.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void qkv_statement_add(struct qkv_statement *statement, const char *name, const char *format, ...)
{
    va_list arguments;
    QKV_BUG(statement->facts == QKV_FACTS, "no room for %s", name);
    int i = statement->facts++;
    snprintf(statement->fact[i].name, sizeof statement->fact[i].name, "%s", name);
    va_start(arguments, format);
    vsnprintf(statement->fact[i].value, sizeof statement->fact[i].value, format, arguments);
    va_end(arguments);
}

void qkv_statement_add_checksum(struct qkv_statement *statement, const char *name, uint32_t checksum)
{
    qkv_statement_add(statement, name, "checksum %08lx", (unsigned long)checksum);
}

void qkv_statement_add_build(struct qkv_statement *statement)
{
    struct qkv_kernel_names names;
    qkv_statement_add(statement, "the version of qkv", "%s, source checksum " QKV_SOURCE_CHECKSUM,
                      qkv_version());
    if (!qkv_kernels_in_use(&names, NULL))
        qkv_statement_add(statement, "the kernels (QKV_KERNELS)", "%s%s", names.float32,
                          names.is_float32_by_blas ? " with OpenBLAS" : "");
}

enum qkv_status qkv_statement_differs(const struct qkv_processes *processes, const char *name,
                                      const char *value, int rank, const char *other, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: %s on %s, but %s on %s: it must be the same on all processes", name,
                         value, processes->name[0], other, processes->name[rank]);
}

/* Runs on process 0, whose own failure takes precedence over those of others. */
static enum qkv_status compare(const struct qkv_processes *processes, const struct qkv_statement *statement,
                               struct qkv_error *error)
{
    const struct qkv_statement *first = &statement[0];
    if (first->status) {
        *error = first->error;
        return first->status;
    }
    for (int i = 1; i < qkv_processes_count(processes); i++) {
        if (statement[i].status) {
            qkv_error_set(error, "%s: %s", processes->name[i], statement[i].error.message);
            return statement[i].status;
        }
        for (int k = 0; k < first->facts; k++)
            if (strcmp(first->fact[k].value, statement[i].fact[k].value) != 0)
                return qkv_statement_differs(processes, first->fact[k].name, first->fact[k].value, i,
                                             statement[i].fact[k].value, error);
    }
    return QKV_OK;
}

enum qkv_status qkv_statements_compare(struct qkv_processes *processes, const struct qkv_statement *statement,
                                       struct qkv_error *error)
{
    int count = qkv_processes_count(processes), rank = qkv_processes_rank(processes);
    struct qkv_statement *all = calloc((size_t)count, sizeof *all);
    if (!all) {
        qkv_processes_abort(processes);
        return qkv_error_set(error, "out of memory for %d processes", count);
    }
    all[rank] = *statement;
    enum qkv_status agreed = qkv_exchange_collect(processes, all, sizeof *all, count, error);
    if (!agreed && rank == 0) agreed = compare(processes, all, error);
    free(all);
    if ((processes && processes->is_broken)) return QKV_INVALID;
    agreed = qkv_processes_share_status(processes, agreed);
    if (rank > 0) *error = (struct qkv_error){""}; /* process 0 has it */
    return agreed;
}
