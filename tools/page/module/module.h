/* The WebAssembly module of the page. Its calls, which engine.js makes, are the functions that are marked EXPORT: they read
 * one block of bytes (page_input) and return 0, or not 0 if page_message says why they failed. What they found is a list of
 * results, each with a name, which the next call replaces (page_results). */
#pragma once

#include "qkv/attention_map.h"
#include "qkv/model.h"
#include "qkv/run.h"
#include "report/steps.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

/* The weight of a cell that the query does not see, by the attention rule or because the word is silent: so it is not taken
 * for a weight of 0. */
#define PAGE_HIDDEN_CELL (-1.0f)

enum { PAGE_MAP_INTEGERS = 5 }; /* integers that describe a map: kind, layer, head, rows, columns */

/* ---- system.c ---- */

extern struct qkv_error page_error;
extern char *page_bytes; /* of the caller */

/* Ends the module when there is no memory: the page starts it again. */
void *page_sure(void *memory);

/* Results: numbers, zero at first, to be filled in, and lists of texts. No token holds white space. */
enum page_type { PAGE_TEXTS, PAGE_INTEGERS, PAGE_FLOATS, PAGE_DOUBLES }; /* as in engine.js */

void *page_give(const char *name, enum page_type type, int64_t count, size_t size);
#define page_integers(name, count) ((int32_t *)page_give(name, PAGE_INTEGERS, count, sizeof(int32_t)))
#define page_floats(name, count)   ((float *)page_give(name, PAGE_FLOATS, count, sizeof(float)))
#define page_doubles(name, count)  ((double *)page_give(name, PAGE_DOUBLES, count, sizeof(double)))
void page_texts(const char *name, int64_t count, const char *const *texts);

/* Makes a text in memory the one that is read as the file `pairs.tsv`. It must live until it is read. */
void page_set_file(const char *bytes, size_t size);

/* ---- translation.c ---- */

/* A model with its sentence. */
struct page_translation {
    struct qkv_run run;
    float *learned; /* the parameters of the packed run, once others have replaced them */
    struct qkv_sentence source, target;
    struct qkv_batch batch;
    struct qkv_decoding *decoding;
    struct qkv_translations translations;
    struct qkv_attention_collector *collector;
    struct qkv_arena arena;
    struct qkv_attention_pair pair; /* that the page shows; its tokens are in the arena or in `target` */
};

extern struct page_translation page_translation;

/* Makes what translates, for the model of the run. */
enum qkv_status page_translation_begin(void);
void page_translation_end(void); /* releases all but the run */

/* The mean entropy of the rows of a map, in nats. */
double page_entropy(const double *weights, int64_t rows, int64_t columns);
