/* MPI (Open MPI or MPICH, whichever header there was) is loaded only if mpirun has started the process, so that all other
 * processes start as fast as without MPI and need no MPI library. A build without the MPI header leaves this file out. */
#include "processes/processes.h"

#include "core/memory.h"
#include "core/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

/* The functions of MPI that are called here, and the handles: OBJECT(name, type, symbol, value). In Open MPI a handle is the
 * address of a symbol of the library, in MPICH a number, the value. */
#define FUNCTIONS(FUNCTION)                                                                                  \
    FUNCTION(MPI_Init_thread)                                                                                \
    FUNCTION(MPI_Comm_rank)                                                                                  \
    FUNCTION(MPI_Comm_size)                                                                                  \
    FUNCTION(MPI_Comm_set_errhandler)                                                                        \
    FUNCTION(MPI_Allgather)                                                                                  \
    FUNCTION(MPI_Isend)                                                                                      \
    FUNCTION(MPI_Irecv)                                                                                      \
    FUNCTION(MPI_Test)                                                                                       \
    FUNCTION(MPI_Finalize)                                                                                   \
    FUNCTION(MPI_Abort)
#define OBJECTS(OBJECT)                                                                                      \
    OBJECT(world, MPI_Comm, ompi_mpi_comm_world, MPI_COMM_WORLD)                                             \
    OBJECT(byte, MPI_Datatype, ompi_mpi_byte, MPI_BYTE)                                                      \
    OBJECT(errors_return, MPI_Errhandler, ompi_mpi_errors_return, MPI_ERRORS_RETURN)                         \
    OBJECT(request_null, MPI_Request, ompi_request_null, MPI_REQUEST_NULL)

struct mpi_library {
#define FUNCTION_MEMBER(name)                    __typeof__(name) *name;
#define OBJECT_MEMBER(name, type, symbol, value) type name;
    FUNCTIONS(FUNCTION_MEMBER)
    OBJECTS(OBJECT_MEMBER)
};

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct mpi_library */
} SYMBOLS[] = {
#define FUNCTION_SYMBOL(name)                    {#name, offsetof(struct mpi_library, name)},
#define OBJECT_SYMBOL(name, type, symbol, value) {#symbol, offsetof(struct mpi_library, name)},
    FUNCTIONS(FUNCTION_SYMBOL)
#ifdef OPEN_MPI
        OBJECTS(OBJECT_SYMBOL)
#endif
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

struct mpi_processes {
    struct qkv_processes base;
    struct mpi_library call;
    struct peer *peer;    /* [count] */
    MPI_Request *request; /* [2 count] of a broadcast */
    bool *is_near;        /* [count]: on this machine, so that kill can test whether it is alive */
};

/* ---- joining ---- */

/* RTLD_GLOBAL: Open MPI loads plug-ins, which look for its functions among the global symbols. */
static enum qkv_status load(struct mpi_library *library, struct qkv_error *error)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    bool complete = handle;
#ifndef OPEN_MPI
#    define SET_OBJECT(name, type, symbol, value) library->name = value;
    OBJECTS(SET_OBJECT)
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

static enum qkv_status meet(struct mpi_processes *mpi, struct qkv_error *error)
{
    struct mpi_library *call = &mpi->call;
    struct peer self = {.process = (long)getpid()};
    gethostname(self.host, sizeof self.host - 1);
    name_machine(&self);
    mpi->peer = calloc((size_t)mpi->base.count, sizeof *mpi->peer);
    mpi->base.name = calloc((size_t)mpi->base.count, sizeof *mpi->base.name);
    mpi->is_near = calloc((size_t)mpi->base.count, sizeof *mpi->is_near);
    mpi->request = calloc(2 * (size_t)mpi->base.count, sizeof(MPI_Request));
    if (!mpi->peer || !mpi->base.name || !mpi->is_near || !mpi->request) return qkv_no_memory(error);
    int size = (int)sizeof self;
    if (call->MPI_Allgather(&self, size, call->byte, mpi->peer, size, call->byte, call->world))
        return qkv_error_set(error, "the processes of mpirun cannot reach each other");
    for (int i = 0; i < mpi->base.count; i++) {
        const struct peer *peer = &mpi->peer[i];
        snprintf(mpi->base.name[i], sizeof mpi->base.name[i], "process %d on %s", i, peer->host);
        mpi->is_near[i] = !strcmp(peer->machine, self.machine) && is_alive(peer);
        mpi->base.near += mpi->is_near[i];
    }
    return QKV_OK;
}

static void release(struct mpi_processes *mpi)
{
    free(mpi->peer);
    free(mpi->base.name);
    free(mpi->is_near);
    free(mpi->request);
    free(mpi);
}

static void leave(struct qkv_processes *processes)
{
    struct mpi_processes *mpi = (struct mpi_processes *)processes;
    if (processes->is_broken)
        mpi->call.MPI_Abort(mpi->call.world, QKV_INVALID);
    else
        mpi->call.MPI_Finalize();
    release(mpi);
}

static enum qkv_status start(struct mpi_processes *mpi, int expected, struct qkv_error *error)
{
    struct mpi_library *call = &mpi->call;
    int provided;
    if (call->MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) ||
        call->MPI_Comm_set_errhandler(call->world, call->errors_return) ||
        call->MPI_Comm_rank(call->world, &mpi->base.rank) ||
        call->MPI_Comm_size(call->world, &mpi->base.count))
        return qkv_error_set(error, MPI_NAME " cannot start");
    mpi->base.any_thread = provided >= MPI_THREAD_SERIALIZED;
    if (expected && mpi->base.count != expected)
        return qkv_error_set(error,
                             "%d processes were started, but " MPI_NAME
                             " knows of %d: start them with the mpirun "
                             "of " MPI_NAME,
                             expected, mpi->base.count);
    return meet(mpi, error);
}

static const struct qkv_transport TRANSPORT;

enum qkv_status qkv_mpi_join(struct qkv_processes **processes, int expected, struct qkv_error *error)
{
    struct mpi_processes *mpi = calloc(1, sizeof *mpi);
    if (!mpi) return qkv_no_memory(error);
    mpi->base.transport = &TRANSPORT;
    if (load(&mpi->call, error)) {
        free(mpi);
        return QKV_INVALID;
    }
    enum qkv_status status = start(mpi, expected, error);
    if (!status && mpi->base.count > 1) {
        *processes = &mpi->base;
        return QKV_OK;
    }
    /* The other processes may wait for messages of this one. mpirun ends them when this process ends, which first prints
     * its error. */
    if (status && mpi->base.count > 1)
        release(mpi);
    else
        leave(&mpi->base);
    return status;
}

/* ---- messages ---- */

static bool has_died(const struct mpi_processes *mpi, int rank)
{
    return mpi->is_near[rank] && !is_alive(&mpi->peer[rank]);
}

/* Fails if a process of this machine has died. Only the first process that is alive gets the message, the others an empty
 * one, so that it is printed once. */
static enum qkv_status check_peers(struct mpi_processes *mpi, struct qkv_error *error)
{
    int dead = 0, first = 0;
    while (dead < mpi->base.count && !has_died(mpi, dead)) dead++;
    if (dead == mpi->base.count) return QKV_OK;
    while (has_died(mpi, first)) first++;
    mpi->base.is_broken = true;
    return first == mpi->base.rank ? qkv_error_set(error, "%s has died", mpi->base.name[dead])
                                   : qkv_error_set(error, "%s", "");
}

/* Waits until a message has been sent or received. MPI's own wait would keep a processor busy, and would never return if
 * the other process has died. */
static enum qkv_status wait_for(struct mpi_processes *mpi, MPI_Request *request, struct qkv_error *error)
{
    const double busy = 1e-3, between_checks = 0.05; /* seconds */
    const struct timespec nap = {.tv_nsec = 50000};
    double begin = qkv_clock_seconds(), checked = begin;
    for (;;) {
        int is_done = 0;
        if (mpi->call.MPI_Test(request, &is_done, MPI_STATUS_IGNORE)) {
            mpi->base.is_broken = true;
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
        if (check_peers(mpi, error)) return QKV_INVALID;
    }
}

/* Bytes of a message. Longer data are split into several messages, because MPI counts in int, and so that processes of a
 * broadcast can pass on one message while they receive the next. */
enum { MESSAGE = 1 << 22 };

static int part_of(size_t size, size_t done)
{
    return size - done < MESSAGE ? (int)(size - done) : MESSAGE;
}

/* Begins to send a message to another process, or to receive one from it. */
static enum qkv_status begin_message(struct mpi_processes *mpi, bool sends, int peer, void *data, int size,
                                     MPI_Request *request, struct qkv_error *error)
{
    const struct mpi_library *call = &mpi->call;
    if (mpi->base.is_broken) return qkv_error_set(error, "another process has ended");
    if (sends) mpi->base.sent += size;
    int code = sends ? call->MPI_Isend(data, size, call->byte, peer, 0, call->world, request)
                     : call->MPI_Irecv(data, size, call->byte, peer, 0, call->world, request);
    if (!code) return QKV_OK;
    mpi->base.is_broken = true;
    return qkv_error_set(error, "%s cannot be reached", mpi->base.name[peer]);
}

static enum qkv_status transfer(struct mpi_processes *mpi, bool sends, int peer, void *data, size_t size,
                                struct qkv_error *error)
{
    for (size_t done = 0; done < size; done += MESSAGE) {
        MPI_Request request;
        if (begin_message(mpi, sends, peer, (char *)data + done, part_of(size, done), &request, error) ||
            wait_for(mpi, &request, error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status send_all(struct qkv_processes *processes, int to, const void *data, size_t size,
                                struct qkv_error *error)
{
    return transfer((struct mpi_processes *)processes, true, to, (void *)data, size, error);
}

static enum qkv_status receive_all(struct qkv_processes *processes, int from, void *data, size_t size,
                                   struct qkv_error *error)
{
    return transfer((struct mpi_processes *)processes, false, from, data, size, error);
}

/* Process r receives from r without its highest bit, and sends to r with each higher one. */
static enum qkv_status broadcast_part(struct mpi_processes *mpi, char *part, size_t length,
                                      struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    int rank = mpi->base.rank, highest = 0;
    for (int bit = 1; bit <= rank; bit *= 2)
        if (rank & bit) highest = bit;
    if (rank) status = transfer(mpi, false, rank - highest, part, length, error);
    for (int bit = highest ? 2 * highest : 1; !status && rank + bit < mpi->base.count; bit *= 2)
        status = transfer(mpi, true, rank + bit, part, length, error);
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
static enum qkv_status pass_on(struct mpi_processes *mpi, const struct slices *slices, int i,
                               MPI_Request *request, struct qkv_error *error)
{
    int length;
    char *slice = slice_of(slices, i, &length);
    for (int to = 1; to < mpi->base.count; to++)
        if (to != mpi->base.rank && begin_message(mpi, true, to, slice, length, request + to, error))
            return QKV_INVALID;
    return QKV_OK;
}

/* Process 0 sends slice r to process r, which passes it on to the others, and slice 0 to all. So each process sends at most
 * 2 (n - 1) / n of the data; with the slice that it adds, a step of training sends as much from every process. */
static enum qkv_status broadcast_slices(struct mpi_processes *mpi, const struct slices *slices,
                                        struct qkv_error *error)
{
    MPI_Request *sent = mpi->request, *received = sent + mpi->base.count;
    int length, rank = mpi->base.rank, count = mpi->base.count;
    for (int i = 0; i < 2 * count; i++) sent[i] = mpi->call.request_null;
    for (int i = 1; rank == 0 && i < count; i++) {
        char *slice = slice_of(slices, i, &length);
        if (begin_message(mpi, true, i, slice, length, &received[i], error)) return QKV_INVALID;
    }
    for (int i = -1; rank > 0 && i < count; i++) { /* its own slice comes first */
        if (i == rank) continue;
        int from = i < 0 ? 0 : i, slice_index = i < 0 ? rank : i;
        char *slice = slice_of(slices, slice_index, &length);
        if (begin_message(mpi, false, from, slice, length, &received[slice_index], error)) return QKV_INVALID;
    }
    if (rank > 0 && wait_for(mpi, &received[rank], error)) return QKV_INVALID;
    if (pass_on(mpi, slices, rank, sent, error)) return QKV_INVALID;
    for (int i = 0; i < 2 * count; i++)
        if (wait_for(mpi, &sent[i], error)) return QKV_INVALID;
    return QKV_OK;
}

static enum qkv_status broadcast(struct qkv_processes *processes, void *data, size_t size,
                                 struct qkv_error *error)
{
    struct mpi_processes *mpi = (struct mpi_processes *)processes;
    enum { SLICED_FROM = 1 << 16 }; /* bytes of a slice; below, the latency of more messages costs more */
    enum qkv_status status = QKV_OK;
    size_t count = (size_t)processes->count, max = count * MESSAGE;
    bool is_sliced = count > 2 && size >= count * SLICED_FROM;
    for (size_t done = 0; !status && done < size; done += is_sliced ? max : MESSAGE) {
        char *part = (char *)data + done;
        size_t length = size - done < max ? size - done : max;
        const struct slices slices = {part, length, (length + count - 1) / count};
        status = is_sliced ? broadcast_slices(mpi, &slices, error)
                           : broadcast_part(mpi, part, (size_t)part_of(size, done), error);
    }
    return status;
}

static const struct qkv_transport TRANSPORT = {
    .send = send_all, .receive = receive_all, .broadcast = broadcast, .leave = leave};
