/* The walk through an attention layer of a trained model. */
#include "explain/model_walk.h"

#include "report/collect.h"

#include <string.h>

static enum qkv_status no_attention(const struct model_walk *m)
{
    bool recurrent = m->model->config.decoder.type == QKV_NETWORK_RECURRENT;
    const char *kind = qkv_attention_kind_name(m->kind);
    if (recurrent && m->model->config.decoder.attention.score == QKV_ATTENTION_SCORE_NONE)
        return qkv_error_set(m->error,
                             "this model has no attention (model.decoder.attention.score is none): its "
                             "decoder gets only the final state of the encoder");
    return qkv_error_set(
        m->error, "the model has no %s attention%s", kind,
        recurrent ? ": in a recurrent network only the decoder attends, to the encoder (cross)" : "");
}

static bool has_layer(const struct qkv_attention_layers *layers)
{
    return layers->multi_head || layers->single_head;
}

/* Sets m->layers; an m->layer of 0 becomes the last layer. */
static enum qkv_status find_layer(struct model_walk *m)
{
    struct qkv_attention_layers layers;
    int count = 0;
    while (layers = qkv_model_attention(m->model, m->kind, count + 1), has_layer(&layers)) count++;
    if (!count) return no_attention(m);
    if (!m->layer) m->layer = count;
    m->layers = qkv_model_attention(m->model, m->kind, m->layer);
    if (has_layer(&m->layers)) return QKV_OK;
    return qkv_error_set(m->error, "the %s attention has no layer %d: its layers are 1 to %d",
                         qkv_attention_kind_name(m->kind), m->layer, count);
}

/* ---- words ---- */

static void name_words(struct model_walk *m, const struct qkv_attention_report *report)
{
    bool encoder = m->kind == QKV_ATTENTION_ENCODER, decoder = m->kind == QKV_ATTENTION_DECODER;
    m->input_words = (struct qkv_texts){encoder ? report->source_length : report->target_length,
                                        encoder ? report->source : report->target_input};
    m->query_words = (struct qkv_texts){m->input_words.count, qkv_attention_row_tokens(report, m->kind)};
    m->key_words = (struct qkv_texts){decoder ? report->target_length : report->source_length,
                                      qkv_attention_column_tokens(report, m->kind)};
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
    int64_t count = 0;
    int32_t *rows = qkv_walk_memory(m->walk, (follow->count + 1) * m->query_words.count, sizeof *rows);
    const char **names = qkv_walk_memory(m->walk, (follow->count + 1) * m->query_words.count, sizeof *names);
    int32_t *all = qkv_walk_memory(m->walk, m->query_words.count, sizeof *all);
    if (!rows || !names || !all) return qkv_model_walk_no_memory(m->error);
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

/* Copies the words of the report from the memory of the collector to the arena of the walk. */
static void keep_words(struct model_walk *m)
{
    struct qkv_texts *all[] = {&m->query_words, &m->key_words, &m->input_words};
    for (int i = 0; i < 3; i++) {
        const char **kept = qkv_walk_memory(m->walk, all[i]->count, sizeof *kept);
        for (int64_t w = 0; kept && w < all[i]->count; w++) {
            kept[w] = qkv_arena_string(m->walk->arena, all[i]->text[w]);
            if (!kept[w]) m->walk->failed = true;
        }
        all[i]->text = kept;
    }
}

/* ---- weights between words ---- */

/* Finds the words of all rows, keeps the rows that `follow` names, and finds the words of these rows and of the columns. */
static enum qkv_status find_words(struct model_walk *m, const struct qkv_attention_report *report,
                                  const struct qkv_explain_options *options)
{
    struct qkv_arena *arena = m->walk->arena;
    struct named_words rows, columns; /* of all tokens; names are in the memory of the collector */
    if (!options->words) return follow_words(m, NULL, &options->follow);
    m->merges = true;
    if (!qkv_report_row_words(report, *options->words, m->kind, arena, &rows) ||
        !qkv_report_column_words(report, *options->words, m->kind, arena, &columns))
        return qkv_model_walk_no_memory(m->error);
    if (follow_words(m, &rows, &options->follow)) return QKV_INVALID;
    int64_t *word = qkv_walk_memory(m->walk, m->query_words.count, sizeof *word);
    if (!word) return qkv_model_walk_no_memory(m->error);
    for (int64_t i = 0; i < m->query_words.count; i++)
        word[i] = rows.labels.word[m->followed_rows ? m->followed_rows[i] : i];
    return qkv_group_words(m->query_words.text, word, m->query_words.count, arena, &m->row_words) &&
                   qkv_group_words(m->key_words.text, columns.labels.word, m->key_words.count, arena,
                                   &m->column_words)
               ? QKV_OK
               : qkv_model_walk_no_memory(m->error);
}

/* Merges the weights of each head; NULL when memory runs out. */
static const double *merge_heads(struct model_walk *m, const struct qkv_step *weights)
{
    const struct word_labels *rows = &m->row_words.labels, *columns = &m->column_words.labels;
    int64_t heads = weights->heads ? weights->heads : 1;
    double *merged = qkv_walk_memory(m->walk, heads * rows->words * columns->words, sizeof *merged);
    for (int64_t h = 0; merged && h < heads; h++)
        qkv_merge_weights(weights->values + h * weights->rows * weights->columns, rows, columns,
                          merged + h * rows->words * columns->words);
    return merged;
}

/* Inserts the step word_weights after the step weights. */
static enum qkv_status add_word_weights(struct model_walk *m, struct qkv_explanation *explanation)
{
    struct qkv_step *steps = qkv_walk_memory(m->walk, explanation->step_count + 1, sizeof *steps);
    int64_t count = 0;
    for (int64_t i = 0; steps && i < explanation->step_count; i++) {
        steps[count++] = explanation->steps[i];
        if (explanation->steps[i].content != QKV_STEP_WEIGHTS) continue;
        struct qkv_step *weights = &steps[count - 1], *words = &steps[count++];
        *words = *weights;
        weights->content = QKV_STEP_MATRIX;
        words->name = "word_weights";
        words->title = "weights between words";
        words->formula = "A, summed over the tokens of a key word, mean over those of a query word";
        words->note = NULL;
        words->rows = m->row_words.labels.words;
        words->columns = m->column_words.labels.words;
        words->row_names = m->row_words.names;
        words->column_names = m->column_words.names;
        words->values = merge_heads(m, weights);
        if (!words->values) break;
    }
    if (m->walk->failed) return qkv_model_walk_no_memory(m->error);
    explanation->steps = steps;
    explanation->step_count = count;
    return QKV_OK;
}

/* ---- the walk ---- */

static enum qkv_status walk_layer(struct model_walk *m, struct qkv_attention_collector *collector,
                                  const struct qkv_explain_options *options)
{
    struct qkv_attention_report report;
    enum qkv_status status = qkv_attention_collect(collector, 1, m->pair, 1u << m->kind, &report, m->error);
    if (status) return status;
    if (find_layer(m)) return QKV_INVALID;
    m->trace = qkv_attention_collector_trace(collector);
    name_words(m, &report);
    keep_words(m);
    if (m->walk->failed) return qkv_model_walk_no_memory(m->error);
    if (qkv_model_walk_check(m)) return QKV_INVALID;
    if (find_words(m, &report, options)) return QKV_INVALID;
    return m->layers.multi_head ? qkv_model_walk_transformer(m) : qkv_model_walk_recurrent(m);
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
    enum qkv_status status = collector ? walk_layer(&m, collector, options) : QKV_INVALID;
    if (!status) status = qkv_walk_finish(walk, explanation, error);
    if (!status && m.merges) status = add_word_weights(&m, explanation);
    explanation->heads = explanation->layer_heads = m.heads;
    explanation->layer = m.layer;
    qkv_attention_collector_free(collector);
    qkv_walk_free(walk);
    return status;
}
