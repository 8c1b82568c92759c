/* Recurrent networks, for every cell and score, with and without input feeding: decoding gives the probabilities of the
 * forced pass, sentences do not affect each other, and the trace holds the attention. */
#include "models/network.h"

#include "tiny.h"

struct variant {
    const char *name;
    enum qkv_cell cell;
    enum qkv_attention_score score;
    bool feeding, bidirectional, reverse;
    enum qkv_init_hidden start;
    int64_t layers;
};

static const struct variant VARIANTS[] = {
    {"cho", QKV_CELL_GRU, QKV_ATTENTION_SCORE_NONE, true, false, false, QKV_INIT_HIDDEN_BRIDGE, 1},
    {"sutskever", QKV_CELL_LSTM, QKV_ATTENTION_SCORE_NONE, false, false, true, QKV_INIT_HIDDEN_LAST, 2},
    {"bahdanau", QKV_CELL_GRU, QKV_ATTENTION_SCORE_ADDITIVE, true, true, false, QKV_INIT_HIDDEN_BRIDGE, 1},
    {"luong dot", QKV_CELL_LSTM, QKV_ATTENTION_SCORE_DOT, true, false, false, QKV_INIT_HIDDEN_LAST, 2},
    {"luong general", QKV_CELL_LSTM, QKV_ATTENTION_SCORE_GENERAL, true, true, false, QKV_INIT_HIDDEN_BRIDGE,
     2},
    {"luong concat", QKV_CELL_TANH, QKV_ATTENTION_SCORE_CONCAT, true, true, false, QKV_INIT_HIDDEN_ZERO, 1},
    {"luong local", QKV_CELL_GRU, QKV_ATTENTION_SCORE_LOCAL_P, true, true, false, QKV_INIT_HIDDEN_BRIDGE, 2},
    {"scaled dot", QKV_CELL_GRU, QKV_ATTENTION_SCORE_SCALED_DOT, false, true, false, QKV_INIT_HIDDEN_ZERO, 2},
    {"local without feeding", QKV_CELL_LSTM, QKV_ATTENTION_SCORE_LOCAL_P, false, false, true,
     QKV_INIT_HIDDEN_LAST, 1},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0], SOURCE_TYPES = 11, TARGET_TYPES = 12 };

static struct qkv_model *model_of(const struct variant *variant, enum qkv_dtype dtype)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->type = QKV_NETWORK_RECURRENT;
        stacks[i]->rnn_type = variant->cell;
        stacks[i]->num_layers = variant->layers;
        stacks[i]->embeddings.embedding_dim = 6;
    }
    config.encoder.bidirectional = variant->bidirectional;
    config.encoder.reverse = variant->reverse;
    config.decoder.attention.score = variant->score;
    config.decoder.attention.local_window = 2;
    config.decoder.input_feeding = variant->feeding;
    config.decoder.init_hidden = variant->start;
    return tiny_model(&config, SOURCE_TYPES, TARGET_TYPES, dtype, 5);
}

/* ---- decoding ---- */

Test(recurrent, decoding_gives_the_probabilities_of_the_forced_pass)
{
    for (int v = 0; v < VARIANT_COUNT; v++)
        for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
            struct qkv_model *model RELEASED(free_model) = model_of(&VARIANTS[v], (enum qkv_dtype)dtype);
            tiny_expect_decoding(model, VARIANTS[v].name);
            /* Sentences must not see each other. */
            cr_expect_eq(qkv_network_check_forward(model, &error), QKV_OK, "%s: %s", VARIANTS[v].name,
                         error.message);
        }
}

/* ---- the forced pass ---- */

/* The node that holds the attention weights of a forced pass; NULL: no attention. */
static const struct qkv_tensor *cross_weights(const struct qkv_trace *trace)
{
    const struct qkv_part *part = qkv_trace_attention(trace, QKV_PART_WEIGHTS, QKV_ATTENTION_CROSS, 1);
    return part ? part->node : NULL;
}

/* A reversed encoder reads the first word last, so another first word changes only the weight of
 * that word; the other weights keep their proportions. A forward encoder changes all of them.
 * Returns the greatest change. */
static double change_by_first_word(bool reverse)
{
    const struct variant variant = {"",    QKV_CELL_LSTM, QKV_ATTENTION_SCORE_GENERAL, false,
                                    false, reverse,       QKV_INIT_HIDDEN_ZERO,        1};
    static const int64_t SOURCE[] = {5}, TARGET[] = {3};
    struct tiny tiny RELEASED(tiny_release) =
        tiny_with(model_of(&variant, QKV_FLOAT64), 1, SOURCE, TARGET, 2);
    double proportion[2][6], moved = 0;
    for (int changed = 0; changed < 2; changed++) {
        struct qkv_trace trace;
        if (changed) tiny.batch.source[0] = tiny.batch.source[0] == 5 ? 6 : 5;
        struct qkv_graph *graph RELEASED(free_graph) = tiny_traced(&tiny, &trace);
        int64_t rows, columns;
        const double *weights = qkv_attention_weights_of(cross_weights(&trace), 0, 0, &rows, &columns);
        cr_assert_eq(columns, 6);
        for (int j = 0; j < 6; j++) proportion[changed][j] = weights[j] / weights[5];
    }
    for (int j = 1; j < 5; j++) moved = fmax(moved, fabs(proportion[0][j] / proportion[1][j] - 1));
    cr_expect(fabs(proportion[0][0] / proportion[1][0] - 1) > 1e-3,
              "the weight of the changed word does not change");
    return moved;
}

Test(recurrent, a_reversed_source_keeps_its_word_order)
{
    cr_expect_lt(change_by_first_word(true), 1e-12);
    cr_expect_gt(change_by_first_word(false), 1e-3);
}

/* The weights of a sentence do not depend on its place in the batch, although input feeding sorts sentences by length. */
Test(recurrent, the_trace_holds_the_attention_of_each_sentence)
{
    static const int64_t SOURCE[] = {3, 1, 6, 0}, TARGET[] = {4, 0, 2, 7};
    for (int v = 0; v < VARIANT_COUNT; v++) {
        const char *name = VARIANTS[v].name;
        const bool has_attention = VARIANTS[v].score != QKV_ATTENTION_SCORE_NONE;
        struct tiny tiny = tiny_with(model_of(&VARIANTS[v], QKV_FLOAT64), 4, SOURCE, TARGET, 1), alone = tiny;
        struct qkv_trace trace, trace_alone;
        struct qkv_graph *graph RELEASED(free_graph) = tiny_traced(&tiny, &trace);
        int compared = 0;
        cr_assert_eq(cross_weights(&trace) != NULL, has_attention, "%s", name);
        for (int64_t s = 0; has_attention && s < 4; s++) {
            int64_t rows, columns;
            const double *w = qkv_attention_weights_of(cross_weights(&trace), s, 0, &rows, &columns);
            cr_assert(w && rows == TARGET[s] + 1 && columns == SOURCE[s] + 1, "%s, sentence %d", name,
                      (int)s);
            for (int64_t i = 0; i < rows; i++) {
                double sum = 0;
                for (int64_t j = 0; j < columns; j++) sum += w[i * columns + j];
                if (VARIANTS[v].score == QKV_ATTENTION_SCORE_LOCAL_P) /* the Gaussian factor is below 1 */
                    cr_expect(sum > 0 && sum <= 1, "%s: a row sums to %g", name, sum);
                else
                    cr_expect_float_eq(sum, 1, 1e-12, "%s: a row sums to %g", name, sum);
            }
            qkv_batch_shard(&tiny.batch, s, 4, &alone.view);
            if (alone.view.count != 1) continue;
            compared++;
            w = qkv_attention_weights_of(cross_weights(&trace), alone.view.first, 0, &rows, &columns);
            struct qkv_graph *other RELEASED(free_graph) = tiny_traced(&alone, &trace_alone);
            const double *expected =
                qkv_attention_weights_of(cross_weights(&trace_alone), 0, 0, &rows, &columns);
            for (int64_t i = 0; i < rows * columns; i++)
                cr_assert_float_eq(w[i], expected[i], 1e-12, "%s, sentence %d, weight %d", name, (int)s,
                                   (int)i);
        }
        cr_expect(!has_attention || compared > 1, "%d", compared);
        tiny_release(&tiny);
    }
}
