/* What every test needs: Criterion, the C library, and helpers that run commands, make scratch folders, write and read small
 * files, train tiny runs, and expect what calls say. Every other header of this folder includes this one. */
#pragma once

#include "framework/engine/core/memory.h" /* here, as its functions name their parameters like `error` below */
#include "qkv/qkv.h"
#include "released.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The result of a command. The texts live until the test ends. */
struct outcome {
    int exit_code; /* 128 + signal when it was killed */
    char *output;  /* stdout */
    char *error;   /* stderr */
};

/* Runs a shell command, formatted like printf. In it, `qkv` is the program under test. Standard
 * input is empty unless the command redirects it. */
struct outcome run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs a shell command in the same way, and returns what it printed. The test fails if the command
 * does. */
char *run_ok(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes a folder the current one of this test, in which its commands run from now on. Returns the folder. */
const char *enter(const char *folder);

/* What `qkv evaluate` printed, without the first lines, which name files and how they were read. */
const char *without_paths(const char *output);

/* Installs the build into <folder>/prefix of a new scratch folder and returns the folder. The tree
 * is installed elsewhere and moved, so that nothing in it may depend on where it was installed. */
const char *installed(const char *name);

/* Makes an empty folder below the build folder. Its path has the names of the test program, the
 * test and `name`, so that tests that run at the same time never share a folder. */
const char *scratch(const char *name);

/* The folder that `scratch` has made before the tests of the program began. */
const char *scratch_before_tests(const char *name);

/* Writes `size` bytes to a file in the scratch folder and returns its path. */
const char *write_bytes(const char *folder, const char *name, const void *bytes, size_t size);

/* Writes a text to a file in the scratch folder and returns its path. */
const char *write_text(const char *folder, const char *name, const char *text);

/* Reads a file; NULL if it cannot be read. A NUL follows the last byte. */
char *read_file(const char *path, size_t *size);

/* Keeps a pointer to heap memory until the test ends, and returns it. LeakSanitizer and valgrind
 * then report no leak of memory that a test does not free, only leaks of qkv. All functions here do
 * this with what they return. */
void *remember(void *memory);

/* Frees what was remembered after `memory`, for a test of thousands of runs. */
void forget_all_but(const void *memory);

/* Whether valgrind or an emulator runs the test, where everything takes fifty times as long. */
bool is_emulated(void);

/* Whether the build has sanitizers. */
bool is_sanitized(void);

/* Whether the test is emulated or the build has sanitizers: everything takes three to fifty times as long. Such a build is for
 * finding wrong accesses and undefined behaviour, for which numeric sweeps and long trainings are cut to about a tenth; the
 * release checks all of their numbers. */
bool is_slow_build(void);

/* Whether case `i` of many alike is left out: all but each tenth in a slow build, none elsewhere. */
bool is_left_out(int64_t i);

/* Formats a path (or any short text) on the heap. */
char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *vformat(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* Makes a scratch folder with a task that trains within a second: c.yaml (one layer, 20 updates,
 * run folder `run`), train.tsv (80 pairs: lower-case letters and the same letters as capitals) and
 * dev.tsv (8 pairs). Commands run in it: run("cd '%s' && qkv train c.yaml -q", tiny_task("x")). */
const char *tiny_task(const char *name);

/* Enters a tiny task: the .init of suites whose tests begin so. */
void enter_tiny_task(void);

/* Sentence pairs of two to four of five words, translated word by word, such as ONE_TO_FIVE: "one four" -> "uno cuatro". */
extern const char *const ONE_TO_FIVE[2][5];
char *word_pairs(int count, const char *const source[5], const char *const target[5]);

/* Writes gold links of pairs to a file: word i with word i. */
void write_links(const char *pairs, const char *links);

/* Makes a tiny task and trains it for some updates; under valgrind, this training runs without valgrind. */
const char *tiny_run(const char *name, int updates);

/* Makes a tiny task and trains it until it translates its training text without mistakes. The learning rate falls to 0, so
 * that this holds for the rounding of all kernels. Under valgrind, this training runs without valgrind. */
const char *learned_run(const char *name);

/* Writes c.yaml to the current folder: the config of a run in `run`. The arguments are what stands between the braces of
 * these sections; NULL: the decoder is as the encoder. */
void write_config(const char *data, const char *encoder, const char *decoder, const char *training);
#define NO_DROPOUT "dropout: 0, attention: {dropout: 0}, embeddings: {dropout: 0}"

/* Trains a recurrent network on the text of a tiny task, which is the current folder, to a run of this name. `encoder` and
 * `decoder` are more keys of these stacks, such as ", rnn_type: lstm". */
void train_recurrent(const char *run_name, const char *encoder, const char *decoder, int updates);

/* Returns a checksum of the parameters and moments of a run's last checkpoint. */
const char *checksum_of_run(const char *run_folder);

/* Expects the same parameters and moments of a training in the current folder with one thread (run `one`), with three
 * (`three`), and stopped and resumed (`stopped`). `options`: the config and settings; `from`: what a resumed training does
 * not take. Returns their checksum. */
const char *expect_equal_bits(const char *options, const char *from, int updates);

/* Returns the names and checksums of all files below a folder, to see whether anything has
 * changed. */
char *fingerprint(const char *folder);

/* Whether this build has `qkv page`; and skips the test where it has not. */
bool has_page(void);
void skip_without_page(void);

/* Skips the test where a program is not installed. */
void skip_without_program(const char *name);

/* Returns whether a command failed with exit code 2 and this message, and no output. Otherwise
 * prints what it did. */
bool refused(struct outcome outcome, const char *sentence);

/* Returns whether a command failed with this exit code, no output, and a message with this part. Otherwise prints what it
 * did. */
bool fails(struct outcome outcome, int exit_code, const char *part);

/* Returns whether a text has a part, or lacks it. Otherwise prints both. */
bool shows(const char *text, const char *part);
bool lacks(const char *text, const char *part);

/* Returns whether a text begins with a part. Otherwise prints both. */
bool begins(const char *text, const char *part);

/* How often a part occurs in a text. */
int occurrences(const char *text, const char *part);

/* The number that follows the first occurrence of a part, which a text must have. */
double number_after(const char *text, const char *part);

/* Expects that a command is `refused` with each of these arguments: {arguments, message}. */
#define EXPECT_REFUSALS(command, cases) expect_refusals(command, cases, sizeof cases / sizeof *cases)
void expect_refusals(const char *command, const char *const cases[][2], size_t count);

/* Expects that a command `fails` with exit code 2 and each of these arguments: {arguments, part of the message}. */
#define EXPECT_FAILURES(command, cases) expect_failures(command, cases, sizeof cases / sizeof *cases)
void expect_failures(const char *command, const char *const cases[][2], size_t count);

/* Braces in rows of tables: clang-format gives each part of a row a line of its own where one of them is in braces. */
#define LIST(...)                                                                                            \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

/* ---- calls that fill in a qkv_error ---- */

/* Where the calls of a test say what was wrong. */
static struct qkv_error error __attribute__((unused));

/* The call succeeded: here the test ends if it did not. */
static inline void expect_done(enum qkv_status status)
{
    cr_assert_eq(status, QKV_OK, "status %d: %s", (int)status, error.message);
}

/* What the call made: here the test ends if that is NULL. */
static inline void *made(const void *result)
{
    cr_assert_not_null(result, "%s", error.message);
    return (void *)(uintptr_t)result;
}

/* The call was refused with exactly this message, which is gone afterwards, so that no later call passes by it. */
static inline void expect_refusal(enum qkv_status status, const char *message)
{
    cr_expect(status == QKV_INVALID && !strcmp(error.message, message), "status %d: '%s', but wanted '%s'",
              (int)status, error.message, message);
    *error.message = '\0';
}

/* The same, with a message that has this part. */
static inline void expect_refusal_with(enum qkv_status status, const char *part)
{
    cr_expect(status == QKV_INVALID && strstr(error.message, part), "status %d: '%s' lacks '%s'", (int)status,
              error.message, part);
    *error.message = '\0';
}

/* The status of a function that returns NULL (or false) where it refuses. */
#define STATUS_OF(result) ((result) ? QKV_OK : QKV_INVALID)
