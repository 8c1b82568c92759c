/* The walk through an attention layer of a trained model: finds the layer and its words, checks what the network recorded of
 * the pass, and merges weights between words. */
#include "explain/model_walk.h"

#include "models/network.h"
#include "qkv/model.h"
#include "report/collect.h"
#include "report/words.h"

/* ---- the layer ---- */

static enum qkv_status no_attention(const struct model_walk *m)
{
    bool recurrent = m->model->config.decoder.type == QKV_NETWORK_RECURRENT;
    if (recurrent && m->model->config.decoder.attention.score == QKV_ATTENTION_SCORE_NONE)
        return qkv_error_set(m->error,
                             "this model has no attention (model.decoder.attention.score is none): its "
                             "decoder gets only the final state of the encoder");
    return qkv_error_set(
        m->error, "the model has no %s attention%s", qkv_attention_kind_name(m->kind),
        recurrent ? ": in a recurrent network only the decoder attends, to the encoder (cross)" : "");
}

static bool has_layer(const struct qkv_attention_layers *layers)
{
    return layers->multi_head || layers->single_head;
}

/* Sets m->layers; an m->layer of 0 becomes the last layer. */
static enum qkv_status find_layer(struct model_walk *m)
{
    int count = 0;
    while (m->layers = qkv_model_attention(m->model, m->kind, count + 1), has_layer(&m->layers)) count++;
    if (!count) return no_attention(m);
    if (!m->layer) m->layer = count;
    m->layers = qkv_model_attention(m->model, m->kind, m->layer);
    if (has_layer(&m->layers)) return QKV_OK;
    return qkv_error_set(m->error, "the %s attention has no layer %d: its layers are 1 to %d",
                         qkv_attention_kind_name(m->kind), m->layer, count);
}

/* ---- what the network must provide: the networks of qkv do so, but one that another program defines may not ---- */

static enum qkv_status no_layer(const struct model_walk *m, const char *function, const char *layer,
                                const char *owner)
{
    return qkv_error_set(m->error, "network %s: its function %s gives no %s of %s, which explanations need",
                         m->model->interface->name, function, layer, owner);
}

/* Checks the embeddings of a stack and, if they are recorded, its positions. */
static enum qkv_status check_inputs(const struct model_walk *m, const struct recorded_pass *pass,
                                    enum qkv_stack_id stack, int64_t words)
{
    const struct qkv_input_layers layers = qkv_model_inputs(m->model, stack);
    const struct part_shape shape = {words, 0};
    const char *owner = stack == QKV_STACK_ENCODER ? "the encoder" : "the decoder";
    if (!qkv_recorded_stack(pass, QKV_PART_EMBEDDING, stack, shape)) return QKV_INVALID;
    if (!layers.embedding) return no_layer(m, "inputs", "embedding", owner);
    if (!qkv_trace_stack(m->trace, QKV_PART_POSITIONS, stack)) return QKV_OK;
    if (!qkv_recorded_stack(pass, QKV_PART_POSITIONS, stack, shape)) return QKV_INVALID;
    if (!layers.positions || !(layers.positions->table || layers.positions->sinusoids))
        return no_layer(m, "inputs", "positions", owner);
    return QKV_OK;
}

/* Whether a part of the layer was recorded, with one row for each query or key. columns 0: any number. */
static bool has_part(const struct model_walk *m, const struct recorded_pass *pass, enum qkv_part_role role,
                     int64_t columns)
{
    int64_t rows = role == QKV_PART_MEMORY ? m->key_words.count : m->query_words.count;
    return qkv_recorded_attention(pass, role, m->kind, m->layer, (struct part_shape){rows, columns});
}

/* Checks the parts of the layer that the walk reads. */
static enum qkv_status check_layer(const struct model_walk *m, const struct recorded_pass *pass)
{
    const struct qkv_attention_layers *layers = &m->layers;
    const struct qkv_multi_head *multi_head = layers->multi_head;
    const struct qkv_single_head_attention *single_head = layers->single_head;
    int64_t input = multi_head ? multi_head->query.weight->shape.size[0] : single_head->query_width,
            memory = multi_head ? multi_head->key.weight->shape.size[0] : single_head->memory_width;
    if (!has_part(m, pass, QKV_PART_INPUT, input) || !has_part(m, pass, QKV_PART_MEMORY, memory))
        return QKV_INVALID;
    if (!multi_head && !layers->attentional)
        return no_layer(m, "attention", "attentional layer", "its single head");
    if (!multi_head)
        return m->model->config.decoder.input_feeding && !has_part(m, pass, QKV_PART_OUTPUT, 0) ? QKV_INVALID
                                                                                                : QKV_OK;
    if (!layers->residual) return QKV_OK;
    if (layers->residual->place == QKV_NORM_PRE &&
        !has_part(m, pass, QKV_PART_RESIDUAL, multi_head->output.weight->shape.size[1]))
        return QKV_INVALID;
    if (layers->feed_forward && !layers->feed_forward_residual)
        return no_layer(m, "attention", "feed_forward_residual", "a layer with feed_forward");
    return QKV_OK;
}

static enum qkv_status check_network(const struct model_walk *m)
{
    const struct recorded_pass pass = {m->model, m->trace, "explanations", m->error};
    bool is_encoder = m->kind == QKV_ATTENTION_ENCODER && m->layers.multi_head,
         reads_source = m->kind == QKV_ATTENTION_CROSS || !m->layers.multi_head;
    if (check_layer(m, &pass) ||
        check_inputs(m, &pass, is_encoder ? QKV_STACK_ENCODER : QKV_STACK_DECODER, m->input_words.count))
        return QKV_INVALID;
    return reads_source ? check_inputs(m, &pass, QKV_STACK_ENCODER, m->key_words.count) : QKV_OK;
}

/* ---- words ---- */

/* Copies tokens from the memory of the collector to the arena of the walk. */
static struct qkv_texts keep(struct model_walk *m, int64_t count, const char *const *tokens)
{
    const char **kept = qkv_walk_memory(m->walk, count, sizeof *kept);
    for (int64_t i = 0; kept && i < count; i++) kept[i] = qkv_walk_text(m->walk, "%s", tokens[i]);
    return (struct qkv_texts){count, kept};
}

static void name_words(struct model_walk *m, const struct qkv_attention_report *report)
{
    bool encoder = m->kind == QKV_ATTENTION_ENCODER, decoder = m->kind == QKV_ATTENTION_DECODER;
    int64_t rows = encoder ? report->source_length : report->target_length;
    m->input_words = keep(m, rows, encoder ? report->source : report->target_input);
    m->query_words = keep(m, rows, qkv_attention_row_tokens(report, m->kind));
    m->key_words = keep(m, decoder ? report->target_length : report->source_length,
                        qkv_attention_column_tokens(report, m->kind));
}

/* Finds the rows with this token, or this number from 1, or else those of the words with this name. */
static int64_t find_rows(const struct model_walk *m, const struct named_words *words, const char *text,
                         int32_t *rows)
{
    int64_t count = qkv_walk_find_rows(m->query_words, text, rows);
    if (count || !words) return count;
    for (int64_t i = 0; i < words->labels.tokens; i++)
        if (words->labels.word[i] >= 0 && !strcmp(words->names[words->labels.word[i]], text))
            rows[count++] = (int32_t)i;
    return count;
}

/* Writes all rows of the words of these rows, in the order of the sentence, to `all`. Returns their number. */
static int64_t complete_words(const struct word_labels *labels, const int32_t *rows, int64_t count,
                              int32_t *all)
{
    int64_t written = 0;
    for (int64_t i = 0; i < labels->tokens; i++)
        for (int64_t r = 0; r < count; r++) {
            if (rows[r] != i && (labels->word[i] < 0 || labels->word[rows[r]] != labels->word[i])) continue;
            all[written++] = (int32_t)i;
            break;
        }
    return written;
}

/* Keeps only the query rows that `follow` names; with words, which merge tokens, all rows of the words of these. */
static enum qkv_status follow_words(struct model_walk *m, const struct named_words *words,
                                    const struct qkv_texts *follow)
{
    if (!follow->count) return QKV_OK;
    int64_t count = 0, capacity = (follow->count + 1) * m->query_words.count;
    int32_t *rows = qkv_walk_memory(m->walk, capacity, sizeof *rows);
    const char **names = qkv_walk_memory(m->walk, capacity, sizeof *names);
    int32_t *all = qkv_walk_memory(m->walk, m->query_words.count, sizeof *all);
    if (!rows || !names || !all) return qkv_no_memory(m->error);
    for (int64_t f = 0; f < follow->count; f++) {
        int64_t found = find_rows(m, words, follow->text[f], rows + count);
        count += found;
        if (!found)
            return qkv_error_set(
                m->error,
                "there is no word '%s' to follow: give a word of the rows, or a number from 1 to %lld",
                follow->text[f], (long long)m->query_words.count);
    }
    if (words) {
        count = complete_words(&words->labels, rows, count, all);
        rows = all;
    }
    for (int64_t i = 0; i < count; i++) names[i] = m->query_words.text[rows[i]];
    m->query_words = (struct qkv_texts){count, names};
    m->followed_rows = rows;
    return QKV_OK;
}

/* ---- weights between words ---- */

/* Keeps the rows that `follow` names, and finds the words of these rows and of the columns if options->words is not NULL. */
static enum qkv_status find_words(struct model_walk *m, const struct qkv_attention_report *report,
                                  const struct qkv_explain_options *options)
{
    struct qkv_arena *arena = m->walk->arena;
    struct named_words rows, columns; /* of all tokens; names are in the memory of the collector */
    if (!options->words) return follow_words(m, NULL, &options->follow);
    if (!qkv_report_row_words(report, *options->words, m->kind, arena, &rows) ||
        !qkv_report_column_words(report, *options->words, m->kind, arena, &columns))
        return qkv_no_memory(m->error);
    if (follow_words(m, &rows, &options->follow)) return QKV_INVALID;
    int64_t *word = qkv_walk_memory(m->walk, m->query_words.count, sizeof *word);
    for (int64_t i = 0; word && i < m->query_words.count; i++)
        word[i] = rows.labels.word[m->followed_rows ? m->followed_rows[i] : i];
    bool grouped =
        word && qkv_group_words(m->query_words.text, word, m->query_words.count, arena, &m->words.rows) &&
        qkv_group_words(m->key_words.text, columns.labels.word, m->key_words.count, arena, &m->words.columns);
    return grouped ? QKV_OK : qkv_no_memory(m->error);
}

/* ---- the walk ---- */

static enum qkv_status walk_layer(struct model_walk *m, struct qkv_attention_collector *collector,
                                  const struct qkv_explain_options *options,
                                  struct qkv_explanation *explanation)
{
    struct qkv_attention_report report;
    enum qkv_status status = qkv_attention_collect(collector, 1, m->pair, 1u << m->kind, &report, m->error);
    if (status) return status;
    if (find_layer(m)) return QKV_INVALID;
    m->trace = qkv_attention_collector_trace(collector);
    name_words(m, &report);
    if (m->walk->failed) return qkv_no_memory(m->error);
    if (check_network(m) || find_words(m, &report, options)) return QKV_INVALID;
    if (m->layers.multi_head)
        qkv_model_walk_transformer(m);
    else
        qkv_model_walk_recurrent(m);
    return qkv_walk_finish(m->walk, explanation, m->error);
}

enum qkv_status qkv_explain_model(const struct qkv_model *model, const struct qkv_attention_pair *pair,
                                  const struct qkv_explain_options *options, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error)
{
    if ((int)options->kind < 0 || (int)options->kind >= QKV_ATTENTION_KINDS)
        return qkv_error_set(error, "there is no attention of kind %d", (int)options->kind);
    struct walk *walk = qkv_walk_new(model->parameters.dtype, arena, error);
    struct model_walk m = {.model = model,
                           .kind = options->kind,
                           .layer = options->layer,
                           .pair = pair,
                           .walk = walk,
                           .target_vocabulary = options->target_vocabulary,
                           .error = error};
    if (!walk) return QKV_INVALID;
    qkv_graph_bind(walk->graph, &model->parameters, NULL, false);
    *explanation = (struct qkv_explanation){.about = "", .kind = options->kind, .first_head = 1};
    struct qkv_attention_collector *collector = qkv_attention_collector_new(model, error);
    enum qkv_status status = collector ? walk_layer(&m, collector, options, explanation) : QKV_INVALID;
    explanation->heads = explanation->layer_heads = m.heads;
    explanation->layer = m.layer;
    qkv_attention_collector_free(collector);
    qkv_walk_free(walk);
    return status;
}
