/* What `qkv config` says of wrong configs. */
#pragma once

#include "support.h"

/* A config that lacks nothing, in three lines, of which the first may be another. */
#define CONFIG_REST "data: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n"
#define CONFIG_BASE "name: x\n" CONFIG_REST

/* Writes the text to x.yaml in the current folder, and expects that `qkv config x.yaml` prints these messages alone and
 * fails. */
void expect_wrong_config(const char *text, const char *arguments, const char *messages);

/* Expects that each case is wrong: lines that follow `text`, and what is said of them behind "x.yaml:"; or settings, which
 * begin with "-s ", and the message. */
#define EXPECT_WRONG(text, cases) expect_wrong(text, cases, sizeof cases / sizeof *cases)
void expect_wrong(const char *text, const char *const cases[][2], size_t count);
