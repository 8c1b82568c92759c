/* Greedy and beam search over vocabularies of many words, against searches that look at every word of every distribution. The
 * search itself skips groups of QKV_GROUP words, and words, that cannot be among the best. */
#include "next_tokens.h"
#include "tiny.h"

#include "qkv/search.h"
#include "qkv/vocabulary.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_SIZE = 9, TARGET_SIZE = 400, LONGEST = 4, BEAM = 4 };

struct output {
    int64_t length;
    int32_t ids[8];
    double log_probability;
    bool finished;
};

static struct qkv_model *model_of(int32_t target_size, enum qkv_dtype dtype, uint64_t seed)
{
    struct qkv_model_config config = tiny_config();
    return tiny_model(&config, SOURCE_SIZE, target_size, dtype, seed);
}

/* Log-probabilities [target_size] of the token that follows. */
static void next_log_probabilities(const struct qkv_model *model, const struct qkv_batch_view *batch,
                                   int64_t s, const struct output *so_far, double *next)
{
    struct qkv_ids source = {batch->source_length[s] - 1, batch->source + batch->source_start[s]};
    next_logits(model, source, so_far->length, so_far->ids, next);
    log_softmax(model->target_size, next);
}

static void expect_equal(const struct qkv_hypothesis *found, const struct output *expected, double tolerance)
{
    cr_assert_not_null(found->ids);
    cr_assert_eq(found->length, expected->length);
    cr_expect_eq(found->finished, expected->finished);
    cr_expect_arr_eq(found->ids, expected->ids, (size_t)expected->length * sizeof *found->ids);
    cr_expect_float_eq(found->log_probability, expected->log_probability, tolerance, "%.17g, not %.17g",
                       found->log_probability, expected->log_probability);
}

/* ---- greedy search ---- */

/* The most probable token at each step, until </s> or the limit. */
static struct output chain(const struct qkv_model *model, const struct qkv_batch_view *batch, int64_t s,
                           int64_t limit)
{
    struct output output = {0};
    double next[TARGET_SIZE];
    for (;;) {
        next_log_probabilities(model, batch, s, &output, next);
        int32_t best = QKV_END;
        for (int32_t c = QKV_SPECIALS; c < model->target_size; c++)
            if (next[c] > next[best]) best = c;
        output.finished = best == QKV_END;
        if (!output.finished && output.length == limit) return output;
        output.log_probability += next[best];
        if (output.finished) return output;
        output.ids[output.length++] = best;
    }
}

/* Counts the outputs that end with </s> and those that were cut. */
static void check_greedy(const struct qkv_model *model, int *finished, int *cut)
{
    static const int64_t LENGTHS[] = {3, 0, 5, 2};
    struct qkv_batch batch = {0};
    struct qkv_translations found = {0};
    tiny_batch(&batch, model, 4, LENGTHS, NULL, 9);
    struct qkv_batch_view view = tiny_view(&batch);
    /* The length penalty plays no part: </s> ends greedy search even where a longer output would score higher. */
    tiny_search(model, &view, (struct qkv_search_options){1, 3, 1, 6}, &found);
    for (int64_t s = 0; s < 4; s++) {
        struct output expected = chain(model, &view, s, 6);
        expect_equal(&found.best[s], &expected, 1e-11);
        *finished += expected.finished && expected.length > 0;
        *cut += !expected.finished;
    }
    qkv_translations_release(&found);
    qkv_batch_release(&batch);
}

Test(many_words, greedy_is_the_chain_of_most_probable_tokens)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct qkv_model *model = model_of(QKV_SPECIALS + 2, QKV_FLOAT64, seed);
        tiny_favour(model, QKV_END, seed % 2 ? 1.5 : -1.5);
        check_greedy(model, &finished, &cut);
        qkv_model_free(model);
    }
    cr_expect_gt(finished, 10, "both kinds occur");
    cr_expect_gt(cut, 10);
}

/* The best word may be in any group. The first group has special tokens, which are sometimes more probable than every word. */
Test(many_words, greedy_finds_the_most_probable_of_them)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct qkv_model *model = model_of(150, QKV_FLOAT64, seed);
        tiny_favour(model, QKV_END, seed % 2 ? 2.5 : 0);
        tiny_favour(model, QKV_BEGIN, seed % 3 ? 0 : 50);
        check_greedy(model, &finished, &cut);
        qkv_model_free(model);
    }
    cr_expect(finished > 3 && cut > 10, "%d and %d: both kinds occur", finished, cut);
}

/* ---- beam search ---- */

struct continuation {
    int row;
    int32_t token;
    double log_probability;
};

static int by_log_probability(const void *left, const void *right)
{
    const struct continuation *a = left, *b = right;
    return (a->log_probability < b->log_probability) - (a->log_probability > b->log_probability);
}

/* Every continuation of the rows by a word or </s>, best first. */
static void list_continuations(const struct qkv_model *model, const struct qkv_batch_view *batch, int rows,
                               const struct output *row, struct continuation *all)
{
    int count = 0;
    for (int r = 0; r < rows; r++) {
        double next[TARGET_SIZE];
        next_log_probabilities(model, batch, 0, &row[r], next);
        for (int32_t c = 0; c < TARGET_SIZE; c++)
            if (c == QKV_END || c >= QKV_SPECIALS)
                all[count++] = (struct continuation){r, c, row[r].log_probability + next[c]};
    }
    qsort(all, (size_t)count, sizeof *all, by_log_probability);
}

/* Inserts an output into a list of the `beam` best. */
static void insert(struct output *list, int *count, int beam, struct output output)
{
    if (*count == beam && output.log_probability <= list[beam - 1].log_probability) return;
    int i = *count < beam ? (*count)++ : beam - 1;
    for (; i > 0 && output.log_probability > list[i - 1].log_probability; i--) list[i] = list[i - 1];
    list[i] = output;
}

/* Beam search without a length penalty. Returns the number of outputs. */
static int plain_beam(const struct qkv_model *model, const struct qkv_batch_view *batch, int beam,
                      struct output list[BEAM])
{
    struct output live[BEAM] = {{0}}, next[BEAM] = {{0}};
    struct continuation all[BEAM * TARGET_SIZE];
    int rows = 1, count = 0;
    for (int64_t step = 0; rows; step++) {
        bool is_last = step == LONGEST, has_ended[BEAM] = {false};
        int next_rows = 0;
        list_continuations(model, batch, rows, live, all);
        for (int i = 0; i < 2 * beam && next_rows < beam; i++) {
            struct output output = live[all[i].row];
            output.log_probability = all[i].log_probability;
            output.finished = all[i].token == QKV_END;
            if (output.finished && i < beam) {
                has_ended[all[i].row] = true;
                insert(list, &count, beam, output);
            }
            if (output.finished || is_last) continue;
            output.ids[output.length++] = all[i].token;
            next[next_rows++] = output;
        }
        for (int r = 0; r < rows && is_last; r++)
            if (!has_ended[r]) insert(list, &count, beam, live[r]);
        bool is_settled =
            count == beam && next_rows && list[beam - 1].log_probability >= next[0].log_probability;
        rows = is_settled ? 0 : next_rows;
        memcpy(live, next, sizeof live);
    }
    return count;
}

Test(many_words, a_beam_finds_the_most_probable_of_them)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        enum qkv_dtype dtype = seed % 2 ? QKV_FLOAT32 : QKV_FLOAT64;
        const int beam = 2 + (int)(seed % 3);
        struct qkv_model *model = model_of(TARGET_SIZE, dtype, seed);
        tiny_favour(model, QKV_END, seed % 3 ? 3.5 : 0);
        tiny_favour(model, QKV_BEGIN, seed % 4 ? 0 : 50);
        struct qkv_batch batch = {0};
        struct qkv_translations found = {0};
        tiny_batch(&batch, model, 1, (int64_t[]){4}, NULL, 9);
        struct qkv_batch_view view = tiny_view(&batch);
        tiny_search(model, &view, (struct qkv_search_options){beam, 0, beam, LONGEST}, &found);
        struct output expected[BEAM];
        int count = plain_beam(model, &view, beam, expected);
        for (int i = 0; i < count; i++) {
            expect_equal(&found.best[i], &expected[i], dtype == QKV_FLOAT32 ? 1e-4 : 1e-11);
            finished += expected[i].finished;
            cut += !expected[i].finished;
        }
        cr_expect(count == beam || !found.best[count].ids);
        qkv_translations_release(&found);
        qkv_batch_release(&batch);
        qkv_model_free(model);
    }
    cr_expect(finished > 10 && cut > 10, "%d and %d: both kinds occur", finished, cut);
}
