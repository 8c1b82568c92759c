/* Helpers of the fuzz targets in tests/fuzz/targets/.
 *
 * A target is a function that takes any bytes and gives them to one part of the library or of the command line. Clang's
 * libFuzzer calls it (preset `fuzz`, tests/fuzz/run.sh); so does the test tests/fuzz/regressions.c, with the inputs in
 * tests/fuzz/seeds/<target>/. A target returns 0, keeps no memory, and writes only to its own folder. */
#pragma once

#include "qkv/qkv.h"
#include "released.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* The target of a file. In the regression test each has a name of its own, which CMake defines. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts where a promise of the library is broken, so that the fuzzer keeps the input. */
#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition)) broken_promise(__FILE__, __LINE__, #condition);                                    \
    } while (0)
_Noreturn void broken_promise(const char *file, int line, const char *condition);

/* ---- the parts of an input ---- */

/* The bytes that are left. */
struct input {
    const uint8_t *data;
    size_t size;
};

/* The line between two parts of an input. */
#define PART_END "\n---\n"

/* Takes the first byte as six switches. A digit is readable in a seed: '0' has all switches off. An empty input has none
 * on. */
unsigned take_switches(struct input *input);

/* Takes the bytes before the next separator, or all that are left. False when nothing is left. */
bool take_part(struct input *input, const char *separator, struct input *part);

/* Takes a part as a string in the arena; it ends at the first NUL byte. NULL when nothing is left. */
char *take_text(struct input *input, const char *separator, struct qkv_arena *arena);

/* Takes the lines as texts in the arena; returns their number, at most `capacity`. */
int take_lines(struct input *input, int capacity, const char **lines, struct qkv_arena *arena);

/* ---- files ---- */

enum { PATH_SIZE = 512 };

/* Returns the path of a file in the folder of this process, which lies in memory where the system has /dev/shm, and is
 * removed at the end. TMPDIR puts it elsewhere. The path is valid for the next 31 calls. */
const char *path_of(const char *name);

/* Writes a file into that folder and returns its path. */
const char *write_file(const char *name, const void *bytes, size_t size);

/* Reads a whole file, which the caller frees; a NUL follows the last byte. */
char *read_whole(const char *path, size_t *size);

/* Removes the files in a folder, but not the folder. */
void empty_folder(const char *path);

/* Trains a tiny model, at the first call, and returns the path of its config; the run is in path_of("run"). */
const char *trained_config(void);

/* ---- promises ---- */

/* Where a text goes. */
enum text_rule {
    TEXT_LINES, /* to a terminal: UTF-8 without control characters, except \n and \t, and bidirectional overrides */
    TEXT_XML, /* also without the characters that XML forbids */
};

/* Aborts unless a text obeys the rule. */
void require_text(const char *text, size_t size, enum text_rule rule);

/* Abort unless a call that failed has left a message, or messages of one line each. */
void require_message(const struct qkv_error *error);
void require_messages(const struct qkv_messages *messages);

/* ---- commands ---- */

/* What a command printed, and its exit code. */
struct outcome {
    int code;
    char *output, *error;
    size_t output_size, error_size;
};

/* Runs the subcommand `name` in this process with arguments that follow the name, at most 100. Its options have their
 * defaults again afterwards. `parse_only`: parses the arguments and does not run it. */
struct outcome run_command(const char *name, int count, const char *const *arguments, bool parse_only);

void outcome_release(struct outcome *outcome);

/* Runs a command whose errors obey TEXT_LINES. */
struct outcome run_readable(const char *name, int count, const char *const *arguments);
