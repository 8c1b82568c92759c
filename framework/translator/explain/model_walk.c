/* Functions shared by the walks through transformers and recurrent networks: parts of the forced
 * pass, and the steps from tokens to the input of the first layer. */
#include "explain/model_walk.h"

#include "explain/learned.h"

#include "qkv/vocabulary.h"

enum qkv_status qkv_model_walk_no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for a walk through attention");
}

/* Copies a tensor [rows, columns] of the pass to a constant of the walk's graph. */
static struct qkv_tensor *copy(struct model_walk *m, const struct qkv_tensor *tensor)
{
    double *values = qkv_walk_memory(m->walk, qkv_tensor_count(tensor), sizeof *values);
    struct qkv_shape shape = qkv_tensor_shape(tensor);
    if (!values) return NULL;
    qkv_tensor_read(tensor, values);
    return qkv_walk_constant(m->walk, (struct qkv_matrix){shape.size[0], shape.size[1], values});
}

struct qkv_tensor *qkv_model_walk_part(struct model_walk *m, enum qkv_part_role role)
{
    const struct qkv_part *part = qkv_trace_attention(m->trace, role, m->kind, m->layer);
    return part ? copy(m, part->node) : NULL;
}

struct qkv_tensor *qkv_model_walk_followed(struct model_walk *m, struct qkv_tensor *x)
{
    return m->followed_rows ? qkv_gather_rows(m->walk->graph, x, m->followed_rows, m->query_words.count) : x;
}

/* The encoder reads the source and then </s>, the decoder <s> and then the target. */
static int32_t token_id(const struct model_walk *m, enum qkv_stack_id stack, int64_t i)
{
    if (stack == QKV_STACK_ENCODER) return i < m->pair->source.length ? m->pair->source.ids[i] : QKV_END;
    return i ? m->pair->target.ids[i - 1] : QKV_BEGIN;
}

static void add_token_ids(struct model_walk *m, enum qkv_stack_id stack, bool source, struct qkv_texts words)
{
    static const char *const ROW[] = {"number"};
    double *ids = qkv_walk_memory(m->walk, words.count, sizeof *ids);
    for (int64_t i = 0; ids && i < words.count; i++) ids[i] = token_id(m, stack, i);
    qkv_walk_add(m->walk, &(struct new_step){.name = source ? "source_tokens" : "tokens",
                                             .title = source ? "source tokens" : "tokens",
                                             .formula = "in the vocabulary",
                                             .content = QKV_STEP_TOKENS,
                                             .values = ids,
                                             .rows = {1, ROW},
                                             .columns = words});
}

void qkv_model_walk_inputs(struct model_walk *m, enum qkv_stack_id stack, bool source, struct qkv_texts words)
{
    struct walk *walk = m->walk;
    const struct qkv_input_layers layers = qkv_model_inputs(m->model, stack);
    const struct qkv_part *embedded = qkv_trace_stack(m->trace, QKV_PART_EMBEDDING, stack),
                          *inputs = qkv_trace_stack(m->trace, QKV_PART_POSITIONS, stack);
    const char *letter = source ? "E_source" : "E";
    long long width = (long long)qkv_tensor_shape(embedded->node).size[1];
    add_token_ids(m, stack, source, words);
    qkv_walk_add_tensor(walk, source ? "source_embeddings" : "embeddings",
                        source ? "source embeddings" : "embeddings",
                        layers.embedding->factor > 1
                            ? qkv_walk_text(walk, "%s = row of the learned table times √%lld", letter, width)
                            : qkv_walk_text(walk, "%s = row of the learned table", letter),
                        copy(m, embedded->node), words);
    if (!inputs) return;
    struct qkv_matrix table = qkv_position_table(m->model, layers.positions, walk);
    if (table.rows > words.count) table.rows = words.count;
    if (!source)
        qkv_walk_add(walk,
                     &(struct new_step){
                         .name = "positions",
                         .title = "position encoding",
                         .formula = layers.positions->table
                                        ? "P, learned"
                                        : "P[p, 2i] = sin(p / base^(2i/D)), P[p, 2i+1] = cos of the same",
                         .matrix = table,
                         .rows = qkv_walk_positions(walk, table.rows)});
    qkv_walk_add_tensor(walk, source ? "source_inputs" : "inputs", source ? "source inputs" : "inputs",
                        qkv_walk_text(walk, "%s + P", letter), copy(m, inputs->node), words);
}

/* ---- mask ---- */

/* Joins two texts, either of which may be empty, by a space. */
static const char *join(struct model_walk *m, const char *one, const char *other)
{
    return qkv_walk_text(m->walk, "%s%s%s", one, *one && *other ? " " : "", other);
}

static const char *mask_note(struct model_walk *m, const struct qkv_attention_rule *rule, bool masks_words)
{
    const char *near = "", *first = "";
    if (rule && rule->window)
        near = qkv_walk_text(m->walk, "A word sees only words at a distance of at most %lld.",
                             (long long)rule->window);
    if (rule && rule->window && rule->global_tokens)
        first = qkv_walk_text(m->walk, "The first %lld see all words, and all words see them.",
                              (long long)rule->global_tokens);
    if (rule && rule->window && rule->global_tokens == 1)
        first = "The first one sees all words, and all words see it.";
    const char *later =
        rule && rule->causal ? "No word sees a later word: during translation there is none yet." : "";
    return join(m, join(m, near, first),
                join(m, later, masks_words ? "Nothing attends to a silent word." : ""));
}

void qkv_model_walk_mask(struct model_walk *m, const struct qkv_attention_rule *rule,
                         struct attention_setup *setup)
{
    const bool *masked = m->kind == QKV_ATTENTION_DECODER ? NULL : m->pair->source_masked;
    int64_t keys = m->key_words.count, queries = m->query_words.count;
    if (!masked && !(rule && (rule->causal || rule->window))) return;
    double *visible = qkv_walk_memory(m->walk, queries * keys, sizeof *visible);
    for (int64_t i = 0; visible && i < queries; i++) {
        int64_t position = m->followed_rows ? m->followed_rows[i] : i;
        struct qkv_visible_keys seen = {0, 0, keys};
        if (rule) seen = qkv_attention_visible(rule, position, keys);
        for (int64_t j = 0; j < keys; j++)
            visible[i * keys + j] = qkv_is_visible(seen, j) && !(masked && masked[j]);
    }
    setup->visible = visible;
    setup->mask_note = mask_note(m, rule, masked);
}
