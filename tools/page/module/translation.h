/* What the page shows of one sentence: its translations, the probabilities of words, and all attention maps. */
#ifndef QKV_PAGE_TRANSLATION_H
#define QKV_PAGE_TRANSLATION_H

#include "qkv/attention_collect.h"
#include "qkv/run.h"
#include "qkv/search.h"
#include "run/packed_run.h"

enum {
    PAGE_NEXT_WORDS = 5,   /* most probable next words that are listed for each step */
    PAGE_MAP_INTEGERS = 5, /* integers that describe a map: kind, layer, head, rows, columns */
};

/* The weight of a cell that the query does not see, by the attention rule or because the word is silent: so it is not taken
 * for a weight of 0. */
#define PAGE_HIDDEN_CELL (-1.0f)

/* The present sentence pair. Texts and arrays are valid until the next call; a list of texts is one text, in which each
 * ends with a newline: no token holds white space. */
struct page_view {
    const char *source_tokens;  /* with </s> */
    const char *target_inputs;  /* what the decoder's steps read: begins with <s> */
    const char *target_outputs; /* what they predict: ends with </s> if the translation is complete */
    const char *translations;   /* the n-best translations as sentences */
    double *scores;             /* [translation_count] log-probability / length penalty */
    int32_t *known_sources;     /* [source_count] 0: the vocabulary lacks the token */
    int32_t *known_targets;     /* [step_count] */
    int32_t *source_words;      /* [source_count] number of the word, from 0, that the token is part of */
    int32_t *target_words;      /* [step_count] */
    double *probabilities;      /* [step_count] of the token that the step predicts */
    double log_probability;     /* of the translation that is shown */
    const char *next_words;     /* [step_count * PAGE_NEXT_WORDS], most probable first */
    double *next_probabilities; /* [step_count * PAGE_NEXT_WORDS] */
    int32_t *maps;              /* [map_count * PAGE_MAP_INTEGERS], by kind, layer, head */
    int32_t *silent;            /* [map_count] 1: the head is silent */
    int32_t *silent_sources; /* [source_count] 1: the token is silent; NULL: no token of this model can be */
    double *entropies;       /* [map_count] mean entropy of the rows, in nats */
    float *weights;          /* of all maps, one after another, row by row */
    int64_t source_count, step_count, translation_count, map_count, weight_count;
};

/* A model with its sentence. Caller's storage, all zero at first. */
struct page_translation {
    struct qkv_run run;
    float *
        learned; /* the parameters of the packed run, while others are in use; NULL: they have never been replaced */
    struct qkv_sentence source, target;
    struct qkv_batch batch;
    struct qkv_decoding *decoding;
    struct qkv_translations translations;
    int64_t hypotheses; /* capacity of `translations`; 0: the target was given */
    struct qkv_attention_collector *collector;
    bool *silent_words; /* [silent_capacity], of the sentence and beyond it: nothing attends to the token */
    int64_t silent_capacity;
    struct qkv_arena arena; /* of the view */
    struct page_view view;
    struct qkv_attention_pair pair; /* that the view shows */
};

/* A list of texts as one text, as in struct page_view; NULL when there is no memory. */
const char *page_list(struct qkv_arena *arena, int64_t count, const char *const *texts);

/* Opens a packed run (run/packed_run.h). */
enum qkv_status page_open(struct page_translation *t, const unsigned char *bytes, size_t size,
                          struct qkv_error *error);

/* Silences these heads in the calls that follow, and no others. heads [count, 3]: kind, layer and head; those that the model
 * does not have are left out. */
void page_silence(struct page_translation *t, const int32_t *heads, int64_t count);

/* Silences these tokens of the source in the calls that follow, and no others: nothing attends to them. words [count]: their
 * numbers from 0; those that a sentence does not have are left out. */
enum qkv_status page_silence_words(struct page_translation *t, const int32_t *words, int64_t count,
                                   struct qkv_error *error);

/* The parameters that later calls use: those of the packed run, the random ones from which its training began, or others
 * that qkv_run_pack_parameters packed. */
enum qkv_status page_use_learned(struct page_translation *t, struct qkv_error *error);
enum qkv_status page_use_random(struct page_translation *t, struct qkv_error *error);
enum qkv_status page_use_packed(struct page_translation *t, const unsigned char *bytes, size_t size,
                                struct qkv_error *error);

/* Translates a sentence by greedy search (`beam_size` 1) or beam search, with as many translations as hypotheses. The
 * view shows the best. */
enum qkv_status page_translate(struct page_translation *t, const char *source, size_t size, int64_t beam_size,
                               struct qkv_error *error);

/* Shows another of the translations of the last page_translate, from 0. */
enum qkv_status page_choose(struct page_translation *t, int64_t number, struct qkv_error *error);

/* Shows a translation that is given, in place of one that is searched for. */
enum qkv_status page_force(struct page_translation *t, const char *source, size_t source_size,
                           const char *target, size_t target_size, struct qkv_error *error);

#endif
