#include "framework/engine/core/file.h"

#include "support.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- what is synced ---- */

static struct stat synced[16]; /* in the order of the calls */
static int synced_count;
static int folder_failure; /* errno of syncing a folder; 0: none */

/* Replaces the call of the system, so that tests see what is synced and can let it fail. */
int fsync(int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status)) return -1;
    if (synced_count < 16) synced[synced_count++] = status;
    if (!folder_failure || !S_ISDIR(status.st_mode)) return 0;
    errno = folder_failure;
    return -1;
}

static void expect_synced(int i, const char *path)
{
    struct stat status;
    cr_assert_lt(i, synced_count, "%s is not synced", path);
    cr_assert_eq(stat(path, &status), 0);
    cr_expect(status.st_ino == synced[i].st_ino && status.st_dev == synced[i].st_dev, "%d: not %s", i, path);
}

/* How many names a folder holds: a left-over temporary would count. */
static int names_in(const char *folder)
{
    return atoi(run("ls -A '%s' | wc -l", folder).output);
}

static void expect_text(const char *path, const char *text)
{
    char *found = read_file(path, NULL);
    cr_assert_not_null(found, "%s is missing", path);
    cr_assert_str_eq(found, text);
}

/* It has the permissions of any new file. */
Test(file, appears_at_commit_and_not_before)
{
    const char *folder = scratch("commit"), *path = format("%s/a.txt", folder);
    struct qkv_file_writer writer;
    struct stat found;
    umask(027);
    expect_done(qkv_file_begin(&writer, path, &error));
    fputs("whole", writer.file);
    cr_assert_null(read_file(path, NULL));
    expect_done(qkv_file_commit(&writer, &error));
    expect_text(path, "whole");
    cr_assert_eq(names_in(folder), 1);
    cr_assert_null(writer.file);
    cr_assert(stat(path, &found) == 0 && (found.st_mode & 0777) == 0640);
}

Test(file, replaces_the_old_file_only_at_commit)
{
    const char *folder = scratch("replace");
    const char *path = write_text(folder, "a.txt", "old");
    struct qkv_file_writer first, second;
    cr_assert_eq(qkv_file_begin(&first, path, NULL), QKV_OK);
    cr_assert_eq(qkv_file_begin(&second, path, NULL), QKV_OK);
    fputs("first", first.file);
    fputs("second", second.file);
    qkv_file_abandon(&first);
    qkv_file_abandon(&first);
    expect_text(path, "old");
    cr_assert_eq(qkv_file_commit(&second, NULL), QKV_OK);
    expect_text(path, "second");
    cr_assert_eq(names_in(folder), 1);
}

/* A small write fails at commit. A large block is written at once, so that nothing is left in the buffer whose writing would
 * fail again. */
Test(file, keeps_the_old_file_when_there_is_no_room)
{
    static const char block[100000];
    const char *folder = scratch("room"), *path = write_text(folder, "a.txt", "old");
    const char *message = format("%s: cannot be written: File too large", path);
    struct rlimit limit = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct qkv_file_writer writer;
    expect_done(qkv_file_begin(&writer, path, &error));
    for (int i = 0; i < 1200; i++) fputs("0123456789", writer.file);
    expect_refusal(qkv_file_commit(&writer, &error), message);
    cr_assert_null(writer.file);
    expect_refusal(qkv_file_write(path, block, sizeof block, &error), message);
    expect_text(path, "old");
    cr_assert_eq(names_in(folder), 1);
}

Test(file, says_why_it_cannot_begin)
{
    const char *folder = scratch("refuse");
    struct qkv_file_writer writer;
    expect_refusal(qkv_file_begin(&writer, folder, &error),
                   format("%s: cannot be written: it is a folder", folder));
    const char *path = format("%s/none/a.txt", folder);
    expect_refusal(qkv_file_begin(&writer, path, &error),
                   format("%s: cannot be written: there is no folder %s/none", path, folder));
    qkv_file_abandon(&writer);
}

/* A new file in place of /dev/stdout would take it away from every other program. */
Test(file, leaves_devices_and_open_files_in_their_places)
{
    const char *folder = scratch("direct"), *path = format("%s/out", folder);
    struct stat before, after;
    cr_assert_eq(lstat("/dev/null", &before), 0);
    expect_done(qkv_file_write("/dev/null", "abc", 3, &error));
    cr_assert_eq(lstat("/dev/null", &after), 0);
    cr_expect(before.st_ino == after.st_ino && S_ISCHR(after.st_mode));
    expect_refusal(qkv_file_write("/dev/full", "abc", 3, &error),
                   "/dev/full: cannot be written: No space left on device");
    FILE *file = fopen(path, "w");
    cr_assert(fputs("before ", file) >= 0 && !fflush(file));
    const char *open_file = format("/dev/fd/%d", fileno(file));
    expect_done(qkv_file_write(open_file, "after", 5, &error));
    struct qkv_file_writer writer;
    expect_done(qkv_file_begin(&writer, open_file, &error));
    qkv_file_abandon(&writer);
    fclose(file);
    expect_text(path, "before after");
    cr_expect_eq(names_in(folder), 1);
    expect_refusal(qkv_file_begin(&writer, "/dev/fd/999", &error),
                   "/dev/fd/999: cannot be written: No such file or directory");
}

Test(folder, is_made_with_its_parents)
{
    const char *folder = scratch("folder");
    const char *path = format("%s/a/b//c/", folder);
    cr_assert_eq(qkv_folder_make(path, &error), QKV_OK);
    cr_assert_eq(qkv_folder_make(path, &error), QKV_OK);
    cr_assert_eq(qkv_folder_make(".", &error), QKV_OK);
    struct stat found;
    cr_assert_eq(stat(path, &found), 0);
    cr_assert(S_ISDIR(found.st_mode));
    cr_assert_eq(qkv_folder_make("", &error), QKV_INVALID);
    path = format("%s/x", write_text(folder, "file", ""));
    expect_refusal(qkv_folder_make(path, &error),
                   format("%s: cannot make this folder: Not a directory", path));
}

/* ---- what a power failure leaves ---- */

Test(file, and_its_folder_are_synced)
{
    const char *folder = scratch("synced"), *path = format("%s/a.txt", folder);
    cr_assert_eq(qkv_file_write(path, "new", 3, NULL), QKV_OK);
    cr_expect_eq(synced_count, 2);
    expect_synced(0, path);
    expect_synced(1, folder);
}

/* The file is there: the message is another one than that of a file that cannot be written. */
Test(file, is_complete_when_only_its_folder_cannot_be_synced)
{
    const char *folder = scratch("unsynced"), *path = write_text(folder, "a.txt", "old");
    folder_failure = EIO;
    expect_refusal(qkv_file_write(path, "new", 3, &error),
                   format("%s: is written, but may not survive a power failure: its folder "
                          "cannot be synced: Input/output error",
                          path));
    expect_text(path, "new");
    cr_expect_eq(names_in(folder), 1);
    folder_failure = EINVAL; /* the file system cannot sync folders */
    cr_expect_eq(qkv_file_write(path, "newer", 5, &error), QKV_OK);
}

Test(folder, is_synced_into_its_parent)
{
    const char *folder = scratch("parents"), *made = format("%s/a/b", folder);
    cr_assert_eq(qkv_folder_make(made, NULL), QKV_OK);
    cr_expect_eq(synced_count, 2);
    expect_synced(0, folder);
    expect_synced(1, format("%s/a", folder));
    cr_assert_eq(qkv_folder_make(made, NULL), QKV_OK);
    cr_expect_eq(synced_count, 2, "nothing is made");
    folder_failure = EIO;
    made = format("%s/c", folder);
    expect_refusal(qkv_folder_make(made, &error),
                   format("%s: cannot make this folder: Input/output error", made));
}
