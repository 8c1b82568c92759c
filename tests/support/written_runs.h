/* Run folders with a config and a log, but without training: for commands that read what runs record. */
#pragma once

#include "support.h"

/* Makes a run in the current folder, that of a tiny_task, with a seed and the lines of its metrics.jsonl; `settings`: more
 * keys, as -s options. */
void written_run(const char *name, int seed, const char *settings, const char *metrics);

/* Lines of metrics.jsonl. An update takes 100 tokens and 2 seconds; the objective is 1 above the cross-entropy `loss`. */
char *written_train_line(int update, double loss);
char *written_validation_line(int update, double loss, double bleu);
