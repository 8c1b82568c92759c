#include "processes/gather.h"

#include <stdlib.h>

/* The header that is sent before a parcel. */
struct heading {
    enum qkv_status status;
    struct qkv_error error; /* why the part failed */
    size_t size;
};

/* Sends the part of this process. */
static enum qkv_status send_part(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                                 enum qkv_status status, struct qkv_error *error)
{
    int rank = qkv_processes_rank(processes);
    struct heading heading = {.status = status};
    struct qkv_parcel parcel = {NULL};
    if (!status) {
        contents->move(contents->context, rank, &parcel);
        heading.size = parcel.size;
        parcel = (struct qkv_parcel){.bytes = malloc(heading.size + 1)};
        if (!parcel.bytes) heading.status = qkv_error_set(error, "out of memory for %zu bytes", heading.size);
    }
    if (heading.status) {
        if (error) heading.error = *error;
        heading.size = 0;
    } else {
        contents->move(contents->context, rank, &parcel);
    }
    enum qkv_status sent = qkv_exchange_send(processes, 0, &heading, sizeof heading, error);
    if (!sent) sent = qkv_exchange_send(processes, 0, parcel.bytes, heading.size, error);
    free(parcel.bytes);
    return sent;
}

/* Receives the part of process `rank`. If all parts before it have succeeded, sets *status and *error to those of this
 * part. Fails if the process has died. */
static enum qkv_status receive_part(struct qkv_processes *processes,
                                    const struct qkv_parcel_contents *contents, int rank,
                                    enum qkv_status *status, struct qkv_error *error)
{
    struct heading heading;
    if (qkv_exchange_receive(processes, rank, &heading, sizeof heading, error)) return QKV_INVALID;
    struct qkv_parcel parcel = {.bytes = malloc(heading.size + 1), .is_received = true};
    if (!parcel.bytes) {
        qkv_processes_abort(processes);
        return qkv_error_set(error, "out of memory for %zu bytes", heading.size);
    }
    enum qkv_status received = qkv_exchange_receive(processes, rank, parcel.bytes, heading.size, error);
    if (!received && !*status && heading.status) {
        *status = heading.status;
        qkv_error_set(error, "%s: %s", processes->name[rank], heading.error.message);
    } else if (!received && !*status) {
        contents->move(contents->context, rank, &parcel);
        if (parcel.has_failed) *status = qkv_error_set(error, "out of memory for %zu bytes", heading.size);
    }
    free(parcel.bytes);
    return received;
}

enum qkv_status qkv_gather(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                           enum qkv_status status, struct qkv_error *error)
{
    if (!processes) return status;
    enum qkv_status exchanged = QKV_OK;
    if (qkv_processes_rank(processes) > 0) exchanged = send_part(processes, contents, status, error);
    for (int rank = 1; !exchanged && qkv_processes_rank(processes) == 0; rank++) {
        if (rank == qkv_processes_count(processes)) break;
        exchanged = receive_part(processes, contents, rank, &status, error);
    }
    if (exchanged || (processes && processes->is_broken)) return QKV_INVALID;
    status = qkv_processes_share_status(processes, status);
    if (qkv_processes_rank(processes) > 0 && error) *error = (struct qkv_error){""}; /* process 0 has it */
    return status;
}

/* Packs the contents of process 0. */
static enum qkv_status pack(const struct qkv_parcel_contents *contents, struct qkv_parcel *parcel,
                            struct qkv_error *error)
{
    contents->move(contents->context, 0, parcel);
    char *bytes = malloc(parcel->size + 1);
    if (!bytes) return qkv_error_set(error, "out of memory for %zu bytes", parcel->size);
    *parcel = (struct qkv_parcel){.bytes = bytes};
    contents->move(contents->context, 0, parcel);
    return QKV_OK;
}

enum qkv_status qkv_share(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                          struct qkv_error *error)
{
    if (!processes) return QKV_OK;
    struct qkv_parcel parcel = {NULL};
    bool sends = qkv_processes_rank(processes) == 0;
    enum qkv_status status = sends ? pack(contents, &parcel, error) : QKV_OK;
    if (!status) status = qkv_exchange_broadcast(processes, &parcel.size, sizeof parcel.size, error);
    size_t size = parcel.size;
    if (!status && !sends) {
        parcel = (struct qkv_parcel){.bytes = malloc(size + 1), .is_received = true};
        if (!parcel.bytes) status = qkv_error_set(error, "out of memory for %zu bytes", size);
    }
    if (!status) status = qkv_exchange_broadcast(processes, parcel.bytes, size, error);
    if (!status && !sends) contents->move(contents->context, 0, &parcel);
    if (parcel.has_failed) status = qkv_error_set(error, "out of memory for %zu bytes", size);
    if (status) qkv_processes_abort(processes); /* the other processes wait */
    free(parcel.bytes);
    return status;
}
