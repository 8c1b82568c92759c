/* Shows the progress of `qkv train` on standard error, and handles its signals. */
#include "view.h"
#include "program.h"
#include "score_options.h"

#include "core/numbers.h"
#include "core/system.h"
#include "metrics/metric.h"
#include "run/checkpoints.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>

/* ---- the history of the loss ---- */

enum { LOSS_LEVELS = 8 };

static const double LOWEST_LOSS = 1e-6; /* losses below are drawn as this one */

/* The smallest range of logarithms that is spread over all heights, so that a loss that hardly falls looks flat. */
static const double MIN_LOSS_RANGE = 0.25;

/* Adds a loss; one that is not finite is left out. */
static void add_loss(struct train_block *block, double loss)
{
    if (!isfinite(loss)) return;
    if (!QKV_RESERVE(block->losses, block->loss_capacity, block->loss_count + 1)) required(NULL);
    block->losses[block->loss_count++] = loss;
}

/* The logarithm of the mean loss in column `column` of `columns`. */
static double column_value(const struct train_block *block, int64_t column, int64_t columns)
{
    int64_t first = column * block->loss_count / columns, end = (column + 1) * block->loss_count / columns;
    double sum = 0;
    for (int64_t i = first; i < end; i++) sum += block->losses[i];
    return qkv_scalar_log(fmax(sum / (double)(end - first), LOWEST_LOSS));
}

/* Draws the complete history from left to right: appends at most `width` characters of one column each, taller for a higher
 * loss, on a logarithmic scale between the lowest and the highest loss. Without UTF-8, heights are shown by _ . - = + #. */
static void draw_losses(const struct train_block *block, int64_t width, struct bytes *out)
{
    static const char ascii[LOSS_LEVELS + 1] = "_..--=+#";
    int64_t columns = block->loss_count < width ? block->loss_count : width;
    double lowest = INFINITY, highest = -INFINITY;
    for (int64_t i = 0; i < columns; i++) {
        lowest = fmin(lowest, column_value(block, i, columns));
        highest = fmax(highest, column_value(block, i, columns));
    }
    for (int64_t i = 0; i < columns; i++) {
        double share = (column_value(block, i, columns) - lowest) / fmax(highest - lowest, MIN_LOSS_RANGE);
        int level = (int)fmin(share * LOSS_LEVELS, LOSS_LEVELS - 1);
        const char bar[3] = {'\xE2', '\x96', (char)(0x81 + level)}; /* U+2581, an eighth, to U+2588 */
        if (block->is_utf8)
            qkv_bytes_append(out, bar, sizeof bar);
        else
            qkv_bytes_append(out, &ascii[level], 1);
    }
}

/* ---- the block ---- */

/* In columns: the margin with the label, the space between two texts of a line, the widest bar and history of the loss. */
enum { LABEL = 8, APART = 2, WIDEST = 60 };

static void train_block_validation(struct train_block *block, const struct qkv_train_validation *validation)
{
    block->validated = validation->update;
    block->scores = validation->scores;
    if (validation->best) {
        block->best_update = validation->update;
        block->best = validation->scores.value[block->metric];
    }
    qkv_arena_reset(&block->arena);
    block->samples = 0;
    for (int64_t i = 0; i < validation->samples && i < TRAIN_BLOCK_SAMPLES; i++, block->samples++) {
        const char *source = validation->source[i] ? validation->source[i] : "";
        block->sample[i].source = TEXT_IN(&block->arena, "%s", source);
        block->sample[i].reference = TEXT_IN(&block->arena, "%s", validation->reference[i]);
        block->sample[i].translation = TEXT_IN(&block->arena, "%s", validation->translation[i]);
    }
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

static struct paragraph begin_paragraph(const struct train_block *block, int width, const char *label,
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
static void QKV_PRINTF(2, 3) add_words(struct paragraph *paragraph, const char *format, ...)
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
    struct paragraph line = begin_paragraph(block, width, "update", out);
    bool has_end = p->updates > 0;
    add_words(&line, has_end ? "%lld of %lld" : "%lld", (long long)p->update, (long long)p->updates);
    add_words(&line, "epoch %lld", (long long)p->epoch);
    if (isfinite(p->seconds_left)) {
        format_duration(p->seconds_left, duration);
        add_words(&line, "left %s", duration);
    }
    add_words(&line, "%.0f tokens/s", p->tokens_per_second);
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

/* Writes the parts of the loss that are shown beside it: " (cross-entropy 2.3456, alignment 0.5678)"; "" if the loss is the
 * cross-entropy. */
static void train_block_parts(const struct train_block *block, const struct qkv_train_progress *progress,
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
    struct paragraph line = begin_paragraph(block, width, "loss", out);
    train_block_parts(block, p, parts);
    add_words(&line, "%.4f%s", p->loss, parts);
    add_words(&line, "learning rate %.3g", p->learning_rate);
    break_line(&line);
    draw_losses(block, width - LABEL < WIDEST ? width - LABEL : WIDEST, out);
    qkv_bytes_text(out, "\n");
}

/* Formats a score as "loss 0.0590". */
static const char *train_score_text(enum qkv_metric metric, double value, char text[64])
{
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    snprintf(text, 64, "%s %.*f%s", info->label, info->line_digits, metric_shown(metric, value),
             info->percent ? " %" : "");
    return text;
}

/* Whether a score is shown: it is computed in training, and a language model has it. */
static bool has_score(const struct qkv_scores *scores, enum qkv_metric metric)
{
    return !qkv_metric_info(metric)->on_request &&
           (scores->counts.translated || qkv_metric_is_of_references(metric));
}

static void append_scores(const struct train_block *block, int width, struct bytes *out)
{
    const char green[] = "32";
    char text[64];
    struct paragraph line = begin_paragraph(block, width, "dev", out);
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        if (has_score(&block->scores, (enum qkv_metric)m))
            add_words(&line, "%s", train_score_text((enum qkv_metric)m, block->scores.value[m], text));
    if (!block->scores.counts.translated)
        add_words(&line, "bits per character %.3f",
                  qkv_bits_per(&block->scores.counts, block->scores.counts.characters));
    add_words(&line, "at update %lld", (long long)block->validated);
    if (block->best_update == block->validated) {
        const char mark[] = "(best)";
        if (line.used + 1 + (int)strlen(mark) > width) break_line(&line);
        if (line.used > LABEL) qkv_bytes_text(out, " ");
        add_colored(&line, green, mark);
    }
    qkv_bytes_text(out, "\n");
    if (!block->best_update || block->best_update == block->validated) return;
    line = begin_paragraph(block, width, "best", out);
    add_words(&line, "%s", train_score_text(block->metric, block->best, text));
    add_words(&line, "at update %lld", (long long)block->best_update);
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

/* Appends the lines, none wider than `width`. */
static void train_block_lines(const struct train_block *block, int width, struct bytes *out)
{
    if (!block->progress.update) return;
    append_position(block, width, out);
    append_loss(block, width, out);
    if (block->validated) append_scores(block, width, out);
    for (int64_t i = 0; i < block->samples; i++) {
        bool has_source = *block->sample[i].source; /* a language model has none */
        if (has_source) append_text("    ", block->sample[i].source, width, out);
        append_text(has_source ? "      = " : "    ", block->sample[i].translation, width, out);
        if (strcmp(block->sample[i].translation, block->sample[i].reference) != 0)
            append_text("      * ", block->sample[i].reference, width, out);
    }
}

/* ---- signals ---- */

/* Removes a block that is drawn, without changing the lines above it. A signal handler may write it, followed by a
 * message and a line end; the block is then drawn below the message the next time. */
static const char ERASE[] = "\r\033[J";

static volatile sig_atomic_t received;      /* the number of the signal; 0: none */
static bool prints_nothing, replaces_block; /* set before the handlers are installed */

static void on_end(int number)
{
    static const char message[] =
        "qkv: interrupted: saving a checkpoint after this update; interrupt again to stop without saving\n";
    static const char next_line[] = "\n"; /* the terminal has printed ^C */
    int saved = errno;
    if (received == number) end_by_signal(number);
    received = number;
    if (!prints_nothing) {
        ssize_t written = replaces_block ? write(STDERR_FILENO, ERASE, sizeof ERASE - 1)
                                         : write(STDERR_FILENO, next_line, sizeof next_line - 1);
        if (written > 0) written = write(STDERR_FILENO, message, sizeof message - 1);
        (void)written;
    }
    errno = saved;
}

/* Ctrl-Z: erases the block, so that the shell prints its prompt in its place. */
static void on_stop(int number)
{
    int saved = errno;
    ssize_t written = write(STDERR_FILENO, ERASE, sizeof ERASE - 1);
    (void)written;
    (void)number;
    kill(getpid(), SIGSTOP);
    errno = saved;
}

/* A signal that is ignored when the command starts stays ignored: SIGHUP under nohup, so that training outlives the terminal,
 * and SIGINT in a background job of a script. SIGPIPE is ignored, because training should not end when stderr is closed. */
static void handle_signals(const struct train_view *view)
{
    struct sigaction end = {.sa_handler = on_end}, before;
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    prints_nothing = view->quiet || view->is_one_of_several;
    replaces_block = view->is_live;
    sigemptyset(&end.sa_mask);
    sigemptyset(&stop.sa_mask);
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
    for (int i = 0; i < (replaces_block ? 4 : 3); i++)
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], numbers[i] == SIGTSTP ? &stop : &end, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int train_signal_received(void)
{
    return received;
}

static bool stop(void *context)
{
    (void)context;
    return received != 0;
}

static const double REDRAW_SECONDS = 0.2;

/* Turned off while drawing, because a line that is wider than the terminal, which may just have become narrower, must not
 * continue in the next row. */
#define AUTO_WRAP_OFF "\033[?7l"
#define AUTO_WRAP_ON  "\033[?7h"

/* Writes everything in one call, so that output of a signal handler in another thread comes before or after it. */
static void write_bytes(const char *bytes, size_t size)
{
    fflush(stderr);
    while (size) {
        ssize_t written = write(STDERR_FILENO, bytes, size);
        if (written < 0 && errno != EINTR) return;
        if (written > 0) bytes += written, size -= (size_t)written;
    }
}

/* Draws the lines of the block in place of the previous ones, after an empty line for the cursor. If not all lines fit on the
 * terminal, draws only the first ones. */
static void redraw(struct train_view *view)
{
    struct bytes out = {0}, lines = {0};
    int space = terminal_height(stderr) - 2, drawn = 0; /* one row is for the cursor, one stays free */
    train_block_lines(&view->block, terminal_width(stderr) - 1, &lines);
    qkv_bytes_text(&out, AUTO_WRAP_OFF "\r\033[K");
    for (const char *line = lines.data, *end; line && *line && drawn < space; line = end + 1, drawn++) {
        end = strchr(line, '\n');
        qkv_bytes_text(&out, "\n");
        qkv_bytes_append(&out, line, (size_t)(end - line));
        qkv_bytes_text(&out, "\033[K");
    }
    qkv_bytes_text(&out, "\033[J\r");
    if (drawn) qkv_bytes_format(&out, "\033[%dA", drawn);
    qkv_bytes_text(&out, AUTO_WRAP_ON);
    if (lines.size && !lines.failed && !out.failed) {
        write_bytes(out.data, out.size);
        view->is_drawn = true;
        view->rows = drawn;
        view->drawn_at = qkv_clock_seconds();
    }
    free(out.data);
    free(lines.data);
}

/* Removes the block; called before anything else is printed. */
static void erase(struct train_view *view)
{
    if (view->is_drawn) write_bytes(ERASE, sizeof ERASE - 1);
    view->is_drawn = false;
}

/* Whether progress and scores are shown in a block; otherwise they are printed as lines. */
static bool has_block(const struct train_view *view)
{
    return view->is_live && is_in_foreground(stderr);
}

/* Draws the final state, which stays on the terminal above the output that follows. */
static void leave_block(struct train_view *view)
{
    if (!view->quiet && has_block(view)) redraw(view);
    for (int i = 0; view->is_drawn && i <= view->rows; i++) write_bytes("\n", 1);
    view->is_drawn = false;
}

/* ---- events of training ---- */

/* Prints where the first parameters come from, unless they are random. */
static void show_warm_start(const struct qkv_train_start *start)
{
    if (!start->from) return;
    say(stderr, "starting from %s", start->from);
    if (start->has_new_vocabulary)
        fprintf(stderr, ", which knows %lld of %d source words and %lld of %d target words",
                (long long)start->known_source, (int)start->source_types - QKV_SPECIALS,
                (long long)start->known_target, (int)start->target_types - QKV_SPECIALS);
    fputc('\n', stderr);
}

static void show_start(void *context, const struct qkv_train_start *start)
{
    struct train_view *view = context;
    view->started = true;
    view->resumed = start->resumed;
    view->started_at = qkv_clock_seconds();
    if (view->quiet) return;
    int64_t dropped = start->read - start->pairs;
    say(stderr, "%s: %lld parameters", start->folder, (long long)start->parameters);
    if (start->frozen) fprintf(stderr, " (%lld frozen)", (long long)start->frozen);
    fprintf(stderr, ", %lld training %s, %lld dev %s, ", (long long)start->pairs, view->unit,
            (long long)start->dev_pairs, view->unit);
    if (view->sides.has_source) fprintf(stderr, "vocabularies of %d and ", (int)start->source_types);
    fprintf(stderr, view->sides.has_source ? "%d, " : "a vocabulary of %d, ", (int)start->target_types);
    if (start->processes > 1) fprintf(stderr, "%d processes with ", start->processes);
    fprintf(stderr, "%d thread%s\n", start->threads, start->threads == 1 ? "" : "s");
    if (dropped)
        fprintf(stderr, "dropped %lld of %lld training %s%s longer than max_length", (long long)dropped,
                (long long)start->read, view->unit, view->sides.has_source ? ";" : ", which are");
    if (dropped && view->sides.has_source)
        fprintf(stderr, ": %lld source%s, %lld target%s", (long long)start->long_sources,
                start->long_sources == 1 ? "" : "s", (long long)start->long_targets,
                start->long_targets == 1 ? "" : "s");
    if (dropped) fputc('\n', stderr);
    if (start->resumed) fprintf(stderr, "resuming after update %lld\n", (long long)start->resumed);
    show_warm_start(start);
}

/* Prints, once, how long training will take, estimated from its first updates, and how much memory it uses. */
static void show_estimate(struct train_view *view, const struct qkv_train_progress *p)
{
    const double wait = 3; /* seconds of updates to measure, unless a log line comes earlier */
    bool is_time =
        p->logged || (p->update - view->resumed > 2 && qkv_clock_seconds() - view->started_at > wait);
    struct rusage usage;
    if (view->has_estimated || !is_time || !isfinite(p->seconds_left) || getrusage(RUSAGE_SELF, &usage))
        return;
    int64_t updates = p->updates - view->resumed;
    char duration[16];
    format_duration(p->seconds_left / (double)(p->updates - p->update) * (double)updates, duration);
    erase(view);
    fprintf(stderr, "%s%lld update%s will take about %s, without validations; %.0f MB of memory so far\n",
            view->may_stop_early ? "at most " : "", (long long)updates, updates == 1 ? "" : "s", duration,
            (double)usage.ru_maxrss / 1024);
    view->has_estimated = true;
}

static void print_progress(const struct train_view *view, const struct qkv_train_progress *p)
{
    char left[16] = "", parts[TRAIN_BLOCK_PARTS];
    if (isfinite(p->seconds_left)) format_duration(p->seconds_left, left);
    train_block_parts(&view->block, p, parts);
    fprintf(stderr, "update %lld  epoch %lld  loss %.4f%s  %.0f tokens/s%s%s\n", (long long)p->update,
            (long long)p->epoch, p->loss, parts, p->tokens_per_second, left[0] ? "  left " : "", left);
}

static void show_progress(void *context, const struct qkv_train_progress *p)
{
    struct train_view *view = context;
    if (view->quiet) return;
    show_estimate(view, p);
    view->block.progress = *p;
    if (p->logged) add_loss(&view->block, isfinite(p->cross_entropy) ? p->cross_entropy : p->loss);
    if (!has_block(view)) {
        if (p->logged) print_progress(view, p);
    } else if (!received && (!view->is_drawn || qkv_clock_seconds() - view->drawn_at >= REDRAW_SECONDS)) {
        redraw(view);
    }
}

static void print_scores(const struct qkv_scores *scores)
{
    char text[64];
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        if (!has_score(scores, (enum qkv_metric)m)) continue;
        fprintf(stderr, "%s%s", m ? "  " : " ", train_score_text((enum qkv_metric)m, scores->value[m], text));
    }
    if (!scores->counts.translated)
        fprintf(stderr, "  bits per character %.3f",
                qkv_bits_per(&scores->counts, scores->counts.characters));
}

static void print_validation(const struct qkv_train_validation *v)
{
    fprintf(stderr, "update %lld  dev:", (long long)v->update);
    print_scores(&v->scores);
    fputs(v->best ? "  (best)\n" : "\n", stderr);
    for (int64_t i = 0; i < v->samples; i++) {
        bool right = !strcmp(v->reference[i], v->translation[i]);
        if (v->source[i]) say(stderr, "    %s\n", v->source[i]);
        say(stderr, v->source[i] ? "      = %s\n" : "    %s\n", v->translation[i]);
        if (!right) say(stderr, "      * %s\n", v->reference[i]);
    }
}

static void show_validation(void *context, const struct qkv_train_validation *v)
{
    struct train_view *view = context;
    if (view->quiet) return;
    train_block_validation(&view->block, v);
    if (!has_block(view))
        print_validation(v);
    else if (!received)
        redraw(view);
}

static void show_average(void *context, const struct qkv_train_average *average)
{
    struct train_view *view = context;
    if (view->quiet) return;
    erase(view);
    fprintf(stderr, "average of updates");
    for (int64_t i = 0; i < average->checkpoints.count; i++)
        fprintf(stderr, "%s %lld", i ? "," : "", (long long)average->checkpoints.update[i]);
    fprintf(stderr, "  dev:");
    print_scores(&average->scores);
    fputc('\n', stderr);
}

static void show_notice(void *context, const char *sentence)
{
    struct train_view *view = context;
    if (view->quiet) return;
    erase(view);
    say(stderr, "notice: %s\n", sentence);
}

void train_view_begin(struct train_view *view, const struct qkv_config *config)
{
    const struct qkv_training_config *training = &config->training;
    static const char *const units[] = {[QKV_TEXT_PAIRS] = "pairs",
                                        [QKV_TEXT_LINES] = "lines",
                                        [QKV_TEXT_PARAGRAPHS] = "paragraphs",
                                        [QKV_TEXT_RUNNING] = "windows"};
    view->sides = qkv_sides_of(&config->data, &config->model);
    view->unit = units[config->data.text];
    view->may_stop_early = training->patience > 0;
    view->is_live = !view->quiet && has_cursor_control(stderr);
    view->block.metric = training->early_stopping_metric;
    view->block.has_other_objective = training->label_smoothing > 0 || training->r_drop > 0 ||
                                      training->simcut > 0 || training->guided_alignment > 0;
    view->block.is_utf8 = locale_is_utf8();
    view->block.is_colored = terminal_colors(stderr) != QKV_COLORS_NONE;
    handle_signals(view);
}

struct qkv_train_listener train_view_listener(struct train_view *view)
{
    return (struct qkv_train_listener){.context = view,
                                       .stop = stop,
                                       .start = show_start,
                                       .progress = show_progress,
                                       .validation = show_validation,
                                       .average = show_average,
                                       .notice = show_notice};
}

/* ---- the end of training ---- */

/* Prints the command that continues this training. */
static void print_resume(const struct train_view *view, const char *state)
{
    fprintf(stderr, "%s; continue with: ", state);
    print_command(stderr, "qkv train %s", view->config);
    for (int i = 0; i < view->settings->count; i++) print_command(stderr, " -s %s", view->settings->value[i]);
    fputs(" --resume\n", stderr);
}

static const char *describe_end(enum qkv_train_end end)
{
    return end == QKV_TRAIN_PATIENCE  ? "stopped early, without progress in training.patience validations,"
           : end == QKV_TRAIN_STOPPED ? "interrupted"
                                      : "done";
}

/* Prints how much the processes have sent to each other per update. */
static void show_traffic(const struct train_view *view, const struct qkv_train_result *result)
{
    double updates = (double)(result->updates - view->resumed);
    if (!result->sent_by_others || updates < 1) return;
    fprintf(stderr, "sent for each update: %.2f MB by process 0, at most %.2f MB by each other process\n",
            1e-6 * (double)result->sent / updates, 1e-6 * (double)result->sent_by_others / updates);
}

/* A sentence that the model can translate: a short sample of the dev set that echo and options leave as it is; "a sentence"
 * if there is none. */
static const char *example_sentence(const struct train_view *view)
{
    enum { LONGEST = 60 };
    for (int64_t i = 0; i < view->block.samples; i++) {
        const char *source = view->block.sample[i].source;
        if (*source && *source != '-' && !strpbrk(source, "'\\") && qkv_cell_width(source) <= LONGEST)
            return source;
    }
    return "a sentence";
}

/* Prints the commands that use the trained run. */
static void print_next(const struct train_view *view, const struct qkv_config *config)
{
    const char *sentence = example_sentence(view), *run = config->training.model_dir;
    if (!view->sides.has_source) {
        print_command(stderr, "next: qkv complete %s \"A\" --sample\n", run);
        return;
    }
    print_command(stderr, "next: echo %s | qkv translate %s\n", sentence, run);
    if (view->sides.attention) print_command(stderr, "      qkv attention %s %s\n", run, sentence);
}

/* Prints how training has ended, and its scores. */
static void print_end(const struct qkv_config *config, const struct qkv_train_result *result)
{
    const enum qkv_metric metric = config->training.early_stopping_metric;
    fprintf(stderr, "%s after %lld updates (%lld target tokens)", describe_end(result->end),
            (long long)result->updates, (long long)result->tokens);
    if (result->validated)
        fprintf(stderr, "; best %s %.4f at update %lld", qkv_metric_name(metric), result->best,
                (long long)result->best_update);
    if (result->averaged)
        fprintf(stderr, "; average of %lld: %s %.4f", (long long)result->averaged, qkv_metric_name(metric),
                result->average);
    fputc('\n', stderr);
    if (result->averaged && qkv_metric_is_better(metric, result->best, result->average))
        fputs("the average is worse than the best checkpoint, which --checkpoint best names\n", stderr);
}

void train_view_end(struct train_view *view, const struct qkv_config *config,
                    const struct qkv_train_result *result)
{
    leave_block(view);
    if (view->quiet) return;
    bool stopped = result->end == QKV_TRAIN_STOPPED;
    if (view->resume && !stopped && result->updates == view->resumed) {
        fprintf(
            stderr, "already finished after %lld updates; raise %s to go on\n", (long long)result->updates,
            result->end == QKV_TRAIN_PATIENCE ? "training.patience" : "training.updates or training.epochs");
    } else {
        print_end(config, result);
        show_traffic(view, result);
    }
    if (!stopped)
        print_next(view, config);
    else
        print_resume(view, "saved");
}

/* Prints the error and, when a failed write ended the training, how to continue. */
void train_view_failure(struct train_view *view, const struct qkv_config *config, enum qkv_status status,
                        const char *message)
{
    leave_block(view);
    print_error("%s", message);
    if (status == QKV_INVALID && view->started &&
        qkv_path_exists(QKV_RUN_FILE(config->training.model_dir, QKV_RUN_LAST)))
        print_resume(view, "the last checkpoint is complete");
}

void train_view_release(struct train_view *view)
{
    qkv_arena_release(&view->block.arena);
    free(view->block.losses);
}
