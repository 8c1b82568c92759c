/* qkv plot: draws curves of training, as a picture or in the terminal. */
#include "compare/run_set.h"
#include "open_run.h"
#include "text_notes.h"

#include "draw/chart.h"
#include "train/overfitting.h"

#include "run/checkpoints.h"

/* A quantity: recorded in training; the score of the dev set by the metric `quantity - QUANTITY_SCORES`; or measured here in each
 * snapshot. */
enum quantity {
    QUANTITY_LOSS,
    QUANTITY_LEARNING_RATE,
    QUANTITY_GRADIENT_NORM,
    QUANTITY_SCORES,
    QUANTITY_SNAPSHOTS = QUANTITY_SCORES + QKV_METRIC_COUNT,
    QUANTITIES = QUANTITY_SNAPSHOTS + SNAPSHOT_QUANTITIES
};

enum curve_axis { CURVE_UPDATES, CURVE_TOKENS, CURVE_TIME };

/* A line of a chart, whose numbers are in the arena of the set, with the update of each point. y is the mean over seeds, low and
 * high the ends of its standard deviation. */
struct curve {
    struct chart_line line;
    double *update, *x, *y, *low, *high; /* low NULL: one run */
};

/* ---- the records of one run ---- */

/* Finds record `i` of a quantity; NULL behind the last one. */
static const struct qkv_log_place *record_at(const struct recorded_run *run, enum quantity quantity,
                                             int64_t i, double *value)
{
    const struct qkv_training_log *log = &run->log;
    if (quantity >= QUANTITY_SNAPSHOTS) {
        if (i >= run->snapshots) return NULL;
        *value = run->snapshot[i].value[quantity - QUANTITY_SNAPSHOTS];
        return &run->snapshot[i].place;
    }
    if (i >= (quantity < QUANTITY_SCORES ? log->intervals : log->validations)) return NULL;
    if (quantity >= QUANTITY_SCORES) {
        *value = log->validation[i].score[quantity - QUANTITY_SCORES];
        return &log->validation[i].place;
    }
    const struct qkv_log_interval *interval = &log->interval[i];
    *value = quantity == QUANTITY_LEARNING_RATE   ? interval->learning_rate
             : quantity == QUANTITY_GRADIENT_NORM ? interval->gradient_norm
             : isfinite(interval->cross_entropy)  ? interval->cross_entropy
                                                  : interval->loss;
    return &interval->place;
}

/* ---- curves ---- */

/* Adds the point of an update, unless a run of the group has no record of it. The search for that of run i begins at from[i]. */
static void add_point(const struct run_set *set, const struct run_group *group, enum quantity quantity,
                      enum curve_axis axis, double update, int64_t from[RUN_SET_MAX], struct curve *curve)
{
    double x = 0, sum = 0, squares = 0, runs = group->runs;
    double value[RUN_SET_MAX];
    for (int i = 0; i < group->runs; i++) {
        const struct recorded_run *run = &set->run[group->run[i]];
        const struct qkv_log_place *place;
        while ((place = record_at(run, quantity, from[i], &value[i])) && place->update < update) from[i]++;
        if (!place || place->update > update) return;
        x += axis == CURVE_TIME ? place->seconds : axis == CURVE_TOKENS ? place->tokens : place->update;
        sum += value[i];
    }
    if (!isfinite(x) || !isfinite(sum)) return;
    double mean = sum / runs;
    for (int i = 0; i < group->runs; i++) squares += (value[i] - mean) * (value[i] - mean);
    int64_t n = curve->line.count++;
    curve->update[n] = update;
    curve->x[n] = x / runs;
    curve->y[n] = mean;
    if (!curve->low) return;
    double deviation = sqrt(squares / (runs - 1));
    curve->low[n] = fmax(mean - deviation, 0);
    curve->high[n] = mean + deviation;
}

/* Reads a curve of a group. It has the updates for which all runs of the group have a number. Scores are shares or points as
 * recorded. */
static void curve_read(struct run_set *set, int g, enum quantity quantity, enum curve_axis axis,
                       struct curve *curve)
{
    const struct run_group *group = &set->group[g];
    const struct recorded_run *first = &set->run[group->run[0]];
    const struct qkv_log_place *place;
    int64_t most = first->log.intervals + first->log.validations + first->snapshots, from[RUN_SET_MAX] = {0};
    double *memory = required(qkv_arena_allocate(&set->arena, (size_t)(5 * most + 1) * sizeof *memory)),
           unused;
    double *x = memory + most, *y = x + most, *low = group->runs > 1 ? y + most : NULL,
           *high = low ? low + most : NULL;
    *curve = (struct curve){{group->name, 0, x, y, .low = low, .high = high}, memory, x, y, low, high};
    for (int64_t i = 0; (place = record_at(first, quantity, i, &unused)); i++)
        add_point(set, group, quantity, axis, place->update, from, curve);
}

/* Curves show the training loss without label smoothing, if the run has recorded it. True when a group has not, although its
 * objective is not the plain cross-entropy. */
static bool curve_is_smoothed(const struct run_set *set, int g)
{
    const struct recorded_run *run = &set->run[set->group[g].run[0]];
    const struct qkv_training_config *training = &run->config.training;
    bool records = run->log.intervals && isfinite(run->log.interval[run->log.intervals - 1].cross_entropy);
    return !records && (training->label_smoothing > 0 || training->r_drop > 0 || training->simcut > 0 ||
                        training->guided_alignment > 0);
}

/* The point of the best validation, by training.early_stopping_metric; -1: none. */
static int64_t curve_best(struct run_set *set, int g)
{
    enum qkv_metric metric = set->run[set->group[g].run[0]].config.training.early_stopping_metric;
    struct curve curve;
    int64_t best = -1;
    curve_read(set, g, (enum quantity)(QUANTITY_SCORES + (int)metric), CURVE_UPDATES, &curve);
    for (int64_t i = 0; i < curve.line.count; i++)
        if (best < 0 || qkv_metric_is_better(metric, curve.y[i], curve.y[best])) best = i;
    return best;
}

/* The point of the curve of the dev loss after which the model overfits, by the rule of train/overfitting.h; -1: none.
 * `train` is the curve of the loss of training. */
static int64_t curve_overfits(const struct curve *train, const struct curve *dev)
{
    struct qkv_overfitting overfitting = {0};
    int64_t at = 0;
    double mean = (double)NAN;
    for (int64_t i = 0; i < dev->line.count; i++) {
        double sum = 0, count = 0;
        for (; at < train->line.count && train->update[at] <= dev->update[i]; at++, count++)
            sum += train->y[at];
        if (count > 0) mean = sum / count; /* otherwise the mean of the previous interval is still valid */
        if (!isfinite(mean)) continue;
        if (!qkv_overfitting_add(&overfitting, (int64_t)dev->update[i], mean, dev->y[i])) continue;
        for (int64_t best = 0; best < dev->line.count; best++)
            if ((int64_t)dev->update[best] == overfitting.best_update) return best;
    }
    return -1;
}

enum {
    MAX_PANELS = QUANTITIES,
    COLUMNS = 3,     /* of panels in a picture */
    ROWS = 12,       /* of a chart in the terminal */
    WIDEST = 110,    /* columns of a chart in the terminal */
    MAX_MARKED = 40, /* a line with more points has no mark at each point */
};

/* ---- what is shown ---- */

struct panel {
    enum quantity quantity;
    const char *name, *y_label;
    double scale; /* of the recorded numbers */
};

/* Describes panel `index`: first the loss, then the dev scores except loss and perplexity, which is exp(loss), then learning
 * rate, gradient norm, and what is measured in snapshots. The label of a score is NULL. False after the last panel. */
static bool find_panel(int64_t index, struct panel *panel)
{
    static const struct panel LAST[] = {
        {QUANTITY_LEARNING_RATE, "learning_rate", "learning rate × 1000", 1000},
        {QUANTITY_GRADIENT_NORM, "gradient_norm", "gradient norm, before clipping", 1},
        {QUANTITY_SNAPSHOTS, "second_loss", "loss of the second repetition, nats", 1},
        {QUANTITY_SNAPSHOTS + 1, "prefix_matching", "prefix-matching score of the best head", 1},
        {QUANTITY_SNAPSHOTS + 2, "previous_token", "previous-token score of the best head", 1},
    };
    *panel = (struct panel){QUANTITY_LOSS, "loss", "loss, nats per target token", 1};
    if (index-- == 0) return true;
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        if (m == QKV_METRIC_LOSS || m == QKV_METRIC_PERPLEXITY || info->on_request) continue;
        *panel =
            (struct panel){(enum quantity)(QUANTITY_SCORES + m), info->key, NULL, info->percent ? 100 : 1};
        if (index-- == 0) return true;
    }
    if (index >= (int64_t)(sizeof LAST / sizeof *LAST)) return false;
    *panel = LAST[index];
    return true;
}

static const char *panel_name(const void *context, int64_t index)
{
    struct panel panel;
    (void)context;
    return find_panel(index, &panel) ? panel.name : NULL;
}

static const char *const AXES[] = {
    [CURVE_UPDATES] = "updates", [CURVE_TOKENS] = "tokens", [CURVE_TIME] = "time"};
static NAME_LISTER(axis_name, index < 3 ? AXES[index] : NULL);

static const char *axis_option, *output;
static struct option_list shown;

static enum curve_axis chosen_axis(void)
{
    for (int i = 0; axis_option && i < 3; i++)
        if (!strcmp(axis_option, axis_name(NULL, i))) return (enum curve_axis)i;
    return CURVE_UPDATES;
}

/* Whether --show names a panel. Without --show, a picture has all recorded panels, the terminal only the loss and BLEU. */
static bool is_shown(const struct panel *panel)
{
    for (int i = 0; i < shown.count; i++)
        if (!strcmp(shown.value[i], panel->name)) return true;
    return !shown.count && ((output && panel->quantity < QUANTITY_SNAPSHOTS) ||
                            !strcmp(panel->name, "loss") || !strcmp(panel->name, "bleu"));
}

/* ---- charts ---- */

struct plot {
    struct run_set set;
    enum curve_axis axis;
    struct chart chart[MAX_PANELS];
    struct chart_line line[MAX_PANELS][2 * RUN_SET_MAX];
    struct chart_point point[MAX_PANELS][2 * RUN_SET_MAX];
    double largest_x; /* as recorded */
    int charts;
    bool has_star, has_ring, has_band, has_companion, has_smoothed;
};

static void add_symbol(struct chart *chart, struct chart_point *points, const struct curve *curve, int64_t at,
                       int line, enum chart_symbol symbol)
{
    if (at < 0 || at >= curve->line.count) return;
    points[chart->point_count++] = (struct chart_point){curve->x[at], curve->y[at], line, symbol};
}

/* Reads a curve, scaled for the axis. */
static void read_scaled(struct plot *plot, int g, enum quantity quantity, double scale, struct curve *curve)
{
    curve_read(&plot->set, g, quantity, plot->axis, curve);
    for (int64_t i = 0; i < curve->line.count; i++) {
        curve->y[i] *= scale;
        if (curve->low) curve->low[i] *= scale;
        if (curve->high) curve->high[i] *= scale;
        plot->largest_x = fmax(plot->largest_x, curve->x[i]);
    }
    if (curve->low && curve->line.count) plot->has_band = true;
}

/* Adds the curves of a group to a chart. For the loss, adds the training curve, too, as a companion. */
static void add_group(struct plot *plot, int at, const struct panel *panel, int g)
{
    struct chart *chart = &plot->chart[at];
    struct chart_line *lines = plot->line[at];
    struct curve curve, train;
    bool is_loss = panel->quantity == QUANTITY_LOSS;
    enum quantity main = is_loss ? (enum quantity)(QUANTITY_SCORES + QKV_METRIC_LOSS) : panel->quantity;
    read_scaled(plot, g, main, panel->scale, &curve);
    lines[g] = curve.line;
    lines[g].without_marks = main < QUANTITY_SCORES || curve.line.count > MAX_MARKED;
    if (main >= QUANTITY_SCORES && main < QUANTITY_SNAPSHOTS && curve.line.count) {
        add_symbol(chart, plot->point[at], &curve, curve_best(&plot->set, g), g, CHART_STAR);
        plot->has_star = true;
    }
    if (!is_loss) return;
    read_scaled(plot, g, QUANTITY_LOSS, 1, &train);
    int64_t overfits = curve_overfits(&train, &curve);
    add_symbol(chart, plot->point[at], &curve, overfits, g, CHART_RING);
    plot->has_ring = plot->has_ring || overfits >= 0;
    lines[plot->set.groups + g] = train.line;
    lines[plot->set.groups + g].companion_of = g + 1;
    plot->has_companion = plot->has_companion || train.line.count;
    plot->has_smoothed = plot->has_smoothed || curve_is_smoothed(&plot->set, g);
}

/* The label of the x axis with its unit, and the divisor for the recorded numbers. */
static const char *x_label(const struct plot *plot, double *divisor)
{
    *divisor = 1;
    if (plot->axis == CURVE_UPDATES) return "updates";
    if (plot->axis == CURVE_TOKENS) {
        bool many = plot->largest_x > 2e6;
        *divisor = many ? 1e6 : 1e3;
        return many ? "target tokens, millions" : "target tokens, thousands";
    }
    *divisor = plot->largest_x > 7200 ? 3600 : plot->largest_x > 180 ? 60 : 1;
    return plot->largest_x > 7200  ? "time of training, hours"
           : plot->largest_x > 180 ? "time of training, minutes"
                                   : "time of training, seconds";
}

/* Makes the charts that are asked for, except those without numbers. */
static void make_charts(struct plot *plot)
{
    struct panel panel;
    for (int64_t i = 0; find_panel(i, &panel); i++) {
        int at = plot->charts, groups = plot->set.groups;
        struct chart *chart = &plot->chart[at];
        int64_t points = 0;
        if (!is_shown(&panel)) continue;
        *chart = (struct chart){.lines = plot->line[at], .points = plot->point[at], .y_label = panel.y_label};
        chart->line_count = panel.quantity == QUANTITY_LOSS ? 2 * groups : groups;
        if (!chart->y_label) {
            const struct qkv_metric_info *info =
                qkv_metric_info((enum qkv_metric)(panel.quantity - QUANTITY_SCORES));
            chart->y_label =
                TEXT_IN(&plot->set.arena, "%s of data.dev%s", info->title, info->percent ? ", %" : "");
        }
        for (int g = 0; g < groups; g++) add_group(plot, at, &panel, g);
        for (int64_t l = 0; l < chart->line_count; l++) points += chart->lines[l].count;
        if (points) plot->charts++;
    }
}

/* Sets the members that are the same in all charts. */
static void finish_charts(struct plot *plot)
{
    double divisor;
    const char *label = x_label(plot, &divisor);
    for (int c = 0; c < plot->charts; c++) {
        struct chart *chart = &plot->chart[c];
        chart->x_label = label;
        for (int64_t l = 0; l < chart->line_count; l++) /* the curves are in our arena */
            for (int64_t i = 0; i < chart->lines[l].count; i++) ((double *)chart->lines[l].x)[i] /= divisor;
        for (int64_t p = 0; p < chart->point_count; p++) plot->point[c][p].x /= divisor;
        if (plot->has_star) chart->symbol_meaning[CHART_STAR] = "best validation";
        if (plot->has_ring) chart->symbol_meaning[CHART_RING] = "overfitting begins";
        if (plot->has_companion)
            chart->companion_meaning = plot->has_smoothed ? "loss of training, with label smoothing"
                                                          : "loss of training, without label smoothing";
        if (plot->has_band) chart->band_meaning = "mean ± standard deviation over seeds";
    }
}

/* ---- the command ---- */

static bool has_times(const struct qkv_training_log *log)
{
    return (log->intervals && isfinite(log->interval[log->intervals - 1].place.seconds)) ||
           (log->validations && isfinite(log->validation[log->validations - 1].place.seconds));
}

/* Adds the runs. Leaves out runs without metrics, and prints a sentence for each of these. */
static enum qkv_status read_runs(struct run_set *set, int count, char **paths, struct qkv_error *error)
{
    for (int i = 0; i < count; i++) {
        struct recorded_run *run = run_set_add(set, paths[i], error);
        if (!run) return QKV_INVALID;
        bool has_metrics = run->log.intervals || run->log.validations;
        if (has_metrics && (chosen_axis() != CURVE_TIME || has_times(&run->log))) continue;
        if (has_metrics)
            print_error(
                "%s: records no times, as an older qkv has trained it; plot it over updates or tokens",
                paths[i]);
        else
            print_error("%s: has no metrics yet; the first come after training.logging_freq (%lld) updates",
                        paths[i], (long long)run->config.training.logging_freq);
        qkv_training_log_release(&run->log);
        set->runs--;
    }
    return QKV_OK;
}

/* Where the log was when a snapshot was made; 0 tokens and seconds before its first line. */
static struct qkv_log_place place_of_snapshot(const struct qkv_training_log *log, int64_t update)
{
    struct qkv_log_place place = {0};
    for (int64_t i = 0; i < log->intervals && log->interval[i].place.update <= (double)update; i++)
        place = log->interval[i].place;
    place.update = (double)update;
    return place;
}

/* Measures how a language model reads what comes a second time, in each snapshot of its training. */
static enum qkv_status measure_snapshots(struct recorded_run *recorded, struct qkv_run *run,
                                         struct qkv_arena *arena, struct qkv_error *error)
{
    int64_t *updates, count;
    double unused;
    if (open_run(run, recorded->path, NULL, QKV_FLOAT32, NULL, error) ||
        find_snapshots(run, &updates, &count, error))
        return QKV_INVALID;
    recorded->snapshot = required(qkv_arena_zeros(arena, count, sizeof *recorded->snapshot));
    recorded->snapshots = count;
    for (int64_t i = 0; i < count; i++) {
        double *value = recorded->snapshot[i].value;
        struct qkv_induction induction;
        enum qkv_status status = qkv_snapshot_load(run, updates[i], &unused, error);
        if (!status)
            status = qkv_induction_measure(run, (struct qkv_repeats){0}, &run->arena, &induction, error);
        if (status) return status;
        recorded->snapshot[i].place = place_of_snapshot(&recorded->log, updates[i]);
        value[0] = induction.second_loss;
        for (int64_t h = 0; h < induction.count; h++) {
            value[1] = fmax(value[1], induction.heads[h].prefix_matching);
            value[2] = fmax(value[2], induction.heads[h].previous_token);
        }
    }
    return QKV_OK;
}

/* Measures the snapshots of all runs if --show names a panel of these. */
static enum qkv_status measure_all_snapshots(struct run_set *set, struct qkv_error *error)
{
    struct panel panel;
    bool is_wanted = false;
    for (int64_t i = 0; find_panel(i, &panel); i++)
        is_wanted |= panel.quantity >= QUANTITY_SNAPSHOTS && is_shown(&panel);
    for (int i = 0; is_wanted && i < set->runs; i++) {
        struct qkv_run run = {0};
        enum qkv_status status = measure_snapshots(&set->run[i], &run, &set->arena, error);
        qkv_run_release(&run);
        if (status) return status;
    }
    return QKV_OK;
}

static enum qkv_status print_charts(const struct plot *plot, struct qkv_error *error)
{
    struct bytes out = {0};
    int width = terminal_width(stdout);
    const struct chart_text text = {
        .width = width < WIDEST ? width - 1 : WIDEST, .height = ROWS, .ascii = !locale_is_utf8()};
    enum qkv_status status = qkv_charts_text(plot->chart, plot->charts, &text, &out, error);
    if (!status) print_result(stdout, out.data);
    free(out.data);
    return status;
}

static enum qkv_status draw(struct plot *plot, int count, char **paths, struct qkv_error *error)
{
    if (read_runs(&plot->set, count, paths, error)) return QKV_INVALID;
    if (!plot->set.runs) return qkv_error_set(error, "there is nothing to plot");
    if (measure_all_snapshots(&plot->set, error)) return QKV_INVALID;
    plot->axis = chosen_axis();
    run_set_group(&plot->set);
    make_charts(plot);
    if (!plot->charts) return qkv_error_set(error, "%s: has no numbers for these charts", paths[0]);
    finish_charts(plot);
    if (!output) return print_charts(plot, error);
    struct qkv_missing_characters missing = {0};
    enum qkv_status status = qkv_charts_write(plot->chart, plot->charts, COLUMNS, output, &missing, error);
    note_missing_characters(output, &missing, 0);
    return status;
}

static int run_plot(int operands, char **operand)
{
    struct qkv_error error = {""};
    struct plot *plot = required(calloc(1, sizeof *plot));
    enum qkv_status status = draw(plot, operands, operand, &error);
    run_set_release(&plot->set);
    free(plot);
    return conclude(status, &error);
}

const struct command command_plot = {
    .name = "plot",
    .summary = "draw how runs learned: loss, dev scores, learning rate",
    .description =
        "Draws what runs record while they train, several runs together, also while they still train. Runs "
        "that differ in their seed alone (training.random_seed, name and folder) become one line, their "
        "mean, with a band of one standard deviation.\n\n"
        "A star marks the best validation by training.early_stopping_metric. A ring marks where overfitting "
        "begins: the lowest loss of data.dev, if three later validations in a row are well above it while "
        "the loss of training has fallen. Without -o it draws in the terminal, in ASCII where the locale is "
        "not UTF-8.\n\n"
        "second_loss, prefix_matching and previous_token are drawn only where --show names them, for "
        "language models: what `qkv heads` measures on random sequences that come twice, here in each "
        "snapshot of the training (training.snapshots), and of the scores the greatest of all heads.\n",
    .examples = "  qkv plot runs/toy_en_es\n"
                "  qkv plot runs/a runs/b --x time -o curves.svg\n"
                "  qkv plot runs/a runs/b --show loss,gradient_norm\n"
                "  qkv plot runs/induction --show second_loss,prefix_matching,previous_token\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder", .repeated = true}),
    .options = OPTIONS(
        {"output", 'o', "FILE", OPTION_TEXT, &output, "write a picture (.svg .png)", .completes = VALUE_FILE},
        {"x", 'x', "AXIS", OPTION_CHOICE, &axis_option,
         "what the curves run over: {choices} (default: updates)", .choices = axis_name},
        {"show", 0, "NAMES", OPTION_LIST, &shown,
         "charts, with commas between: {choices} (default: all that are recorded in a picture, loss and bleu "
         "in the terminal)",
         .choices = panel_name}),
    .run = run_plot,
};
