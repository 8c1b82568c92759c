/* The options of gold links: --links and --links-from. */
#ifndef QKV_TOOLS_LINKS_OPTIONS_H
#define QKV_TOOLS_LINKS_OPTIONS_H

#include "command.h"

#include "qkv/config.h"

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

/* Fails, with a message, if --links-from is given without --links, or if the links and the pairs (NULL: not known here) are both
 * standard input. */
int links_options_check(const struct links_options *options, const char *pairs);

/* Prints a note on standard error if a .wa file does not name `missing` of the pairs. */
void links_options_note(const struct links_options *options, int64_t missing, int64_t pairs);

/* The value of --links-from. */
enum qkv_links_from links_from(const struct links_options *options);

#endif
