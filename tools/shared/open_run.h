/* Opening a run: the one place that tells what a command does with a language model. */
#pragma once

#include "command.h"

/* Opens a run as qkv_run_open does. refusal: why the command cannot use a language model, and what to do, as in "does not
 * translate: use qkv complete"; NULL: it can. */
enum qkv_status open_run(struct qkv_run *run, const char *path, const char *checkpoint, enum qkv_dtype dtype,
                         const char *refusal, struct qkv_error *error);

/* Refuses what a language model has not: options of translations, and links to source words (NULL: none). */
enum qkv_status refuse_translation(const struct command *command, const char *run, const char *links,
                                   struct qkv_error *error);

/* Finds the updates of the snapshots of a run, ascending, in its arena. Fails where there are fewer than two. */
enum qkv_status find_snapshots(struct qkv_run *run, int64_t **updates, int64_t *count,
                               struct qkv_error *error);
