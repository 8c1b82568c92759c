/* The block that `qkv train` draws on a terminal. */
#include "command.h"
#include "view.h"

#include "score_options.h"

#include "core/numbers.h"

#include <stdarg.h>

/* ---- the history of the loss ---- */

enum { LOSS_LEVELS = 8 };

static const double LOWEST_LOSS = 1e-6; /* losses below are drawn as this one */

/* The smallest range of logarithms that is spread over all heights, so that a loss that hardly falls looks flat. */
static const double MIN_LOSS_RANGE = 0.25;

/* Adds a loss; one that is not finite is left out. */
static void loss_history_add(struct loss_history *history, double loss)
{
    if (!isfinite(loss)) return;
    if (!history->per_point) history->per_point = 1;
    bool is_full = !history->count || history->in_last == history->per_point;
    if (is_full && history->count == LOSS_HISTORY_POINTS) {
        for (int i = 0; i < LOSS_HISTORY_POINTS / 2; i++)
            history->sum[i] = history->sum[2 * i] + history->sum[2 * i + 1];
        history->count /= 2;
        history->per_point *= 2;
    }
    if (is_full) {
        history->sum[history->count++] = 0;
        history->in_last = 0;
    }
    history->sum[history->count - 1] += loss;
    history->in_last++;
}

/* The logarithm of the mean loss in column `column` of `columns`. */
static double column_value(const struct loss_history *history, int column, int columns)
{
    int first = column * history->count / columns, end = (column + 1) * history->count / columns;
    double sum = 0, losses = 0;
    for (int i = first; i < end; i++) {
        sum += history->sum[i];
        losses += (double)(i + 1 < history->count ? history->per_point : history->in_last);
    }
    return qkv_scalar_log(fmax(sum / losses, LOWEST_LOSS));
}

/* Draws the complete history from left to right: appends at most `width` characters of one column each, taller for a higher
 * loss, on a logarithmic scale between the lowest and the highest loss. Without UTF-8, heights are shown by _ . - = + #. */
static void loss_history_draw(const struct loss_history *history, int width, bool is_utf8, struct bytes *out)
{
    static const char ascii[LOSS_LEVELS + 1] = "_..--=+#";
    int columns = history->count < width ? history->count : width;
    double lowest = INFINITY, highest = -INFINITY;
    for (int i = 0; i < columns; i++) {
        lowest = fmin(lowest, column_value(history, i, columns));
        highest = fmax(highest, column_value(history, i, columns));
    }
    for (int i = 0; i < columns; i++) {
        double share = (column_value(history, i, columns) - lowest) / fmax(highest - lowest, MIN_LOSS_RANGE);
        int level = (int)fmin(share * LOSS_LEVELS, LOSS_LEVELS - 1);
        const char block[3] = {'\xE2', '\x96', (char)(0x81 + level)}; /* U+2581, an eighth, to U+2588 */
        if (is_utf8)
            qkv_bytes_append(out, block, sizeof block);
        else
            qkv_bytes_append(out, &ascii[level], 1);
    }
}

/* ---- the block ---- */

/* In columns: the margin with the label, the space between two texts of a line, the widest bar and history of the loss. */
enum { LABEL = 8, APART = 2, WIDEST = 60 };

void train_block_progress(struct train_block *block, const struct qkv_train_progress *progress)
{
    block->progress = *progress;
    if (progress->logged)
        loss_history_add(&block->losses,
                         isfinite(progress->cross_entropy) ? progress->cross_entropy : progress->loss);
}

void train_block_validation(struct train_block *block, const struct qkv_train_validation *validation)
{
    block->validated = validation->update;
    block->scores = validation->scores;
    if (validation->best) {
        block->best_update = validation->update;
        block->best = validation->scores.value[block->metric];
    }
    qkv_arena_reset(&block->arena);
    block->samples = 0;
    for (int64_t i = 0; i < validation->samples && i < TRAIN_BLOCK_SAMPLES; i++) {
        const char *source = qkv_arena_string(&block->arena, validation->source[i]);
        const char *reference = qkv_arena_string(&block->arena, validation->reference[i]);
        const char *translation = qkv_arena_string(&block->arena, validation->translation[i]);
        if (!source || !reference || !translation) return;
        block->sample[i].source = source;
        block->sample[i].reference = reference;
        block->sample[i].translation = translation;
        block->samples = i + 1;
    }
}

void train_block_release(struct train_block *block)
{
    qkv_arena_release(&block->arena);
}

/* Lines with a label in the margin of the first one. */
struct paragraph {
    struct bytes *out;
    bool is_colored;
    int width; /* of the terminal */
    int used;  /* columns of the current line */
};

static void add_colored(const struct paragraph *paragraph, const char *color, const char *text)
{
    if (paragraph->is_colored)
        qkv_bytes_format(paragraph->out, "\033[%sm%s\033[0m", color, text);
    else
        qkv_bytes_text(paragraph->out, text);
}

static struct paragraph begin(const struct train_block *block, int width, const char *label,
                              struct bytes *out)
{
    const char dim[] = "2";
    struct paragraph paragraph = {out, block->is_colored, width, LABEL};
    add_colored(&paragraph, dim, label);
    qkv_cell_spaces(out, LABEL - (int)strlen(label));
    return paragraph;
}

/* Continues in the next line of the paragraph. */
static void break_line(struct paragraph *paragraph)
{
    qkv_bytes_text(paragraph->out, "\n");
    qkv_cell_spaces(paragraph->out, LABEL);
    paragraph->used = LABEL;
}

/* Adds ASCII text; in the next line if it does not fit into this one. */
static void QKV_PRINTF(2, 3) add(struct paragraph *paragraph, const char *format, ...)
{
    char text[32 + TRAIN_BLOCK_PARTS];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int length = (int)strlen(text), apart = paragraph->used > LABEL ? APART : 0;
    if (apart && paragraph->used + apart + length > paragraph->width) {
        break_line(paragraph);
        apart = 0;
    }
    qkv_cell_spaces(paragraph->out, apart);
    int space = paragraph->width - paragraph->used - apart;
    qkv_bytes_append(paragraph->out, text, (size_t)(length < space ? length : space > 0 ? space : 0));
    paragraph->used += apart + length;
}

static void append_position(const struct train_block *block, int width, struct bytes *out)
{
    const struct qkv_train_progress *p = &block->progress;
    char duration[16];
    struct paragraph line = begin(block, width, "update", out);
    bool has_end = p->updates > 0;
    add(&line, has_end ? "%lld of %lld" : "%lld", (long long)p->update, (long long)p->updates);
    add(&line, "epoch %lld", (long long)p->epoch);
    if (isfinite(p->seconds_left)) {
        format_duration(p->seconds_left, duration);
        add(&line, "left %s", duration);
    }
    add(&line, "%.0f tokens/s", p->tokens_per_second);
    if (has_end) {
        double share = fmin((double)p->update / (double)p->updates, 1);
        int columns = width - LABEL < WIDEST ? width - LABEL : WIDEST;
        int cells = columns - (int)strlen("[] 100 %");
        break_line(&line);
        qkv_bytes_text(out, "[");
        for (int i = 0; i < cells; i++) qkv_bytes_text(out, i < (int)(share * cells) ? "#" : "-");
        qkv_bytes_format(out, "] %.0f %%", floor(100 * share));
    }
    qkv_bytes_text(out, "\n");
}

void train_block_parts(const struct train_block *block, const struct qkv_train_progress *progress,
                       char text[TRAIN_BLOCK_PARTS])
{
    *text = '\0';
    if (!block->has_other_objective || !isfinite(progress->cross_entropy)) return;
    if (isfinite(progress->alignment))
        snprintf(text, TRAIN_BLOCK_PARTS, " (cross-entropy %.4f, alignment %.4f)", progress->cross_entropy,
                 progress->alignment);
    else
        snprintf(text, TRAIN_BLOCK_PARTS, " (cross-entropy %.4f)", progress->cross_entropy);
}

static void append_loss(const struct train_block *block, int width, struct bytes *out)
{
    const struct qkv_train_progress *p = &block->progress;
    char parts[TRAIN_BLOCK_PARTS];
    struct paragraph line = begin(block, width, "loss", out);
    train_block_parts(block, p, parts);
    add(&line, "%.4f%s", p->loss, parts);
    add(&line, "learning rate %.3g", p->learning_rate);
    break_line(&line);
    loss_history_draw(&block->losses, width - LABEL < WIDEST ? width - LABEL : WIDEST, block->is_utf8, out);
    qkv_bytes_text(out, "\n");
}

const char *train_score_text(enum qkv_metric metric, double value, char text[64])
{
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    snprintf(text, 64, "%s %.*f%s", info->label, info->line_digits, metric_shown(metric, value),
             info->percent ? " %" : "");
    return text;
}

static void append_scores(const struct train_block *block, int width, struct bytes *out)
{
    const char green[] = "32";
    char text[64];
    struct paragraph line = begin(block, width, "dev", out);
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        if (!qkv_metric_info((enum qkv_metric)m)->on_request)
            add(&line, "%s", train_score_text((enum qkv_metric)m, block->scores.value[m], text));
    add(&line, "at update %lld", (long long)block->validated);
    if (block->best_update == block->validated) {
        const char mark[] = "(best)";
        if (line.used + 1 + (int)strlen(mark) > width) break_line(&line);
        if (line.used > LABEL) qkv_bytes_text(out, " ");
        add_colored(&line, green, mark);
    }
    qkv_bytes_text(out, "\n");
    if (!block->best_update || block->best_update == block->validated) return;
    line = begin(block, width, "best", out);
    add(&line, "%s", train_score_text(block->metric, block->best, text));
    add(&line, "at update %lld", (long long)block->best_update);
    qkv_bytes_text(out, "\n");
}

/* Appends a line of text of any origin, cut at the width of the terminal. */
static void append_text(const char *margin, const char *text, int width, struct bytes *out)
{
    int space = width - (int)strlen(margin), needed = qkv_cell_width(text);
    qkv_bytes_text(out, margin);
    qkv_cell_padded(out, text, needed < space ? needed : space, CELL_LEFT);
    qkv_bytes_text(out, "\n");
}

void train_block_lines(const struct train_block *block, int width, struct bytes *out)
{
    if (!block->progress.update) return;
    append_position(block, width, out);
    append_loss(block, width, out);
    if (block->validated) append_scores(block, width, out);
    for (int64_t i = 0; i < block->samples; i++) {
        append_text("    ", block->sample[i].source, width, out);
        append_text("      = ", block->sample[i].translation, width, out);
        if (strcmp(block->sample[i].translation, block->sample[i].reference) != 0)
            append_text("      * ", block->sample[i].reference, width, out);
    }
}
