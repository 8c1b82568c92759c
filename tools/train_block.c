#include "train_block.h"

#include "score_options.h"
#include "terminal.h"

#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
static void add(struct paragraph *paragraph, const char *text)
{
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
    char text[80], duration[16];
    struct paragraph line = begin(block, width, "update", out);
    bool has_end = p->updates > 0;
    snprintf(text, sizeof text, has_end ? "%lld of %lld" : "%lld", (long long)p->update,
             (long long)p->updates);
    add(&line, text);
    snprintf(text, sizeof text, "epoch %lld", (long long)p->epoch);
    add(&line, text);
    if (isfinite(p->seconds_left)) {
        format_duration(p->seconds_left, duration);
        snprintf(text, sizeof text, "left %s", duration);
        add(&line, text);
    }
    snprintf(text, sizeof text, "%.0f tokens/s", p->tokens_per_second);
    add(&line, text);
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
    char text[32 + TRAIN_BLOCK_PARTS], parts[TRAIN_BLOCK_PARTS];
    struct paragraph line = begin(block, width, "loss", out);
    train_block_parts(block, p, parts);
    snprintf(text, sizeof text, "%.4f%s", p->loss, parts);
    add(&line, text);
    snprintf(text, sizeof text, "learning rate %.3g", p->learning_rate);
    add(&line, text);
    break_line(&line);
    loss_history_draw(&block->losses, width - LABEL < WIDEST ? width - LABEL : WIDEST, block->is_utf8, out);
    qkv_bytes_text(out, "\n");
}

/* Formats a score as "loss 0.0590". */
static const char *score_text(enum qkv_metric metric, double value, char text[64])
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
            add(&line, score_text((enum qkv_metric)m, block->scores.value[m], text));
    snprintf(text, sizeof text, "at update %lld", (long long)block->validated);
    add(&line, text);
    if (block->best_update == block->validated) {
        const char mark[] = "(best)";
        if (line.used + 1 + (int)strlen(mark) > width) break_line(&line);
        if (line.used > LABEL) qkv_bytes_text(out, " ");
        add_colored(&line, green, mark);
    }
    qkv_bytes_text(out, "\n");
    if (!block->best_update || block->best_update == block->validated) return;
    line = begin(block, width, "best", out);
    add(&line, score_text(block->metric, block->best, text));
    snprintf(text, sizeof text, "at update %lld", (long long)block->best_update);
    add(&line, text);
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
