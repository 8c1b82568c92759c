/* What several tests need: running the command line, scratch folders, small files. */
#ifndef QKV_TESTS_SUPPORT_H
#define QKV_TESTS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

/* What a finished command left. The texts are heap memory that the test may leak: its process ends with it.
 */
struct outcome {
    int exit_code; /* 128 + signal when it was killed */
    char *output;  /* stdout */
    char *error;   /* stderr */
};

/* Runs a shell command, formatted like printf, in which `qkv` is the binary under test; standard input is
 * empty unless the command redirects it. */
struct outcome run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs a shell command in the same way, and returns what it printed. The test fails if the command does. */
char *run_ok(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Installs the build into <folder>/prefix of a new scratch folder and returns the folder. The tree is installed
 * elsewhere and moved, so that nothing in it may depend on where it was installed. */
const char *installed(const char *name);

/* A folder of this test alone: made empty, below the build folder, and named after the test binary, the test
 * and `name`, so that tests at the same time never share one. */
const char *scratch(const char *name);

/* Writes `size` bytes to a file in the scratch folder and returns its path. */
const char *write_bytes(const char *folder, const char *name, const void *bytes, size_t size);

/* Writes a text to a file in the scratch folder and returns its path. */
const char *write_text(const char *folder, const char *name, const char *text);

/* Reads a whole file; NULL when it cannot be read. A NUL is added behind the last byte. */
char *read_file(const char *path, size_t *size);

/* Keeps heap memory in reach until the test ends, and gives it back: what a test never frees is then no leak
 * to LeakSanitizer and valgrind, whose reports are left for the leaks of qkv. All that the functions here
 * return is kept. */
void *remember(void *memory);

/* Formats a path (or any short text) on the heap. */
char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A scratch folder with a task that is learned in a moment: c.yaml (a model of a layer, a run in the folder
 * `run`, 20 updates), train.tsv (80 pairs of small letters and the same as capitals) and dev.tsv (8).
 * Commands run there: run("cd '%s' && qkv train c.yaml -q", tiny_task("x")). */
const char *tiny_task(const char *name);

/* The same, trained for so many updates. */
const char *tiny_run(const char *name, int updates);

/* The same, of a run that knows its training text by heart: the rate falls to 0, so that no kernel's rounding
 * leaves it amid a step astray. */
const char *learned_run(const char *name);

/* The names and checksums of all files below a folder, to tell whether anything has changed. */
char *fingerprint(const char *folder);

/* Whether a command was refused as it should be: exit code 2, this sentence, nothing on stdout. Else shows
 * how not. */
bool refused(struct outcome outcome, const char *sentence);

#endif
