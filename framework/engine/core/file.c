/* Files that are written atomically, opening of files, folders, temporary files, and CRC-32. */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- temporary files ---- */

enum { CAPACITY = 1024 };

/* Lock-free, because a signal handler reads them. */
static _Atomic(const char *) paths[CAPACITY];
static atomic_bool is_removing;

bool qkv_temporary_add(const char *path)
{
    for (int i = 0; i < CAPACITY; i++) {
        const char *nothing = NULL;
        if (atomic_compare_exchange_strong(&paths[i], &nothing, path)) return true;
    }
    return false;
}

/* The order of the two steps matters and is the opposite of that in qkv_file_remove_temporary: either that function finds
 * that the path is gone, or this one finds that the other has begun. */
bool qkv_temporary_forget(const char *path)
{
    for (int i = 0; i < CAPACITY; i++) {
        const char *same = path;
        if (atomic_compare_exchange_strong(&paths[i], &same, NULL)) break;
    }
    return !atomic_load(&is_removing);
}

void qkv_file_remove_temporary(void)
{
    atomic_store(&is_removing, true);
    /* First the files, then the folders that held them. */
    for (int i = 0; i < CAPACITY; i++) {
        const char *path = atomic_load(&paths[i]);
        if (path) unlink(path);
    }
    for (int i = 0; i < CAPACITY; i++) {
        const char *path = atomic_load(&paths[i]);
        if (path) rmdir(path);
    }
}

/* ---- files and folders ---- */

static enum qkv_status cannot_write(const char *path, int code, struct qkv_error *error)
{
    const char *name = strrchr(path, '/');
    if (code == ENOENT && name)
        return qkv_error_set(error, "%s: cannot be written: there is no folder %.*s", path,
                             name > path ? (int)(name - path) : 1, path);
    return qkv_error_set(error, "%s: cannot be written: %s", path, code ? strerror(code) : "a write failed");
}

/* Describes what is at a path instead of a regular file. */
static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "it is a folder"
           : S_ISFIFO(mode) ? "it is a named pipe"
                            : "it is not a regular file";
}

static bool is_named(const char *path, struct qkv_error *error)
{
    if (!*path) qkv_error_set(error, "the name of a file or folder is empty");
    return *path;
}

int qkv_file_open(const char *path, bool regular, struct qkv_error *error)
{
    if (!is_named(path, error)) return -1;
    /* Without O_NONBLOCK, opening a named pipe or a device such as a modem would block. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), code = errno;
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status)) {
        qkv_error_set(error, "%s: cannot be read: %s", path, strerror(descriptor < 0 ? code : errno));
    } else {
        bool pipe = S_ISFIFO(status.st_mode) && !qkv_is_open_file(path);
        bool refused = regular ? !S_ISREG(status.st_mode) : S_ISDIR(status.st_mode) || pipe;
        int flags = fcntl(descriptor, F_GETFL);
        if (!refused && flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0) return descriptor;
        qkv_error_set(error, "%s: cannot be read: %s", path,
                      refused ? kind_of(status.st_mode) : strerror(errno));
    }
    if (descriptor >= 0) close(descriptor);
    return -1;
}

FILE *qkv_file_stream(const char *path, bool regular, struct qkv_error *error)
{
    int descriptor = qkv_file_open(path, regular, error);
    FILE *stream = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
    if (stream || descriptor < 0) return stream;
    qkv_error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    close(descriptor);
    return NULL;
}

enum qkv_status qkv_file_check(const char *path, struct qkv_error *error)
{
    int descriptor = qkv_file_open(path, true, error);
    if (descriptor < 0) return QKV_INVALID;
    close(descriptor);
    return QKV_OK;
}

static void remove_temporary(const struct qkv_file_writer *writer)
{
    if (writer->temporary) unlink(writer->temporary);
}

static void release(struct qkv_file_writer *writer)
{
    free(writer->path);
    if (writer->temporary && qkv_temporary_forget(writer->temporary)) free(writer->temporary);
    *writer = (struct qkv_file_writer){0};
}

/* Creates a file with a new name. mkstemp would create a private file (0600), and the umask, which determines the right
 * permissions, cannot be read without changing it for all threads. */
static int open_temporary(struct qkv_file_writer *writer, size_t size)
{
    for (int number = 0;; number++) {
        snprintf(writer->temporary, size, "%s.%ld.%d.tmp", writer->path, (long)getpid(), number);
        if (!qkv_temporary_add(writer->temporary)) {
            errno = EMFILE;
            return -1;
        }
        int descriptor = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
        if (!qkv_temporary_forget(writer->temporary)) return -1;
    }
}

/* Whether a path names a device, or a file that is open already, neither of which a new file can replace. */
static bool is_written_directly(const char *path, mode_t mode)
{
    return S_ISCHR(mode) || !strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr") ||
           qkv_is_open_file(path);
}

enum qkv_status qkv_file_begin(struct qkv_file_writer *writer, const char *path, struct qkv_error *error)
{
    *writer = (struct qkv_file_writer){0};
    if (!is_named(path, error)) return QKV_INVALID;
    struct stat there = {0};
    bool exists = !stat(path, &there), direct = is_written_directly(path, there.st_mode);
    if (exists && !direct && !S_ISREG(there.st_mode))
        return qkv_error_set(error, "%s: cannot be written: %s", path, kind_of(there.st_mode));
    size_t size = strlen(path) + 48;
    writer->path = malloc(size);
    writer->temporary = direct ? NULL : malloc(size);
    if (!writer->path || (!writer->temporary && !direct)) {
        release(writer);
        return cannot_write(path, ENOMEM, error);
    }
    strcpy(writer->path, path);
    /* O_APPEND: standard output may be a file that has text already. */
    int descriptor =
        direct ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY) : open_temporary(writer, size);
    writer->file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (writer->file) return QKV_OK;
    int code = errno;
    if (descriptor >= 0) {
        close(descriptor);
        remove_temporary(writer);
    }
    release(writer);
    if (direct) return qkv_error_set(error, "%s: cannot be written: %s", path, strerror(code));
    return cannot_write(path, code, error);
}

/* A rename survives a power cut only if its folder is synced too. Returns 0 or an errno. Some file systems cannot sync
 * folders and return EINVAL, which is no error here. */
static int sync_folder(const char *path)
{
    char *copy = strdup(path);
    if (!copy) return ENOMEM;
    int descriptor = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (descriptor < 0) return errno == EACCES ? 0 : errno; /* a folder may be writable but not readable */
    int code = fsync(descriptor) && errno != EINVAL ? errno : 0;
    close(descriptor);
    return code;
}

/* The errno of an earlier write that failed, which later calls have overwritten: another write fails for the same reason, such
 * as a full disk. Returns -1 if it does not fail. */
static int errno_of_failed_write(FILE *file)
{
    return write(fileno(file), "", 1) < 0 ? errno : -1;
}

/* Writes all buffers, to the disk if there is a temporary file. Returns 0, or the errno of the first error, or -1 if that errno
 * is lost. */
static int flush(const struct qkv_file_writer *writer)
{
    errno = 0;
    if (fflush(writer->file)) return errno ? errno : -1;
    if (ferror(writer->file)) return errno_of_failed_write(writer->file);
    return writer->temporary && fsync(fileno(writer->file)) ? errno : 0;
}

enum qkv_status qkv_file_commit(struct qkv_file_writer *writer, struct qkv_error *error)
{
    if (!writer->file) return qkv_error_set(error, "qkv_file_commit: no file was begun");
    int code = flush(writer);
    if (fclose(writer->file) && !code) code = errno;
    bool replaces = writer->temporary != NULL;
    if (!code && replaces && rename(writer->temporary, writer->path)) code = errno;
    int sync_code = code || !replaces ? 0 : sync_folder(writer->path);
    enum qkv_status status = QKV_OK;
    if (code) {
        remove_temporary(writer);
        status = cannot_write(writer->path, code > 0 ? code : 0, error);
    } else if (sync_code) {
        status = qkv_error_set(
            error, "%s: is written, but may not survive a power failure: its folder cannot be synced: %s",
            writer->path, strerror(sync_code));
    }
    release(writer);
    return status;
}

enum qkv_status qkv_file_write(const char *path, const void *bytes, size_t size, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    if (size) fwrite(bytes, 1, size, writer.file);
    return qkv_file_commit(&writer, error);
}

void qkv_file_abandon(struct qkv_file_writer *writer)
{
    if (!writer->file) return;
    fclose(writer->file);
    remove_temporary(writer);
    release(writer);
}

bool qkv_path_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static int make_one(const char *path)
{
    struct stat there;
    if (!mkdir(path, 0777)) return sync_folder(path);
    int code = errno;
    if (stat(path, &there)) return errno == ENOENT ? code : errno;
    return S_ISDIR(there.st_mode) ? 0 : ENOTDIR;
}

enum qkv_status qkv_folder_make(const char *path, struct qkv_error *error)
{
    if (!is_named(path, error)) return QKV_INVALID;
    char *copy = strdup(path);
    int code = copy ? 0 : ENOMEM;
    for (char *end = copy ? copy + 1 : NULL; end && !code; end++) {
        char kept = *end;
        if (kept && kept != '/') continue;
        *end = '\0';
        code = make_one(copy);
        *end = kept;
        if (!kept) break;
    }
    free(copy);
    if (!code) return QKV_OK;
    return qkv_error_set(error, "%s: cannot make this folder: %s", path, strerror(code));
}

/* ---- CRC-32 ---- */

/* TABLE[k][b]: the sum of byte b with k zero bytes behind it. Eight tables take eight bytes at a time (Kounavis and Berry
 * 2008, "slicing by 8"). */
static uint32_t TABLE[8][256];

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
        TABLE[0][byte] = sum;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            TABLE[k][byte] = TABLE[k - 1][byte] >> 8 ^ TABLE[0][TABLE[k - 1][byte] & 0xFF];
}

uint32_t qkv_crc32(uint32_t sum, const void *bytes, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
    const unsigned char *at = bytes;
    sum = ~sum;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + 4, 4);
        low ^= sum;
        sum = TABLE[7][low & 0xFF] ^ TABLE[6][low >> 8 & 0xFF] ^ TABLE[5][low >> 16 & 0xFF] ^
              TABLE[4][low >> 24] ^ TABLE[3][high & 0xFF] ^ TABLE[2][high >> 8 & 0xFF] ^
              TABLE[1][high >> 16 & 0xFF] ^ TABLE[0][high >> 24];
    }
    for (; size; size--, at++) sum = sum >> 8 ^ TABLE[0][(sum ^ *at) & 0xFF];
    return ~sum;
}
