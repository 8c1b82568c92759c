/* The parts of a forced pass, by role: each network records them all, with the shapes that model.h
 * states, and the layers by role hold the parameters that they were computed with. */
#include "tiny.h"

#include "models/network.h"

enum { SOURCE_TOKENS = 6, TARGET_TOKENS = 9, WIDTH = 8 }; /* two sentences, with </s> */

struct pass {
    struct tiny tiny;
    struct qkv_graph *graph;
    struct qkv_trace trace;
};

static struct pass pass_of(const struct qkv_model_config *config)
{
    static const int64_t SOURCE[] = {1, 3}, TARGET[] = {5, 2};
    struct pass pass = {.tiny = tiny_with(tiny_model(config, 9, 7, QKV_FLOAT64, 2), 2, SOURCE, TARGET, 1)};
    pass.graph = tiny_traced(&pass.tiny, &pass.trace);
    return pass;
}

static void end_pass(struct pass *pass)
{
    qkv_graph_free(pass->graph);
    tiny_release(&pass->tiny);
}

static double *values_of(const struct qkv_tensor *tensor, int64_t rows, int64_t columns)
{
    struct qkv_shape shape = qkv_tensor_shape(tensor);
    double *values = malloc((size_t)(rows * columns) * sizeof *values);
    cr_assert(shape.size[0] == rows && shape.size[1] == columns, "[%d, %d], not [%d, %d]", (int)shape.size[0],
              (int)shape.size[1], (int)rows, (int)columns);
    qkv_tensor_read(tensor, values);
    return values;
}

static const struct qkv_tensor *attention_part(const struct pass *pass, enum qkv_part_role role,
                                               enum qkv_attention_kind kind, int64_t layer)
{
    const struct qkv_part *part = qkv_trace_attention(&pass->trace, role, kind, layer);
    cr_assert_not_null(part, "role %d of kind %d, layer %d", role, kind, (int)layer);
    cr_expect_eq(part->stack, kind == QKV_ATTENTION_ENCODER ? QKV_STACK_ENCODER : QKV_STACK_DECODER);
    return part->node;
}

/* y [rows, outputs] is x [rows, inputs] times the layer's weight plus its bias. */
static void expect_dense(const struct pass *pass, const struct qkv_dense *layer, const double *x,
                         const double *y, int64_t rows, const char *name)
{
    const struct qkv_parameters *parameters = &pass->tiny.model->parameters;
    int64_t inputs = layer->weight->shape.size[0], outputs = layer->weight->shape.size[1];
    for (int64_t i = 0; i < rows * outputs; i++) {
        double sum = layer->bias ? qkv_parameter_get(parameters, layer->bias, i % outputs) : 0;
        for (int64_t k = 0; k < inputs; k++)
            sum += x[i / outputs * inputs + k] *
                   qkv_parameter_get(parameters, layer->weight, k * outputs + i % outputs);
        cr_assert_float_eq(y[i], sum, 1e-12, "%s [%d]", name, (int)i);
    }
}

static void expect_attention(const struct pass *pass, enum qkv_attention_kind kind, int64_t layer)
{
    const struct qkv_multi_head *multi_head = qkv_model_attention(pass->tiny.model, kind, layer).multi_head;
    int64_t queries = kind == QKV_ATTENTION_ENCODER ? SOURCE_TOKENS : TARGET_TOKENS;
    int64_t keys = kind == QKV_ATTENTION_DECODER ? TARGET_TOKENS : SOURCE_TOKENS;
    static const enum qkv_part_role ROLES[] = {QKV_PART_INPUT, QKV_PART_MEMORY,  QKV_PART_QUERY, QKV_PART_KEY,
                                               QKV_PART_VALUE, QKV_PART_CONTEXT, QKV_PART_OUTPUT};
    double *of[7];
    for (int i = 0; i < 7; i++)
        of[i] = values_of(attention_part(pass, ROLES[i], kind, layer),
                          i == 1 || i == 3 || i == 4 ? keys : queries, WIDTH);
    int64_t rows, columns;
    cr_expect_not_null(
        qkv_attention_weights_of(attention_part(pass, QKV_PART_WEIGHTS, kind, layer), 1, 1, &rows, &columns));
    expect_dense(pass, &multi_head->query, of[0], of[2], queries, "query");
    expect_dense(pass, &multi_head->key, of[1], of[3], keys, "key");
    expect_dense(pass, &multi_head->value, of[1], of[4], keys, "value");
    expect_dense(pass, &multi_head->output, of[5], of[6], queries, "output");
    for (int i = 0; i < 7; i++) free(of[i]);
}

Test(trace, a_transformer_records_every_role)
{
    for (int post = 0; post < 2; post++) {
        struct qkv_model_config config = tiny_config();
        config.encoder.layer_norm = config.decoder.layer_norm = post ? QKV_NORM_POST : QKV_NORM_PRE;
        struct pass pass = pass_of(&config);
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
            for (int64_t layer = 1; layer <= 2; layer++) {
                expect_attention(&pass, (enum qkv_attention_kind)kind, layer);
                /* Layer 1 of a post-norm stack reads embeddings, which have no norm. */
                cr_expect_eq(qkv_trace_has(
                                 &pass.trace, QKV_PART_NORM,
                                 attention_part(&pass, QKV_PART_INPUT, (enum qkv_attention_kind)kind, layer)),
                             !post || layer > 1 || kind == QKV_ATTENTION_CROSS);
            }
        for (int stack = 0; stack < 2; stack++) {
            int64_t rows = stack == QKV_STACK_ENCODER ? SOURCE_TOKENS : TARGET_TOKENS;
            const enum qkv_part_role roles[] = {QKV_PART_EMBEDDING, QKV_PART_POSITIONS};
            for (int r = 0; r < 2; r++) {
                const struct qkv_part *part =
                    qkv_trace_stack(&pass.trace, roles[r], (enum qkv_stack_id)stack, 0);
                cr_assert_not_null(part);
                free(values_of(part->node, rows, WIDTH));
            }
            cr_expect_not_null(qkv_model_inputs(pass.tiny.model, (enum qkv_stack_id)stack).positions);
        }
        cr_expect_null(qkv_model_attention(pass.tiny.model, QKV_ATTENTION_CROSS, 3).multi_head);
        cr_expect_null(qkv_model_attention(pass.tiny.model, QKV_ATTENTION_CROSS, 0).multi_head);
        end_pass(&pass);
    }
}

/* Embeddings are rows of the table in the order of the batch, also when input feeding sorts the
 * sentences. */
static void expect_embeddings(const struct pass *pass, enum qkv_stack_id stack)
{
    bool encoder = stack == QKV_STACK_ENCODER;
    const struct qkv_parameter *table = qkv_model_inputs(pass->tiny.model, stack).embedding->table;
    const int32_t *ids = encoder ? pass->tiny.batch.source : pass->tiny.batch.target_input;
    int64_t rows = encoder ? SOURCE_TOKENS : TARGET_TOKENS, width = table->shape.size[1];
    double *values RELEASED(free_memory) =
        values_of(qkv_trace_stack(&pass->trace, QKV_PART_EMBEDDING, stack, 0)->node, rows, width);
    for (int64_t i = 0; i < rows * width; i++)
        cr_assert_eq(values[i], qkv_parameter_get(&pass->tiny.model->parameters, table,
                                                  ids[i / width] * width + i % width));
}

Test(trace, a_recurrent_network_records_every_role)
{
    for (int feeding = 0; feeding < 2; feeding++) {
        struct qkv_model_config config = tiny_recurrent_config();
        config.encoder.bidirectional = false;
        config.encoder.embeddings.embedding_dim = config.decoder.embeddings.embedding_dim = WIDTH;
        config.decoder.input_feeding = feeding;
        struct pass pass = pass_of(&config);
        const enum qkv_attention_kind kind = QKV_ATTENTION_CROSS;
        const struct qkv_attention_layers layers = qkv_model_attention(pass.tiny.model, kind, 1);
        double *state = values_of(attention_part(&pass, QKV_PART_INPUT, kind, 1), TARGET_TOKENS, WIDTH),
               *memory = values_of(attention_part(&pass, QKV_PART_MEMORY, kind, 1), SOURCE_TOKENS, WIDTH),
               *key = values_of(attention_part(&pass, QKV_PART_KEY, kind, 1), SOURCE_TOKENS, WIDTH),
               *context = values_of(attention_part(&pass, QKV_PART_CONTEXT, kind, 1), TARGET_TOKENS, WIDTH),
               *output = values_of(attention_part(&pass, QKV_PART_OUTPUT, kind, 1), TARGET_TOKENS, WIDTH);
        double joined[TARGET_TOKENS * 2 * WIDTH];
        for (int i = 0; i < TARGET_TOKENS * 2 * WIDTH; i++) {
            int row = i / (2 * WIDTH), column = i % (2 * WIDTH);
            joined[i] = column < WIDTH ? state[row * WIDTH + column] : context[row * WIDTH + column - WIDTH];
        }
        for (int i = 0; i < TARGET_TOKENS * WIDTH; i++) output[i] = atanh(output[i]);
        expect_dense(&pass, &layers.single_head->key, memory, key, SOURCE_TOKENS, "key");
        expect_dense(&pass, layers.attentional, joined, output, TARGET_TOKENS, "attentional vector");
        expect_embeddings(&pass, QKV_STACK_ENCODER);
        expect_embeddings(&pass, QKV_STACK_DECODER);
        cr_expect_null(qkv_trace_stack(&pass.trace, QKV_PART_POSITIONS, QKV_STACK_DECODER, 0));
        cr_expect_null(qkv_model_attention(pass.tiny.model, QKV_ATTENTION_ENCODER, 1).single_head);
        double *all[] = {state, memory, key, context, output};
        for (int i = 0; i < 5; i++) free(all[i]);
        end_pass(&pass);
    }
}
