/* Prints the maps of one sentence in the terminal, as `qkv attention` does without options. */
#ifndef QKV_TOOLS_ATTENTION_TEXT_H
#define QKV_TOOLS_ATTENTION_TEXT_H

#include "qkv/attention_map.h"
#include "qkv/run.h"

/* "the cat → el gato", the silent heads, and a narrow precision; NULL when memory runs out. */
const char *attention_title(const struct qkv_model *model, const char *source, const char *target,
                            struct qkv_arena *arena);

/* What print_cross_attention draws. */
struct cross_attention {
    struct qkv_attention_pair pair;
    const char *source, *target;      /* the texts of the pair */
    struct qkv_attention_words words; /* merged into words; NULL: a side is drawn by tokens */
    bool names_run;                   /* the title says which run the attention is of */
};

/* Prints the mean over the heads of each layer of cross attention. */
enum qkv_status print_cross_attention(const struct qkv_run *run, const struct cross_attention *drawn,
                                      struct qkv_error *error);

#endif
