/* Loaded into qkv with LD_PRELOAD: counts its allocations and its system calls, and makes some of them fail.
 *
 *     QKV_FAULT="KIND FIRST LAST [ERRNO]"     QKV_FAULT_REPORT=FILE   (report.h; the file must be that large)
 *
 *     count    nothing fails
 *     memory   allocations FIRST to LAST find no memory
 *     call     system calls FIRST to LAST fail with ERRNO
 *     short    calls FIRST to LAST that are reads or writes transfer half of what is asked
 *     kill     the process is killed in system call FIRST; if this is a write, after half of its bytes
 *     signal   the process gets the signal ERRNO before system call FIRST
 *
 * Only what the program itself causes is counted, also through the C library and the libraries in COUNTED. Others
 * (GLib, Pango, Cairo, fontconfig, OpenBLAS) abort when memory runs out, which the program cannot prevent. The system
 * traps the calls (seccomp), so those of stdio are among them, which no function of ours could replace. */
#include "report.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size), *__libc_memalign(size_t alignment, size_t size);

enum kind { COUNT, MEMORY, CALL, SHORT, KILL, SIGNAL };
static const char *const KINDS[] = {"count", "memory", "call", "short", "kill", "signal"};
static struct {
    enum kind kind;
    long first, last;
    int code; /* ERRNO */
} fault;
static struct fault_report *report; /* NULL before and after main: nothing is counted */

/* ---- whose call it is ---- */

enum owner { NOBODY, LIBC, PROGRAM, OTHER }; /* LIBC: whoever called the C library */
static const char *const COUNTED[] = {"libqkv", "libyaml", "libcjson", "libz.", "libutf8proc"};
static struct {
    uintptr_t begin, end;
    enum owner owner;
} modules[256];
static int module_count;

static int add_module(struct dl_phdr_info *info, size_t size, void *unused)
{
    static const char *const LIBC_NAMES[] = {"libc.", "ld-linux", "libqkv_inject", "linux-vdso"};
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    enum owner owner = *name ? OTHER : PROGRAM;
    for (size_t i = 0; i < sizeof COUNTED / sizeof *COUNTED; i++)
        if (!strncmp(name, COUNTED[i], strlen(COUNTED[i]))) owner = PROGRAM;
    for (size_t i = 0; i < sizeof LIBC_NAMES / sizeof *LIBC_NAMES; i++)
        if (!strncmp(name, LIBC_NAMES[i], strlen(LIBC_NAMES[i]))) owner = LIBC;
    for (int i = 0; i < info->dlpi_phnum && module_count < 256; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        modules[module_count].begin = info->dlpi_addr + part->p_vaddr;
        modules[module_count].end = modules[module_count].begin + part->p_memsz;
        modules[module_count++].owner = owner;
    }
    (void)size, (void)unused;
    return 0;
}

static enum owner owner_of(uintptr_t address)
{
    for (int listed = 0; listed < 2; listed++) {
        for (int i = 0; i < module_count; i++)
            if (address >= modules[i].begin && address < modules[i].end) return modules[i].owner;
        module_count = 0; /* a library was loaded since */
        dl_iterate_phdr(add_module, NULL);
    }
    return NOBODY;
}

/* Returns the address in the program from which it called, perhaps through the C library; NULL for other callers. */
static void *caller(void *nearest)
{
    void *frames[32];
    enum owner owner = nearest ? owner_of((uintptr_t)nearest) : LIBC;
    if (owner != LIBC) return owner == PROGRAM ? nearest : NULL;
    int count = backtrace(frames, 32);
    for (int i = 0; i < count; i++) {
        owner = owner_of((uintptr_t)frames[i]);
        if (owner != LIBC) return owner == PROGRAM ? frames[i] : NULL;
    }
    return NULL;
}

/* Counts a call of the program and returns whether it must fail. */
static bool fails(long *counter, bool concerned, const char *name, void *from)
{
    Dl_info module = {.dli_fname = "?"};
    long number = __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST);
    if (!concerned || number < fault.first || number > fault.last) return false;
    if (__atomic_fetch_add(&report->injected, 1, __ATOMIC_SEQ_CST)) return true;
    dladdr(from, &module);
    const char *slash = strrchr(module.dli_fname, '/');
    snprintf(report->where, sizeof report->where, "%s at %.40s+0x%lx", name,
             slash ? slash + 1 : module.dli_fname,
             (unsigned long)((uintptr_t)from - (uintptr_t)module.dli_fbase));
    return true;
}

/* ---- memory ---- */

static bool no_memory(const char *name, void *nearest)
{
    void *from = report ? caller(nearest) : NULL;
    if (!from || !fails(&report->allocations, fault.kind == MEMORY, name, from)) return false;
    errno = ENOMEM;
    return true;
}

#define NO_MEMORY(name) no_memory(name, __builtin_return_address(0))

void *malloc(size_t size)
{
    return NO_MEMORY("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return NO_MEMORY("calloc") ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return NO_MEMORY("realloc") ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return NO_MEMORY("aligned_alloc") ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    if (NO_MEMORY("posix_memalign")) return ENOMEM;
    void *found = __libc_memalign(alignment, size);
    if (found) *memory = found;
    return found ? 0 : ENOMEM;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    if (file < 0 && NO_MEMORY("mmap")) return MAP_FAILED;
    long address = syscall(SYS_mmap, at, size, protection, flags, file, offset);
    return (void *)address;
}

/* ---- system calls ---- */

#define ROW(name)                                                                                            \
    {                                                                                                        \
        SYS_##name, #name                                                                                    \
    }
static const struct {
    int number;
    const char *name;
} CALLS[] = {
    ROW(openat),    ROW(close),      ROW(read),      ROW(write),     ROW(pread64),    ROW(lseek),
    ROW(fstat),     ROW(newfstatat), ROW(fsync),     ROW(ftruncate), ROW(getdents64), ROW(flock),
    ROW(fcntl),     ROW(dup),        ROW(renameat),  ROW(mkdirat),   ROW(unlinkat),   ROW(linkat),
    ROW(faccessat), ROW(readlinkat), ROW(fallocate),
#ifdef SYS_open /* younger architectures have only those above */
    ROW(open),      ROW(stat),       ROW(rename),    ROW(mkdir),     ROW(unlink),     ROW(link),
    ROW(access),    ROW(readlink),
#endif
};
enum { CALL_COUNT = sizeof CALLS / sizeof *CALLS };

/* A sixth argument that no call has: with it, the filter lets our own calls through. */
static const unsigned long PASS = 0x9E3779B97F4A7C15;

static long perform(long number, const long a[5])
{
    long result = syscall(number, a[0], a[1], a[2], a[3], a[4], PASS);
    return result == -1 ? -errno : result;
}

static long call(long number, long a[5])
{
    const char *name = "";
    for (int i = 0; i < CALL_COUNT; i++)
        if (CALLS[i].number == number) name = CALLS[i].name;
    bool moves = (number == SYS_read || number == SYS_write) && a[2] > 1;
    bool message = number == SYS_write && a[0] == STDERR_FILENO; /* without it there is nothing to check */
    void *from = report && !message ? caller(NULL) : NULL;
    bool concerned =
        fault.kind == CALL || fault.kind == KILL || fault.kind == SIGNAL || (fault.kind == SHORT && moves);
    if (!from || !fails(&report->calls, concerned, name, from)) return perform(number, a);
    if (fault.kind == SIGNAL) {
        kill(getpid(), fault.code);
        return perform(number, a);
    }
    if (fault.kind == CALL && number != SYS_close) return -fault.code;
    if (fault.kind == KILL && number != SYS_write) kill(getpid(), SIGKILL);
    if (moves) a[2] /= 2;
    long result = perform(number, a);
    if (fault.kind == KILL) kill(getpid(), SIGKILL);
    return fault.kind == CALL ? -fault.code : result; /* a file is closed also when close fails */
}

static void on_system_call(int signal, siginfo_t *info, void *context)
{
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    int kept = errno;
    (void)signal;
#if defined(__x86_64__)
    greg_t *r = machine->gregs;
    r[REG_RAX] = call(info->si_syscall, (long[]){r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8]});
#elif defined(__aarch64__)
    unsigned long long *r = machine->regs;
    long a[] = {(long)r[0], (long)r[1], (long)r[2], (long)r[3], (long)r[4]};
    r[0] = (unsigned long long)call(info->si_syscall, a);
#else
#    error "where are the arguments of a system call on this machine?"
#endif
    errno = kept;
}

/* Has the system trap the calls of CALLS unless they carry PASS. Returns 0 or an errno. */
static int trap_calls(void)
{
    enum { N = CALL_COUNT };
    const unsigned argument = offsetof(struct seccomp_data, args[5]);
    struct sock_filter filter[N + 8] = {
        [0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        [N + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        [N + 2] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
        [N + 3] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)PASS, 0, 2),
        [N + 4] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument + 4),
        [N + 5] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(PASS >> 32), 1, 0),
        [N + 6] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        [N + 7] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    for (unsigned i = 1; i <= N; i++) /* to N + 2 */
        filter[i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)CALLS[i - 1].number,
                                                 (unsigned char)(N + 1 - i), 0);
    struct sock_fprog program = {N + 8, filter};
    struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? errno : 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    void *from = report ? caller(__builtin_return_address(0)) : NULL;
    if (from && fails(&report->calls, fault.kind == CALL, "pthread_create", from)) return fault.code;
    return next(thread, attributes, start, argument);
}

/* ---- from the start of main to its end ---- */

typedef int main_function(int argc, char **argv, char **environment);
static main_function *program_main;

static struct fault_report *open_report(void)
{
    char kind[16] = "";
    const char *text = getenv("QKV_FAULT"), *path = getenv("QKV_FAULT_REPORT");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0 || !text) return NULL;
    sscanf(text, "%15s %ld %ld %d", kind, &fault.first, &fault.last, &fault.code);
    while (fault.kind < SIGNAL && strcmp(kind, KINDS[fault.kind]) != 0) fault.kind++;
    void *shared = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return shared == MAP_FAILED ? NULL : shared;
}

static int counted_main(int argc, char **argv, char **environment)
{
    void *frame;
    struct fault_report *opened = open_report();
    backtrace(&frame, 1); /* loads the unwinder, which allocates */
    owner_of(0);
    if (opened && fault.kind != MEMORY) opened->refused = trap_calls();
    report = opened;
    int code = program_main(argc, argv, environment);
    report = NULL;
    return code;
}

int __libc_start_main(main_function *function, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end);
int __libc_start_main(main_function *function, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end)
{
    int (*next)(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    program_main = function;
    return next(counted_main, argc, argv, init, fini, loader_fini, stack_end);
}
