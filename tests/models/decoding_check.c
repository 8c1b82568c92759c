/* qkv_network_check_decoding: decodings that give other numbers than the forced pass are refused; networks.c checks right
 * ones. */
#include "tiny.h"

enum { SIZE = 9 };

/* ---- faults ---- */

static const struct qkv_decoding_interface *right; /* of the transformer */
static struct qkv_network_interface network;       /* a copy of the transformer, called faulty */
static struct qkv_decoding_interface decoding;     /* its own */
static int calls;                                  /* steps and reorderings since the decoding started */

static enum qkv_status start(struct qkv_decoding *of, const struct qkv_batch_view *batch,
                             struct qkv_error *refusal)
{
    calls = 0;
    return right->start(of, batch, refusal);
}

/* All rows translate sentence 0. */
static enum qkv_status step_of_one_sentence(struct qkv_decoding *of, int64_t rows, const int32_t *ids,
                                            const int64_t *sentences, struct qkv_error *refusal)
{
    const int64_t first[8] = {0};
    (void)sentences;
    return right->step(of, rows, ids, first, refusal);
}

/* The third step is fed the tokens of the rows in the opposite order. */
static enum qkv_status step_with_other_tokens(struct qkv_decoding *of, int64_t rows, const int32_t *ids,
                                              const int64_t *sentences, struct qkv_error *refusal)
{
    int32_t other[8];
    for (int64_t i = 0; i < rows; i++) other[i] = ids[of->step == 2 ? rows - 1 - i : i];
    return right->step(of, rows, other, sentences, refusal);
}

static enum qkv_status step_without_memory(struct qkv_decoding *of, int64_t rows, const int32_t *ids,
                                           const int64_t *sentences, struct qkv_error *refusal)
{
    if (of->step == 1) return qkv_error_set(refusal, "out of memory for the second step");
    return right->step(of, rows, ids, sentences, refusal);
}

static void reorder_nothing(struct qkv_decoding *of, int64_t rows, const int64_t *parents)
{
    (void)of, (void)rows, (void)parents;
}

/* Right for rows that are continued once, as in greedy search. */
static void reorder_the_first(struct qkv_decoding *of, int64_t rows, const int64_t *parents)
{
    int64_t others[8];
    for (int64_t i = 0; i < rows; i++) others[i] = i && parents[i] == parents[i - 1] ? 0 : parents[i];
    right->reorder(of, rows, others);
}

/* Only the first reordering is right. */
static void reorder_once(struct qkv_decoding *of, int64_t rows, const int64_t *parents)
{
    const int64_t same[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    right->reorder(of, rows, calls++ ? same : parents);
}

/* Registers the copy, and returns the config of a model with it. */
static struct qkv_model_config register_copy(void)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_model *model = tiny_model(&config, SIZE, SIZE, QKV_FLOAT32, 3);
    network = *model->interface;
    right = network.decoding;
    decoding = *right;
    decoding.start = start;
    network.name = config.network = "faulty";
    network.decoding = &decoding;
    qkv_model_free(model);
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    return config;
}

Test(decoding_check, finds_faults)
{
    const struct {
        enum qkv_status (*step)(struct qkv_decoding *of, int64_t rows, const int32_t *ids,
                                const int64_t *sentences, struct qkv_error *error);
        void (*reorder)(struct qkv_decoding *of, int64_t rows, const int64_t *parents);
        const char *begins, *ends; /* the message */
    } FAULTS[] = {
        {NULL, NULL, "", ""},
        {step_of_one_sentence, NULL, "network faulty: step 1 of its decoding gives token 0 of row 0 ", NULL},
        {step_with_other_tokens, NULL, "network faulty: step 3 of its decoding gives token 0 of row 0 ",
         NULL},
        {step_without_memory, NULL, "out of memory for the second step", ""},
        {NULL, reorder_nothing, "network faulty: step 2 of its decoding ",
         "must move more, or move it elsewhere"},
        {NULL, reorder_the_first, "network faulty: step ", "must move more, or move it elsewhere"},
        {NULL, reorder_once, "network faulty: step 3 of its decoding ",
         "must move more, or move it elsewhere"},
    };
    struct qkv_model_config config = register_copy();
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        decoding = *right;
        decoding.start = start;
        if (FAULTS[i].step) decoding.step = FAULTS[i].step;
        if (FAULTS[i].reorder) decoding.reorder = FAULTS[i].reorder;
        struct qkv_model *model RELEASED(free_model) = tiny_model(&config, SIZE, SIZE, QKV_FLOAT32, 3);
        enum qkv_status status = qkv_network_check_decoding(model, &error);
        cr_expect_eq(status, *FAULTS[i].begins ? QKV_INVALID : QKV_OK, "fault %d", (int)i);
        cr_expect(begins(error.message, FAULTS[i].begins), "fault %d: %s", (int)i, error.message);
        const char *ends = FAULTS[i].ends;
        if (!ends) cr_expect(lacks(error.message, "reorder"), "fault %d: %s", (int)i, error.message);
        if (ends && strlen(error.message) >= strlen(ends))
            cr_expect_str_eq(error.message + strlen(error.message) - strlen(ends), ends, "fault %d: %s",
                             (int)i, error.message);
    }
}

/* Without a decoding of its own, for too few positions and with narrow products there is nothing to compare. */
Test(decoding_check, passes_where_nothing_can_be_compared)
{
    struct qkv_model_config config = register_copy();
    decoding.step = step_of_one_sentence;
    struct qkv_model *model RELEASED(free_model) = tiny_model(&config, SIZE, SIZE, QKV_FLOAT32, 3);
    cr_expect_eq(qkv_network_check_decoding(model, NULL), QKV_INVALID);
    network.decoding = NULL;
    cr_expect_eq(qkv_network_check_decoding(model, NULL), QKV_OK);
    network.decoding = &decoding;
    cr_assert_eq(qkv_parameters_set_precision(&model->parameters, QKV_PRECISION_BFLOAT16, NULL), QKV_OK);
    cr_expect_eq(qkv_network_check_decoding(model, NULL), QKV_OK);
    qkv_model_free(model);
    config.encoder.positions.max_length = config.decoder.positions.max_length = 1;
    model = tiny_model(&config, SIZE, SIZE, QKV_FLOAT32, 3);
    cr_expect_eq(qkv_network_check_decoding(model, NULL), QKV_OK);
}
