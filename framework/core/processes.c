/* MPI (Open MPI or MPICH, whichever header there was) is loaded only if mpirun has started the process, so that all other
 * processes start as fast as without MPI and need no MPI library. A build without the MPI header has processes_absent.c in
 * place of this file. */
#include "core/clock.h"
#include "core/exchange.h"
#include "core/launch.h"
#include "core/processors.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct mpi_library {
#define FUNCTION(name)                    __typeof__(name) *name;
#define OBJECT(name, type, symbol, value) type name;
#include "core/mpi_library.def"
#undef FUNCTION
#undef OBJECT
};

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct mpi_library */
} SYMBOLS[] = {
#define ROW(name, symbol) {#symbol, offsetof(struct mpi_library, name)},
#define FUNCTION(name)    ROW(name, name)
#ifdef OPEN_MPI
#    define OBJECT(name, type, symbol, value) ROW(name, symbol)
#else
#    define OBJECT(name, type, symbol, value)
#endif
#include "core/mpi_library.def"
#undef FUNCTION
#undef OBJECT
};

#ifdef OPEN_MPI
#    define LIBRARY  "libmpi.so.40"
#    define MPI_NAME "Open MPI"
#    define PACKAGE  "openmpi-bin"
#else
#    define LIBRARY  "libmpich.so.12"
#    define MPI_NAME "MPICH"
#    define PACKAGE  "mpich"
#endif

/* Data that processes exchange when they join. */
struct peer {
    char host[128];
    /* Where its id is valid: host, start of the kernel, and, for containers, namespace of ids */
    char machine[128];
    long process; /* process id on that machine */
};

struct qkv_processes {
    struct mpi_library call;
    int rank, count;
    struct peer *peer;    /* [count] */
    char (*name)[160];    /* [count] */
    MPI_Request *request; /* [2 count] of a broadcast */
    bool *is_near;        /* [count]: on this machine, so that kill can test whether it is alive */
    int near;             /* processes on this machine, this one counted */
    int64_t sent;         /* bytes */
    bool any_thread;      /* may send and receive, one at a time */
    pthread_t thread;     /* qkv_exchange_start */
    bool is_broken;
};

/* ---- joining ---- */

/* RTLD_GLOBAL: Open MPI loads plug-ins, which look for its functions among the global symbols. */
static enum qkv_status load(struct mpi_library *library, struct qkv_error *error)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    bool complete = handle;
#ifndef OPEN_MPI
#    define FUNCTION(name)
#    define OBJECT(name, type, symbol, value) library->name = value;
#    include "core/mpi_library.def"
#    undef FUNCTION
#    undef OBJECT
#endif
    for (size_t i = 0; complete && i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *symbol = dlsym(handle, SYMBOLS[i].name);
        memcpy((char *)library + SYMBOLS[i].offset, &symbol, sizeof symbol);
        complete = symbol;
    }
    if (complete) return QKV_OK;
    const char *reason = dlerror();
    return qkv_error_set(error,
                         "several processes need the library of " MPI_NAME
                         ", which cannot be loaded (%s): install "
                         "it (on Debian or Ubuntu: apt-get install " PACKAGE ")",
                         reason ? reason : "a function is missing");
}

static bool is_alive(const struct peer *peer)
{
    return !kill((pid_t)peer->process, 0) || errno != ESRCH;
}

/* Several hosts may have the same name, such as "debian", and several containers may share a kernel. */
static void name_machine(struct peer *self)
{
    char start[40] = "", ids[40] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(start, sizeof start, file)) start[0] = '\0';
    if (file) fclose(file);
    if (readlink("/proc/self/ns/pid", ids, sizeof ids - 1) < 0) ids[0] = '\0';
    snprintf(self->machine, sizeof self->machine, "%.40s %s %s", self->host, start, ids);
}

static enum qkv_status meet(struct qkv_processes *processes, struct qkv_error *error)
{
    struct mpi_library *call = &processes->call;
    struct peer self = {.process = (long)getpid()};
    gethostname(self.host, sizeof self.host - 1);
    name_machine(&self);
    processes->peer = calloc((size_t)processes->count, sizeof *processes->peer);
    processes->name = calloc((size_t)processes->count, sizeof *processes->name);
    processes->is_near = calloc((size_t)processes->count, sizeof *processes->is_near);
    processes->request = calloc(2 * (size_t)processes->count, sizeof(MPI_Request));
    if (!processes->peer || !processes->name || !processes->is_near || !processes->request)
        return qkv_error_set(error, "out of memory for %d processes", processes->count);
    int size = (int)sizeof self;
    if (call->MPI_Allgather(&self, size, call->byte, processes->peer, size, call->byte, call->world))
        return qkv_error_set(error, "the processes of mpirun cannot reach each other");
    for (int i = 0; i < processes->count; i++) {
        const struct peer *peer = &processes->peer[i];
        snprintf(processes->name[i], sizeof processes->name[i], "process %d on %s", i, peer->host);
        processes->is_near[i] = !strcmp(peer->machine, self.machine) && is_alive(peer);
        processes->near += processes->is_near[i];
    }
    return QKV_OK;
}

static void release(struct qkv_processes *processes)
{
    free(processes->peer);
    free(processes->name);
    free(processes->is_near);
    free(processes->request);
    free(processes);
}

enum qkv_status qkv_processes_join(struct qkv_processes **processes, struct qkv_error *error)
{
    int provided, expected = qkv_launched_processes();
    *processes = NULL;
    if (expected == 1) return QKV_OK;
    struct qkv_processes *joined = calloc(1, sizeof *joined);
    if (!joined) return qkv_error_set(error, "out of memory for processes");
    struct mpi_library *call = &joined->call;
    if (load(call, error)) {
        free(joined);
        return QKV_INVALID;
    }
    enum qkv_status status = QKV_OK;
    if (call->MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) ||
        call->MPI_Comm_set_errhandler(call->world, call->errors_return) ||
        call->MPI_Comm_rank(call->world, &joined->rank) || call->MPI_Comm_size(call->world, &joined->count))
        status = qkv_error_set(error, MPI_NAME " cannot start");
    else if (expected && joined->count != expected)
        status = qkv_error_set(error,
                               "%d processes were started, but " MPI_NAME
                               " knows of %d: start them with the mpirun "
                               "of " MPI_NAME,
                               expected, joined->count);
    else
        status = meet(joined, error);
    if (!status && joined->count > 1) {
        joined->any_thread = provided >= MPI_THREAD_SERIALIZED;
        *processes = joined;
        return QKV_OK;
    }
    /* The other processes may wait for messages of this one. mpirun ends them when this process ends, which first prints
     * its error. */
    if (status && joined->count > 1)
        release(joined);
    else
        qkv_processes_leave(joined);
    return status;
}

void qkv_processes_leave(struct qkv_processes *processes)
{
    if (!processes) return;
    if (processes->is_broken)
        processes->call.MPI_Abort(processes->call.world, QKV_INVALID);
    else
        processes->call.MPI_Finalize();
    release(processes);
}

/* ---- messages ---- */

static bool has_died(const struct qkv_processes *processes, int rank)
{
    return processes->is_near[rank] && !is_alive(&processes->peer[rank]);
}

/* Fails if a process of this machine has died. Only the first process that is alive gets the message, the others an empty
 * one, so that it is printed once. */
static enum qkv_status check_peers(struct qkv_processes *processes, struct qkv_error *error)
{
    int dead = 0, first = 0;
    while (dead < processes->count && !has_died(processes, dead)) dead++;
    if (dead == processes->count) return QKV_OK;
    while (has_died(processes, first)) first++;
    processes->is_broken = true;
    return first == processes->rank ? qkv_error_set(error, "%s has died", processes->name[dead])
                                    : qkv_error_set(error, "%s", "");
}

/* Waits until a message has been sent or received. MPI's own wait would keep a processor busy, and would never return if
 * the other process has died. */
static enum qkv_status wait_for(struct qkv_processes *processes, MPI_Request *request,
                                struct qkv_error *error)
{
    const double busy = 1e-3, between_checks = 0.05; /* seconds */
    const struct timespec nap = {.tv_nsec = 50000};
    double begin = qkv_clock_seconds(), checked = begin;
    for (;;) {
        int is_done = 0;
        if (processes->call.MPI_Test(request, &is_done, MPI_STATUS_IGNORE)) {
            processes->is_broken = true;
            return qkv_error_set(error, "the connection to another process has broken");
        }
        if (is_done) return QKV_OK;
        double now = qkv_clock_seconds();
        if (now - begin < busy) {
            sched_yield();
            continue;
        }
        nanosleep(&nap, NULL);
        if (now - checked < between_checks) continue;
        checked = now;
        if (check_peers(processes, error)) return QKV_INVALID;
    }
}

/* Bytes of a message. Longer data are split into several messages, because MPI counts in int, and so that processes of a
 * broadcast can pass on one message while they receive the next. */
enum { MESSAGE = 1 << 22 };

static int part_of(size_t size, size_t done)
{
    return size - done < MESSAGE ? (int)(size - done) : MESSAGE;
}

static enum qkv_status begin_send(struct qkv_processes *processes, int to, const void *data, int size,
                                  MPI_Request *request, struct qkv_error *error)
{
    struct mpi_library *call = &processes->call;
    if (processes->is_broken) return qkv_error_set(error, "another process has ended");
    processes->sent += size;
    if (!call->MPI_Isend(data, size, call->byte, to, 0, call->world, request)) return QKV_OK;
    processes->is_broken = true;
    return qkv_error_set(error, "%s cannot be reached", processes->name[to]);
}

static enum qkv_status begin_receive(struct qkv_processes *processes, int from, void *data, int size,
                                     MPI_Request *request, struct qkv_error *error)
{
    struct mpi_library *call = &processes->call;
    if (processes->is_broken) return qkv_error_set(error, "another process has ended");
    if (!call->MPI_Irecv(data, size, call->byte, from, 0, call->world, request)) return QKV_OK;
    processes->is_broken = true;
    return qkv_error_set(error, "%s cannot be reached", processes->name[from]);
}

static enum qkv_status send_part(struct qkv_processes *processes, int to, const void *data, int size,
                                 struct qkv_error *error)
{
    MPI_Request request;
    if (begin_send(processes, to, data, size, &request, error)) return QKV_INVALID;
    return wait_for(processes, &request, error);
}

static enum qkv_status receive_part(struct qkv_processes *processes, int from, void *data, int size,
                                    struct qkv_error *error)
{
    MPI_Request request;
    if (begin_receive(processes, from, data, size, &request, error)) return QKV_INVALID;
    return wait_for(processes, &request, error);
}

enum qkv_status qkv_exchange_send(struct qkv_processes *processes, int to, const void *data, size_t size,
                                  struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (size_t done = 0; processes && !status && done < size; done += MESSAGE)
        status = send_part(processes, to, (const char *)data + done, part_of(size, done), error);
    return status;
}

enum qkv_status qkv_exchange_receive(struct qkv_processes *processes, int from, void *data, size_t size,
                                     struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (size_t done = 0; processes && !status && done < size; done += MESSAGE)
        status = receive_part(processes, from, (char *)data + done, part_of(size, done), error);
    return status;
}

/* Process r receives from r without its highest bit, and sends to r with each higher one. */
static enum qkv_status broadcast_part(struct qkv_processes *processes, char *part, int length,
                                      struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    int rank = processes->rank, highest = 0;
    for (int bit = 1; bit <= rank; bit *= 2)
        if (rank & bit) highest = bit;
    if (rank) status = receive_part(processes, rank - highest, part, length, error);
    for (int bit = highest ? 2 * highest : 1; !status && rank + bit < processes->count; bit *= 2)
        status = send_part(processes, rank + bit, part, length, error);
    return status;
}

/* A part of a broadcast, in as many slices as there are processes. */
struct slices {
    char *data;
    size_t size, slice;
};

static char *slice_of(const struct slices *slices, int i, int *length)
{
    size_t start = (size_t)i * slices->slice, rest = start < slices->size ? slices->size - start : 0;
    *length = (int)(rest < slices->slice ? rest : slices->slice);
    return slices->data + (rest ? start : 0);
}

/* Sends slice i to all but process 0 and this one. */
static enum qkv_status pass_on(struct qkv_processes *processes, const struct slices *slices, int i,
                               MPI_Request *request, struct qkv_error *error)
{
    int length;
    const char *slice = slice_of(slices, i, &length);
    for (int to = 1; to < processes->count; to++)
        if (to != processes->rank && begin_send(processes, to, slice, length, request + to, error))
            return QKV_INVALID;
    return QKV_OK;
}

/* Process 0 sends slice r to process r, which passes it on to the others, and slice 0 to all. So each process sends at most
 * 2 (n - 1) / n of the data; with the slice that it adds, a step of training sends as much from every process. */
static enum qkv_status broadcast_slices(struct qkv_processes *processes, const struct slices *slices,
                                        struct qkv_error *error)
{
    MPI_Request *sent = processes->request, *received = sent + processes->count;
    int length, rank = processes->rank, count = processes->count;
    for (int i = 0; i < 2 * count; i++) sent[i] = processes->call.request_null;
    for (int i = 1; rank == 0 && i < count; i++) {
        char *slice = slice_of(slices, i, &length);
        if (begin_send(processes, i, slice, length, &received[i], error)) return QKV_INVALID;
    }
    for (int i = -1; rank > 0 && i < count; i++) { /* its own slice comes first */
        if (i == rank) continue;
        int from = i < 0 ? 0 : i, slice_index = i < 0 ? rank : i;
        char *slice = slice_of(slices, slice_index, &length);
        if (begin_receive(processes, from, slice, length, &received[slice_index], error)) return QKV_INVALID;
    }
    if (rank > 0 && wait_for(processes, &received[rank], error)) return QKV_INVALID;
    if (pass_on(processes, slices, rank, sent, error)) return QKV_INVALID;
    for (int i = 0; i < 2 * count; i++)
        if (wait_for(processes, &sent[i], error)) return QKV_INVALID;
    return QKV_OK;
}

enum qkv_status qkv_exchange_broadcast(struct qkv_processes *processes, void *data, size_t size,
                                       struct qkv_error *error)
{
    enum { SLICED_FROM = 1 << 16 }; /* bytes of a slice; below, the latency of more messages costs more */
    enum qkv_status status = QKV_OK;
    if (!processes) return QKV_OK;
    size_t count = (size_t)processes->count, max = count * MESSAGE;
    bool is_sliced = count > 2 && size >= count * SLICED_FROM;
    for (size_t done = 0; !status && done < size; done += is_sliced ? max : MESSAGE) {
        char *part = (char *)data + done;
        size_t length = size - done < max ? size - done : max;
        const struct slices slices = {part, length, (length + count - 1) / count};
        status = is_sliced ? broadcast_slices(processes, &slices, error)
                           : broadcast_part(processes, part, part_of(size, done), error);
    }
    return status;
}

enum qkv_status qkv_exchange_collect(struct qkv_processes *processes, void *items, size_t size, int count,
                                     struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int rank = 1; processes && !status && rank < processes->count; rank++) {
        int first = qkv_exchange_first(processes, rank, count),
            end = qkv_exchange_first(processes, rank + 1, count);
        char *slice = (char *)items + (size_t)first * size;
        size_t bytes = (size_t)(end - first) * size;
        if (processes->rank == 0) status = qkv_exchange_receive(processes, rank, slice, bytes, error);
        if (processes->rank == rank) status = qkv_exchange_send(processes, 0, slice, bytes, error);
    }
    return status;
}

/* ---- a thread that exchanges ---- */

bool qkv_exchange_start(struct qkv_processes *processes, void *(*function)(void *context), void *context)
{
    return processes && processes->any_thread && !pthread_create(&processes->thread, NULL, function, context);
}

void qkv_exchange_finish(struct qkv_processes *processes)
{
    pthread_join(processes->thread, NULL);
}

void qkv_exchange_nap(void)
{
    const struct timespec nap = {.tv_nsec = 200000};
    nanosleep(&nap, NULL);
}

/* ---- facts ---- */

int qkv_processes_rank(const struct qkv_processes *processes)
{
    return processes ? processes->rank : 0;
}

int qkv_processes_count(const struct qkv_processes *processes)
{
    return processes ? processes->count : 1;
}

int qkv_processes_threads(const struct qkv_processes *processes)
{
    if (!processes) return 0;
    /* mpirun may have bound each process to processors of its own; without, the processes share them. */
    long share = sysconf(_SC_NPROCESSORS_ONLN) / processes->near;
    int available = qkv_processors_available();
    return share < 1 ? 1 : share < available ? (int)share : available;
}

void qkv_processes_abort(struct qkv_processes *processes)
{
    if (processes) processes->is_broken = true;
}

const char *qkv_exchange_name(const struct qkv_processes *processes, int rank)
{
    return processes->name[rank];
}

int64_t qkv_exchange_sent(const struct qkv_processes *processes)
{
    return processes->sent;
}

bool qkv_exchange_is_broken(const struct qkv_processes *processes)
{
    return processes && processes->is_broken;
}

enum qkv_status qkv_processes_share_status(struct qkv_processes *processes, enum qkv_status status)
{
    return qkv_exchange_broadcast(processes, &status, sizeof status, NULL) ? QKV_INVALID : status;
}
