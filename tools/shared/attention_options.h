/* Options of the commands that show or measure attention: --kind, --layer and --head; --measure; --without; --links and
 * --links-from; and how these commands print alignment scores. */
#pragma once

#include "command.h"
#include "report/alignment_score.h"

/* The index of a choice; `otherwise` if `given` is NULL. */
int choice_index(const char *given, qkv_name_lister *names, int otherwise);

/* ---- kinds, layers and heads ---- */

/* The choices of --kind: the kinds of attention. The context is not used. */
const char *kind_name(const void *context, int64_t index);

/* The words that are accepted in place of a number. */
enum layer_or_head_words { ACCEPT_MEAN = 1, ACCEPT_BEST = 2, ACCEPT_ALL = 4 };

/* Reads the number, or QKV_ATTENTION_EACH, _MEAN or _BEST for "all", "mean" or "best", into *index; `text` NULL
 * leaves it as it is. Returns QKV_OK, or the exit code after an error message. */
int read_layer_or_head(const char *option, const char *text, unsigned accepted, int *index);

/* ---- weights, or weights times norms of values ---- */

/* The row of an options table; `text` is a const char *. */
/* clang-format off */
#define COMMAND_OPTION_MEASURE(text)                                                                         \
    {"measure", 0, "WHAT", OPTION_CHOICE, text,                                                              \
     "weights (default): attention weights; norms: weights times the norms of what the head makes of " \
     "each word (Kobayashi et al. 2020)", .choices = attention_measure_name}
/* clang-format on */

/* The choices of --measure; the context is not used. */
const char *attention_measure_name(const void *context, int64_t index);

/* Whether `text`, the value of the option, is "norms". NULL: the option is not given. */
bool measures_norms(const char *text);

/* ---- silent heads ---- */

/* The row of an options table; `list` is a struct option_list. */
/* clang-format off */
#define COMMAND_OPTION_WITHOUT(list)                                                                         \
    {"without", 0, "HEAD", OPTION_LIST, list,                                                                \
     "silence a head, such as cross.2.1 (attention, layer, head), which then adds nothing to its layer; may be " \
     "repeated, or comma-separated"}
/* clang-format on */

/* Silences the heads that the option lists. Fails when the model has no such head. */
enum qkv_status silence_heads(struct qkv_model *model, const struct option_list *without,
                              struct qkv_error *error);

/* Writes the names of the silent heads of a model into `text`: "cross.2.1, cross.2.2"; "" if there is none. Returns `text`. */
const char *list_silent_heads(const struct qkv_model *model, char *text, size_t size);

/* ---- links ---- */

/* Prints links as 0-0 1-2, source word first. */
void print_links(FILE *file, const struct qkv_alignment *links);

/* ---- gold links ---- */

/* The options as they are given; all zero at first. */
struct links_options {
    const char *path; /* NULL: no gold links */
    const char *from;
};

/* The rows of an options table; the help of --links ends in the string `use`. */
/* clang-format off */
#define COMMAND_OPTIONS_LINKS(o, use)                                                                        \
    {"links", 'l', "FILE", OPTION_TEXT, &(o)->path,                                                          \
     "gold word links: Pharaoh format (one line a pair; 0-0: sure link, 1p2: possible link), .wa, or the third " \
     "column of a .tsv; " use, .completes = VALUE_FILE},                                                                               \
    {"links-from", 0, "N", OPTION_CHOICE, &(o)->from,                                                        \
     "number of the first word in gold links: {choices} (default: detected)", .choices = links_from_name}
/* clang-format on */

/* The choices of --links-from; the context is not used. */
const char *links_from_name(const void *context, int64_t index);

/* Fails, with a message, if --links-from is given without --links, or if the links and the pairs (NULL: not known here) are
 * both standard input. */
int links_options_check(const struct links_options *options, const char *pairs);

/* Prints a note on standard error if a .wa file does not name `missing` of the pairs. */
void links_options_note(const struct links_options *options, int64_t missing, int64_t pairs,
                        struct qkv_word_spaces spaces);

/* The value of --links-from. */
enum qkv_links_from links_from(const struct links_options *options);

/* ---- alignment scores: a table for people, and JSON for programs ---- */

/* Prints a table for the drawings target and union: a line for every head of every layer and for
 * their means, columns for each enum qkv_alignment_reading, and the name of the best. The score
 * must have at least one sentence. */
void print_alignment(const struct qkv_alignment_score *score, FILE *file);

/* Makes a JSON object of one result with its rates. The caller owns it. */
cJSON *alignment_result_json(const struct qkv_alignment_result *result);

/* Makes a JSON object of the same results: sentences, best (target and union), and results, each with
 * drawing, reading, layer, head (numbers from 1, or "mean"), aer, precision, recall (0 to 1) and
 * the counts that they come from. */
cJSON *alignment_json(const struct qkv_alignment_score *score);
