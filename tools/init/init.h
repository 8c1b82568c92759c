/* What the files of `qkv init` share: everything that is passed from reading to writing. */
#pragma once

#include "command.h"
#include "data/pairs.h"
#include "train/training.h"

enum { INIT_LENGTH_MAX = 250 /* tokens of a sentence: longer ones cost more than they teach */ };

/* The options as they are given. */
struct init_options {
    const char *config, *lang[2], *columns; /* NULL: not given */
    bool clean, overwrite, quiet;
    int64_t seed, dev, test, updates, threads; /* dev, test: -1, updates: 0: not given */
    double minutes;
};

/* Sizes of a model that suit so many training pairs and more, up to the next row (plan.c). */
struct init_sizes {
    int64_t pairs;
    enum qkv_level level;                /* how text becomes tokens */
    int64_t merges;                      /* of byte-pair encoding */
    int64_t layers, width, inner, heads; /* of encoder and decoder; width: hidden_size, inner: ff_size */
    double dropout, rate;                /* rate, warmup: training.learning_rate and learning_rate_warmup */
    int64_t warmup, tokens;              /* tokens: training.batch_size */
    int64_t epochs; /* the longest training: later epochs only learn by heart, or change nothing */
};

/* The settings of the config. */
struct init_plan {
    const struct init_sizes *sizes;
    double dropout; /* chosen by the amount of data, even if the sizes are reduced for lack of time */
    enum qkv_level level[2];
    bool split_punctuation[2]; /* false: the text is tokenized */
    bool is_cut[2];            /* the text is cut into pieces already: each is a word */
    bool is_joint;             /* both sides share their pieces of words */
    int64_t merges;            /* of a side, or of both together; 0: none */
    int64_t max_length[2];     /* tokens */
    double left_out;           /* share of the training pairs that are longer on a side */
    int64_t taken_out;   /* pairs of more than INIT_LENGTH_MAX tokens on a side, taken out of dev and test */
    int64_t updates;     /* 0: not known yet */
    int64_t validations; /* maximal number of validations in the complete training */
};

struct init {
    const struct init_options *options;
    struct qkv_pairs pairs;
    struct qkv_pairs_statistics facts;
    enum qkv_pairs_part *part;      /* of each pair; QKV_PAIRS_PARTS: none */
    int64_t count[QKV_PAIRS_PARTS]; /* pairs of each part */
    struct init_plan plan;
    struct qkv_train_cost cost;  /* all zero: not measured */
    char name[200];              /* of the run: letters, digits, '.', '_' and '-' */
    char file[PATH_MAX];         /* of the config */
    char folder[PATH_MAX - 300]; /* of the config and the parts: "" or with a slash at its end */
    const char *origin;          /* the file that the pairs come from */
    char lang[2][16];            /* language codes */
};

/* ---- plan.c ---- */

/* Chooses sizes, tokenizer and lengths; updates stay 0. Takes pairs that are far too long out of dev and test. Fails when
 * all pairs are too long, or memory runs out. */
enum qkv_status init_plan_choose(struct init *init, struct qkv_error *error);

/* Whether the config converts a side to lower case: the source at level word. */
bool init_is_lowercase(const struct init_plan *plan, int side);

/* Whether max_length leaves out more than a few of the pairs. */
bool init_leaves_out_many(const struct init_plan *plan);

/* Chooses the next smaller sizes; false when there are none. Tokenizer and dropout stay as they are. */
bool init_plan_shrink(struct init_plan *plan);

/* Chooses plan->validations so that they take at most a third of the time, if one validation does, and returns the number of
 * updates that fit into the rest of `seconds`, at most that of the longest training that the sizes allow. */
int64_t init_plan_updates(struct init_plan *plan, const struct qkv_train_cost *cost, double seconds);

/* The number of updates, two digits of it, that fits into the time with so many validations; at most so many epochs. */
int64_t init_fitting_updates(const struct qkv_train_cost *cost, double seconds, int64_t validations,
                             int64_t epochs);

/* Minutes of training in which so many epochs and their validations fit, rounded up to one or two digits. */
int64_t init_plan_minutes(const struct qkv_train_cost *cost, int64_t epochs);

/* Updates between two validations, rounded up to one or two digits. */
int64_t init_validation_freq(const struct init_plan *plan);

/* ---- files.c: all files are written, or none ---- */

enum { INIT_FILES = QKV_PAIRS_PARTS + 1 /* train, dev, test, and the config */ };

/* The name of the file that a path names. */
const char *init_base(const char *path);

/* The path of a file. */
const char *init_path(const struct init *init, int file, char path[static PATH_MAX]);

/* Fails when a file exists already, unless --overwrite is given, and when it is one of the files that the pairs were read from. */
enum qkv_status init_files_check(const struct init *init, struct qkv_error *error);

/* Fails when the config cannot be written, or its folder cannot be made. Leaves nothing behind. */
enum qkv_status init_files_try(const struct init *init, struct qkv_error *error);

/* Makes the folders of a path. */
enum qkv_status init_make_folder_of(const char *path, struct qkv_error *error);

/* Makes the folder of the config and writes all files, of dev at most `max_dev` pairs. After a failure, files that did not exist
 * before do not exist. */
enum qkv_status init_files_write(const struct init *init, int64_t max_dev, struct qkv_error *error);

/* Measures how fast this machine trains the model that is planned: trains it for a few seconds, in a temporary folder, which is
 * removed. Fails when that folder cannot be written, and when training fails. */
enum qkv_status init_measure(struct init *init, struct qkv_error *error);

/* The cost of training the config in the file `path`, by a few updates. */
enum qkv_status init_measure_config(const char *path, int threads, struct qkv_train_cost *cost,
                                    struct qkv_error *error);

/* ---- text.c: a text without pairs ---- */

struct init_text {
    int64_t lines, characters; /* lines that are not blank */
};

/* Reads a text. Returns whether its lines are no pairs in any form, and it is long enough for a language model. */
bool init_text_read(struct init_text *text, const char *path);

/* Writes the config of a language model to init->file, and says so unless --quiet is given. Fails when the file exists already,
 * unless --overwrite is, when it cannot be written, and when training fails. */
enum qkv_status init_text_make(struct init *init, const struct init_text *text, struct qkv_error *error);

/* ---- report.c ---- */

/* Prints the file, its columns, the lines that were left out, facts about both sides, and three pairs. */
void init_report_pairs(const struct init *init);

/* Prints the sizes that were chosen. */
void init_report_plan(const struct init *init);
