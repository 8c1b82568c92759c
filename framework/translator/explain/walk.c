/* A walk under construction: adds steps, runs its graph, and reads the values of the steps. */
#include "explain/walk.h"

#include <math.h>

struct walk *qkv_walk_new(enum qkv_dtype dtype, struct qkv_arena *arena, struct qkv_error *error)
{
    struct walk *walk = qkv_arena_zeroed(arena, sizeof *walk);
    *error = (struct qkv_error){""};
    if (walk) walk->graph = qkv_graph_new(dtype);
    if (!walk || !walk->graph) {
        qkv_no_memory(error);
        return NULL;
    }
    walk->arena = arena;
    qkv_graph_set_gradients(walk->graph, false);
    return walk;
}

void qkv_walk_free(struct walk *walk)
{
    qkv_graph_free(walk->graph);
    walk->graph = NULL;
}

void *qkv_walk_memory(struct walk *walk, int64_t count, size_t size)
{
    void *memory = qkv_arena_zeroed(walk->arena, (size_t)count * size);
    if (!memory) walk->failed = true;
    return memory;
}

const char *qkv_walk_made(struct walk *walk, const char *text)
{
    if (!text) walk->failed = true;
    return text ? text : "";
}

int64_t qkv_walk_find_rows(struct qkv_texts words, const char *word, int32_t *rows)
{
    int64_t count = 0;
    for (int64_t i = 0; i < words.count; i++)
        if (!strcmp(words.text[i], word)) rows[count++] = (int32_t)i;
    char *end;
    long number = strtol(word, &end, 10);
    if (!count && end > word && !*end && number >= 1 && number <= words.count)
        rows[count++] = (int32_t)(number - 1);
    return count;
}

struct qkv_tensor *qkv_walk_constant(struct walk *walk, struct qkv_matrix matrix)
{
    struct qkv_tensor *tensor = qkv_constant(walk->graph, QKV_SHAPE(matrix.rows, matrix.columns));
    if (tensor) qkv_tensor_write(tensor, matrix.value);
    return tensor;
}

/* ---- adding steps ---- */

static struct qkv_step *add_step(struct walk *walk, const char *name, const char *title, const char *formula,
                                 struct layout layout)
{
    QKV_BUG(walk->count == WALK_MAX_STEPS, "a walk has more than %d steps", WALK_MAX_STEPS);
    walk->pending[walk->count] = (struct pending){.side_by_side = layout.side_by_side};
    struct qkv_step *step = &walk->step[walk->count++];
    *step = (struct qkv_step){.name = name,
                              .title = title,
                              .formula = formula,
                              .heads = layout.heads,
                              .rows = layout.rows.count,
                              .columns = layout.columns.count,
                              .row_names = layout.rows.text,
                              .column_names = layout.columns.text};
    if (title) return step;
    char *spaced = qkv_arena_string(walk->arena, name);
    for (char *at = spaced; at && (at = strchr(at, '_'));) *at = ' ';
    step->title = qkv_walk_made(walk, spaced);
    return step;
}

struct qkv_step *qkv_walk_add_tensor(struct walk *walk, const char *name, const char *title,
                                     const char *formula, struct layout layout,
                                     const struct qkv_tensor *tensor)
{
    int64_t heads = layout.heads ? layout.heads : 1;
    if (tensor && !layout.columns.count && layout.rows.count)
        layout.columns.count = qkv_tensor_count(tensor) / (layout.rows.count * heads);
    struct qkv_step *step = add_step(walk, name, title, formula, layout);
    walk->pending[walk->count - 1].tensor = tensor;
    return step;
}

/* [rows, heads columns] -> [heads, rows, columns], in the arena. */
static const double *split_heads(struct walk *walk, const struct qkv_step *step, const double *joined)
{
    int64_t heads = step->heads ? step->heads : 1, rows = step->rows, columns = step->columns;
    double *split = qkv_walk_memory(walk, heads * rows * columns, sizeof *split);
    for (int64_t i = 0; split && joined && i < heads * rows * columns; i++) {
        int64_t column = i % columns, head = i / columns % heads, row = i / columns / heads;
        split[(head * rows + row) * columns + column] = joined[i];
    }
    return split;
}

struct qkv_step *qkv_walk_add_values(struct walk *walk, const char *name, const char *title,
                                     const char *formula, struct layout layout, const double *values)
{
    struct qkv_step *step = add_step(walk, name, title, formula, layout);
    step->values = layout.side_by_side ? split_heads(walk, step, values) : values;
    return step;
}

struct qkv_step *qkv_walk_add_matrix(struct walk *walk, const char *name, const char *title,
                                     const char *formula, int64_t heads, struct qkv_matrix matrix)
{
    const struct layout layout = {
        {.count = matrix.rows}, {.count = matrix.columns / (heads ? heads : 1)}, heads, .side_by_side = true};
    return qkv_walk_add_values(walk, name, title, formula, layout, matrix.value);
}

struct qkv_step *qkv_walk_add_tokens(struct walk *walk, const char *name, const char *title,
                                     const char *formula, const char *row, struct qkv_texts tokens,
                                     const double *numbers)
{
    const char **rows = qkv_walk_memory(walk, 1, sizeof *rows);
    if (rows) *rows = row;
    struct qkv_step *step =
        qkv_walk_add_values(walk, name, title, formula, (struct layout){{1, rows}, tokens}, numbers);
    step->content = QKV_STEP_TOKENS;
    return step;
}

void qkv_walk_add_positions(struct walk *walk, const char *name, const char *formula, struct qkv_matrix table)
{
    const char **rows = qkv_walk_memory(walk, table.rows, sizeof *rows);
    for (int64_t i = 0; rows && i < table.rows; i++) rows[i] = qkv_walk_text(walk, "%lld", (long long)i);
    if (!formula) formula = "P[p, 2i] = sin(p / base^(2i/D)), P[p, 2i+1] = cos of the same";
    qkv_walk_add_values(walk, name, "position encoding", formula,
                        (struct layout){{table.rows, rows}, {.count = table.columns}}, table.value);
}

void qkv_walk_rule(struct walk *walk, enum qkv_step_rule rule, const char *x, const char *y, const char *z)
{
    struct qkv_step *step = &walk->step[walk->count - 1];
    step->rule = rule;
    step->from[0] = x;
    step->from[1] = y;
    step->from[2] = z;
}

/* ---- products ---- */

void qkv_walk_add_weights(struct walk *walk, const struct product *p)
{
    if (p->projection->weight.rows)
        qkv_walk_add_matrix(walk, qkv_walk_text(walk, "%s_weights", p->weights), NULL,
                            qkv_walk_text(walk, "W_%s", p->index), p->heads, p->projection->weight);
    if (p->projection->bias.rows)
        qkv_walk_add_matrix(walk, qkv_walk_text(walk, "%s_bias", p->weights), NULL,
                            qkv_walk_text(walk, "b_%s", p->index), p->heads, p->projection->bias);
}

struct shown qkv_walk_add_product(struct walk *walk, const struct product *p, struct shown x)
{
    bool has_weight = p->projection->weight.rows, has_bias = p->projection->bias.rows;
    struct qkv_tensor *y = x.tensor, *bias = NULL;
    if (has_bias) bias = qkv_constant(walk->graph, QKV_SHAPE(p->projection->bias.columns));
    if (bias) qkv_tensor_write(bias, p->projection->bias.value);
    if (has_weight)
        y = qkv_linear(walk->graph, x.tensor, qkv_walk_constant(walk, p->projection->weight), bias, false);
    const char *formula = x.letter;
    if (has_weight) formula = qkv_walk_text(walk, "%s W_%s", formula, p->index);
    if (has_bias) formula = qkv_walk_text(walk, "%s + b_%s", formula, p->index);
    if (p->letter) formula = qkv_walk_text(walk, "%s = %s", p->letter, formula);
    struct qkv_step *step =
        qkv_walk_add_tensor(walk, p->name, p->title, formula,
                            (struct layout){p->rows, .heads = p->heads, .side_by_side = true}, y);
    if (!has_weight)
        step->same_as = x.step;
    else if (x.step)
        qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, x.step, qkv_walk_text(walk, "%s_weights", p->weights),
                      has_bias ? qkv_walk_text(walk, "%s_bias", p->weights) : NULL);
    return (struct shown){y, p->letter, p->name};
}

/* ---- reading tensors ---- */

static const double *read_tensor(struct walk *walk, const struct qkv_step *step,
                                 const struct pending *pending)
{
    int64_t count = qkv_tensor_count(pending->tensor), heads = step->heads ? step->heads : 1,
            cells = step->rows * step->columns;
    double *values = qkv_walk_memory(walk, count, sizeof *values);
    if (!values) return NULL;
    QKV_BUG(count != heads * cells, "step %s has %lld numbers for %lld x %lld x %lld", step->name,
            (long long)count, (long long)heads, (long long)step->rows, (long long)step->columns);
    qkv_tensor_read(pending->tensor, values);
    for (int64_t i = 0; pending->visible && i < count; i++)
        if (!(pending->visible[i % cells] > 0)) values[i] = -HUGE_VAL;
    return pending->side_by_side ? split_heads(walk, step, values) : values;
}

/* Merges the weights of each head into weights between words. */
static const double *merge(struct walk *walk, const struct qkv_step *weights, const struct qkv_step *words,
                           const struct merged_words *merged)
{
    int64_t heads = weights->heads ? weights->heads : 1, cells = words->rows * words->columns;
    double *values = qkv_walk_memory(walk, heads * cells, sizeof *values);
    for (int64_t h = 0; values && h < heads; h++)
        qkv_merge_weights(weights->values + h * weights->rows * weights->columns, &merged->rows.labels,
                          &merged->columns.labels, values + h * cells);
    return values;
}

enum qkv_status qkv_walk_finish(struct walk *walk, struct qkv_explanation *explanation,
                                struct qkv_error *error)
{
    if (walk->failed) return *error->message ? QKV_INVALID : qkv_no_memory(error);
    if (qkv_graph_check(walk->graph, error)) return QKV_INVALID;
    qkv_forward(walk->graph);
    if (qkv_graph_check(walk->graph, error)) return QKV_INVALID;
    for (int64_t i = 0; i < walk->count && !walk->failed; i++) {
        struct qkv_step *step = &walk->step[i];
        if (walk->pending[i].tensor) step->values = read_tensor(walk, step, &walk->pending[i]);
        if (walk->pending[i].merged) step->values = merge(walk, step - 1, step, walk->pending[i].merged);
    }
    if (walk->failed) return qkv_no_memory(error);
    explanation->steps = walk->step;
    explanation->step_count = walk->count;
    return QKV_OK;
}
