/* Prints error messages on standard error (one line each, "qkv: <message>"), text of any origin, and JSON. */
#pragma once

#include "core/memory.h"
#include "core/text.h"

/* Prints `qkv: <message>` and returns the exit code 2. */
int print_error(const char *format, ...) QKV_PRINTF(1, 2);

/* Begins all later messages with the name of this process, one of several; NULL: no longer. For failures that may happen in
 * this process only. */
void set_error_process(const char *process);

/* Prints a message without "qkv: ", because it begins with its place, such as "x.yaml:3:1: ". */
void print_located_error(const char *message);

/* Prints `qkv: <what> is '<given>'; did you mean <the most similar names>`, or all names if none is similar, and
 * returns the exit code 2. */
int print_unknown_name(const char *what, const char *given, qkv_name_lister *name, const void *context);

/* Writes "json, csv, npz". Returns `text`. */
const char *list_names(char *text, size_t size, qkv_name_lister *name, const void *context);

/* Prints the error, unless `status` is QKV_OK or the message is empty because another process reports it. Returns the exit
 * code. */
int conclude(enum qkv_status status, const struct qkv_error *error);

/* Returns `memory`; ends the program with the message that memory is out when it is NULL. */
void *required(void *memory);

/* The same for a text in an arena, made of a format as by printf. */
#define TEXT_IN(arena, ...) ((char *)required(qkv_arena_format(arena, __VA_ARGS__)))

/* Prints text of any origin within a sentence. Characters that could take over the terminal, and bytes that are not valid
 * UTF-8, are printed as \x1B or \u202E (core/text.h). */
void print_plain(FILE *file, const char *text);

/* The same with at most `max` characters, and "..." in place of more. */
void print_plain_start(FILE *file, const char *text, int max);

/* Prints as printf does, and the texts in it like print_plain. */
void say(FILE *file, const char *format, ...) QKV_PRINTF(2, 3);

/* Prints results: to a terminal like print_plain, but with line ends and tabs unchanged; otherwise unchanged, for programs. */
void print_result(FILE *file, const char *text);

/* Prints a text with words in the place of each %s, with the quotes that a shell needs to read them as words: $'\x1B' for
 * characters that are not plain. */
void print_command(FILE *file, const char *format, ...) QKV_PRINTF(2, 3);

/* "42s", "3m12s", "1h05m". */
void format_duration(double seconds, char text[16]);

struct cJSON;

/* Has cJSON end the program where memory is out, like `required`, so that objects are always complete. Call it before any other
 * function of cJSON. */
void json_need_memory(void);

struct bytes;

/* Writes bytes to a file, or to standard output if `path` is NULL, and frees them. Where memory was out for them, the program ends
 * with that message. A failed write to standard output is reported when the program ends. */
enum qkv_status write_output(const char *path, struct bytes *bytes, struct qkv_error *error);

/* Members of an object. NaN becomes null. */
struct json_number {
    const char *key;
    double value;
};
struct json_text {
    const char *key, *value;
};

/* Adds members to an object: JSON_NUMBERS(object, {"links", 3}, {"recall", 0.5}). */
#define JSON_NUMBERS(object, ...) json_numbers(object, (const struct json_number[]){__VA_ARGS__, {0}})
#define JSON_TEXTS(object, ...)   json_texts(object, (const struct json_text[]){__VA_ARGS__, {0}})
void json_numbers(struct cJSON *object, const struct json_number *members);
void json_texts(struct cJSON *object, const struct json_text *members);

/* Prints an object, and frees it. A failed write is reported when the program ends. */
void json_print(struct cJSON *object);
