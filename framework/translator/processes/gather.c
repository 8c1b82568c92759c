/* Structured data between processes, and their handshake. */
#include "core/memory.h"
#include "processes/processes.h"

#include "kernels/registry.h"
#include "qkv/version.h"
#include "source_checksum.h"

#include <stdarg.h>

static bool is_out_of_memory(const struct qkv_parcel *parcel)
{
    return parcel->has_failed || parcel->packed.failed;
}

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
    struct heading heading = {.status = status};
    struct qkv_parcel parcel = {.has_failed = false};
    if (!status) contents->move(contents->context, qkv_processes_rank(processes), &parcel);
    if (is_out_of_memory(&parcel)) heading.status = qkv_no_memory(error);
    if (heading.status && error) heading.error = *error;
    if (!heading.status) heading.size = parcel.packed.size;
    enum qkv_status sent = qkv_exchange_send(processes, 0, &heading, sizeof heading, error);
    if (!sent) sent = qkv_exchange_send(processes, 0, parcel.packed.data, heading.size, error);
    free(parcel.packed.data);
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
    char *bytes = malloc(heading.size + 1);
    if (!bytes) {
        qkv_processes_abort(processes);
        return qkv_no_memory(error);
    }
    struct qkv_parcel parcel = {.received = bytes, .error = error};
    enum qkv_status received = qkv_exchange_receive(processes, rank, bytes, heading.size, error);
    if (!received && !*status && heading.status) {
        *status = heading.status;
        qkv_error_set(error, "%s: %s", processes->name[rank], heading.error.message);
    } else if (!received && !*status) {
        contents->move(contents->context, rank, &parcel);
        if (parcel.has_failed) *status = qkv_no_memory(error);
        if (parcel.is_refused) *status = QKV_INVALID;
    }
    free(bytes);
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
    if (exchanged || processes->is_broken) return QKV_INVALID;
    status = qkv_processes_share_status(processes, status);
    if (qkv_processes_rank(processes) > 0 && error) *error = (struct qkv_error){""}; /* process 0 has it */
    return status;
}

enum qkv_status qkv_share(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                          struct qkv_error *error)
{
    if (!processes) return QKV_OK;
    struct qkv_parcel parcel = {.has_failed = false};
    bool sends = qkv_processes_rank(processes) == 0;
    if (sends) contents->move(contents->context, 0, &parcel);
    enum qkv_status status = is_out_of_memory(&parcel) ? qkv_no_memory(error) : QKV_OK;
    size_t size = parcel.packed.size;
    if (!status) status = qkv_exchange_broadcast(processes, &size, sizeof size, error);
    char *bytes = sends ? parcel.packed.data : malloc(size + 1);
    if (!status && !bytes && size) status = qkv_no_memory(error);
    if (!status) status = qkv_exchange_broadcast(processes, bytes, size, error);
    if (!status && !sends) {
        parcel.received = bytes;
        contents->move(contents->context, 0, &parcel);
    }
    if (parcel.has_failed) status = qkv_no_memory(error);
    if (status) qkv_processes_abort(processes); /* the other processes wait */
    free(bytes);
    return status;
}

/* ---- the handshake ---- */

void qkv_handshake_add(struct qkv_handshake *handshake, const char *name, const char *format, ...)
{
    char value[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    qkv_bytes_append(&handshake->facts, name, strlen(name) + 1);
    qkv_bytes_append(&handshake->facts, value, strlen(value) + 1);
}

void qkv_handshake_add_checksum(struct qkv_handshake *handshake, const char *name, uint32_t checksum)
{
    qkv_handshake_add(handshake, name, "checksum %08lx", (unsigned long)checksum);
}

void qkv_handshake_add_build(struct qkv_handshake *handshake)
{
    struct qkv_kernel_names names;
    qkv_handshake_add(handshake, "the version of qkv", "%s, source checksum " QKV_SOURCE_CHECKSUM,
                      qkv_version());
    if (!qkv_kernels_in_use(&names, NULL))
        qkv_handshake_add(handshake, "the kernels (QKV_KERNELS)", "%s%s", names.float32,
                          names.is_float32_by_blas ? " with OpenBLAS" : "");
}

/* The text after text `at` of the facts; NULL when `at` is the last one. */
static const char *next_text(const struct qkv_handshake *handshake, const char *at)
{
    const char *next = at + strlen(at) + 1;
    return next < handshake->facts.data + handshake->facts.size ? next : NULL;
}

/* The value of the next fact of this name from *at on, which then stands behind it; NULL: there is none. A key of the
 * config may have the name of a later fact. */
static const char *find(const struct qkv_handshake *handshake, const char **at, const char *name)
{
    const char *value;
    for (const char *next = *at; next && (value = next_text(handshake, next));
         next = next_text(handshake, value)) {
        if (strcmp(next, name) != 0) continue;
        *at = next_text(handshake, value);
        return value;
    }
    return NULL;
}

struct introduction {
    const struct qkv_processes *processes;
    const struct qkv_handshake *own;
};

/* Compares the facts of process `rank` with those of process 0. */
static void compare(const struct introduction *introduction, int rank, const struct qkv_handshake *theirs,
                    struct qkv_parcel *parcel)
{
    const struct qkv_handshake *own = introduction->own;
    const char *name = own->facts.data, *at = theirs->facts.size ? theirs->facts.data : NULL, *value;
    for (; name && !parcel->is_refused && (value = next_text(own, name)); name = next_text(own, value)) {
        const char *other = find(theirs, &at, name);
        parcel->is_refused = other && strcmp(value, other) != 0;
        if (parcel->is_refused)
            qkv_error_set(parcel->error, "%s: %s on %s, but %s on %s: it must be the same on all processes",
                          name, value, introduction->processes->name[0], other,
                          introduction->processes->name[rank]);
    }
}

static void move_facts(void *context, int rank, struct qkv_parcel *parcel)
{
    const struct introduction *introduction = context;
    const struct bytes *own = &introduction->own->facts;
    struct qkv_handshake theirs = {{.size = own->size}};
    qkv_parcel_move(parcel, &theirs.facts.size, sizeof theirs.facts.size);
    if (parcel->received) {
        theirs.facts.data = parcel->received;
        compare(introduction, rank, &theirs, parcel);
    } else {
        qkv_parcel_move(parcel, own->data, own->size);
    }
}

enum qkv_status qkv_handshake(struct qkv_processes *processes, struct qkv_handshake *handshake,
                              enum qkv_status status, struct qkv_error *error)
{
    struct introduction introduction = {processes, handshake};
    const struct qkv_parcel_contents contents = {&introduction, move_facts};
    if (!status && handshake->facts.failed) status = qkv_no_memory(error);
    status = qkv_gather(processes, &contents, status, error);
    free(handshake->facts.data);
    return status;
}
