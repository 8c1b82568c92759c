/* Private: Word alignment: how links are drawn from weights between words, which aligner.h does for a run and a text; reads
 * gold links, and scores drawn links against them.
 *
 * Words are separated by white space. A word map has the weight of each source word for each target word. A decoder step
 * reads one target word and predicts the next, so its row of weights can be read in two ways (enum qkv_alignment_reading of
 * config.h): it belongs to the word that the step predicts, or to the word that it reads (Naive-Att and Shift-Att of Chen
 * et al. 2020, "Accurate word alignment induction from neural machine translation"). Which is better depends on the model
 * and the layer.
 *
 * Two sets of links are drawn from a map: T links each target word to its strongest source word, and S links each source
 * word to its strongest target word; of equally strong words the first is linked. A word whose weights are all 0 has no
 * link. With a threshold, T and S instead have every link whose weight is above the threshold. S comes from the columns of
 * the map, where a threshold is a share of the sum of the column, or from the rows of a second map, made by a model that
 * translates in the other direction. enum qkv_alignment_drawing selects how T and S are combined (Och and Ney 2003; Koehn,
 * Och and Marcu 2003):
 * - target: T;  source: S;  intersection: T ∩ S;  union: T ∪ S;
 * - grow-diag: starts with the intersection; then, until nothing changes, visits each link (by target word, then by source
 *   word) and each of its eight neighbours (those in the same row or column of the map first), and adds the neighbour if it
 *   is in the union and links a source or a target word that has no link yet;
 * - grow-diag-final-and: grow-diag; then adds those links of T, then of S, whose two words both have no link yet.
 *
 * Scores, with A the drawn links, S the sure gold links, and P the sure and possible gold links (Och and Ney 2003):
 * precision |A∩P| / |A|, recall |A∩S| / |S|, alignment error rate 1 - (|A∩S| + |A∩P|) / (|A| + |S|), over all sentences
 * together. The best error rate is 0.
 *
 * Example:
 *     struct qkv_alignment_link links[2] = {{0, 0, true, 1, 1}, {1, 1, true, 1, 5}};
 *     struct qkv_alignment gold = {.links = links, .count = 2}, drawn = {.links = links, .count = 1};
 *     struct qkv_alignment_result result = {.drawing = QKV_DRAWING_GROW_DIAG};
 *     qkv_alignment_count(&result, &drawn, &gold);
 *     printf("alignment error rate: %g\n", result.error_rate); */
#pragma once

#include "qkv/config.h"

/* ---- links ---- */

struct qkv_alignment_link {
    int64_t source, target; /* words, from 0 */
    bool sure;
    int64_t line, column; /* where the link starts, from 1, columns in bytes; only for messages */
};

/* The links of one sentence pair, gold or drawn. */
struct qkv_alignment {
    const struct qkv_alignment_link *links; /* [count]: no duplicates; by source word, then target word */
    int64_t count;
    const char *file; /* for messages; may be NULL */
    int from;         /* number of the first word in the file: 0 or 1 */
};

/* ---- gold links ---- */

/* How the words of a file of links are separated, where that makes a difference. */
struct qkv_word_spaces {
    int64_t
        pair; /* the first one, from 1, with other white space than that of ASCII between words; 0: none is known */
    int32_t space;   /* that white space, such as U+00A0 */
    bool by_unicode; /* any white space separates the words that the file numbers */
};

/* The gold links of a file. All zero is empty. */
struct qkv_alignments {
    struct qkv_alignment *sentences; /* [count] */
    int64_t count;
    int64_t missing; /* pairs of which the file has no links */
    struct qkv_word_spaces spaces;
    struct qkv_arena arena; /* private */
};

/* How many words a sentence pair has, between white space of ASCII; -1: not known. */
struct qkv_word_counts {
    int64_t source, target;
    const char *text[2]; /* the sentences themselves, whose words are then counted; NULL: not known */
};

/* Reads gold links in one of these formats, which is detected from the first line that is not empty:
 * - Pharaoh: a line for each sentence pair with its links, source first: `0-0 1-2 2p1`. `-` marks a sure link; `p`,
 *   `?` or `:` a possible one. An empty line has no links.
 * - three columns: source<TAB>target<TAB>links, with links as above;
 * - .wa (Mihalcea and Pedersen 2003): a line for each link: number of the sentence pair, from 1, source word, target word,
 *   and optionally S (sure, the default) or P (possible) and a number, which is ignored.
 *
 * `from`: the number of the first word. QKV_LINKS_FROM_DETECTED: 0 if some link has word 0; 1 in a .wa file, and if some link
 * would lie outside its sentence when counting from 0. With QKV_LINKS_FROM_1, links of a .wa file to word 0, which means no
 * word, are left out. Duplicate links of a pair count once, as sure if any of them is sure.
 *
 * `words`: [count], at least 0, the sentence pairs that the links belong to; NULL, with any `count`: not known.
 *
 * Words are what white space of ASCII separates, as for fast_align and awk. If the links of a file do not fit these, but those
 * that any white space separates, as for Python, each stands for the word that its word is part of.
 *
 * Without `words`, a .wa file can have a million sentence pairs.
 *
 * Fails, with file:line:column where there is one: when the file cannot be read; when a line has another form; when
 * QKV_LINKS_FROM_DETECTED cannot decide; and, if `words` is given, when the numbers of lines and pairs differ, a link names a
 * word that its pair does not have, or a sentence in three columns has another number of words. On failure there is nothing
 * to release. */
enum qkv_status qkv_alignments_read(struct qkv_alignments *alignments, const char *path,
                                    enum qkv_links_from from, const struct qkv_word_counts *words,
                                    int64_t count, struct qkv_error *error);

void qkv_alignments_release(struct qkv_alignments *alignments);

/* ---- drawing links ---- */

/* predicted, read; NULL for other numbers. */
const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading);

/* How links are combined, see above: QKV_DRAWING_TARGET and so on. */
enum qkv_alignment_drawing {
#define ALIGNMENT_DRAWING(id, name, help) QKV_DRAWING_##id,
#include "metrics/alignment_drawings.def"
#undef ALIGNMENT_DRAWING
    QKV_DRAWINGS, /* their number */
};

/* target, source, intersection, union, grow-diag, grow-diag-final-and; NULL for other numbers. */
const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing);

/* ---- counting ---- */

/* How well one head, or a mean of heads, aligns. */
struct qkv_alignment_result {
    enum qkv_alignment_drawing drawing;
    enum qkv_alignment_reading reading;
    /* From 1. Head 0: the mean over the heads of the layer; both 0: over all heads of all layers */
    int layer, head;
    int64_t links, sure, found_sure, found_possible; /* |A|, |S|, |A∩S|, |A∩P| */
    double precision, recall, error_rate;            /* 0 to 1; an empty denominator gives 0, 0 and 1 */
};

/* Adds the links of a sentence pair to a result. */
void qkv_alignment_count(struct qkv_alignment_result *result, const struct qkv_alignment *drawn,
                         const struct qkv_alignment *gold);

/* Adds the counts of `more` to those of a result, and computes its rates. */
void qkv_alignment_add(struct qkv_alignment_result *result, const struct qkv_alignment_result *more);
