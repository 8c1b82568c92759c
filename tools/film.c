/* qkv film: shows how the attention of a head developed in training, as an animated picture. */
#include "open_run.h"
#include "output_options.h"
#include "sentence_pair.h"
#include "text_notes.h"

#include "report/writer.h"
#include "run/checkpoints.h"
#include "run/training_log.h"

#include <strings.h>

/* How long frames are shown: the shortest, a frame whose map has nothing in common with the one before, and the last one. */
enum { LEAST_MILLISECONDS = 250, CHANGED_MILLISECONDS = 2000, LAST_MILLISECONDS = 3000 };

#define SCALE    1.5  /* pixels per unit; a film has many pictures */
#define MAX_LOSS 1e15 /* of a chart; a training that diverged may have more */

static struct sentence_pair_options pair_options;
static const char *output, *layer, *head, *kind, *colormap;
static bool words;

struct film {
    struct sentence_pair pair;
    struct qkv_attention_collector *collector;
    unsigned kinds;
    int layer, head;
    int64_t *updates, snapshots;        /* updates [snapshots]: those of the snapshots */
    double *losses, **weights;          /* [snapshots]: training losses, and weights of the map */
    struct qkv_attention_report report; /* of the last snapshot, with the map of the head */
    struct chart_line curve;            /* of the training loss over updates */
    struct animation_frame *frames;     /* [count]; their bytes are owned */
    int64_t count;
    struct qkv_missing_characters missing; /* from the font of the frames */
};

/* Collects the maps of the sentence with the present parameters, between words with --words. */
static enum qkv_status collect(struct film *film, struct qkv_attention_report *report,
                               struct qkv_error *error)
{
    struct sentence_pair *pair = &film->pair;
    enum qkv_status status =
        qkv_attention_collect(film->collector, 1, &pair->pair, film->kinds, report, error);
    if (status || !words) return status;
    return qkv_attention_merge_words(report, pair->words, &pair->arena, report, error);
}

/* Chooses the head by the trained model, so that all frames show the same head. By default, it is the best head of the last
 * layer of the kind. */
static enum qkv_status choose_head(struct film *film, struct qkv_error *error)
{
    struct qkv_attention_report all, one;
    enum qkv_status status = collect(film, &all, error);
    if (status) return status;
    if (!all.map_count) return qkv_error_set(error, "%s has no such attention", film->pair.run.path);
    if (film->layer == QKV_ATTENTION_EACH) film->layer = all.maps[all.map_count - 1].layer;
    if (qkv_attention_select(&all, film->kinds, film->layer, film->head, &film->pair.arena, &one, error))
        return QKV_INVALID;
    if (film->head == QKV_ATTENTION_BEST) film->head = one.maps[0].head;
    return QKV_OK;
}

/* Keeps the loss and the weights of each snapshot. */
static enum qkv_status load_snapshots(struct film *film, struct qkv_error *error)
{
    struct qkv_arena *arena = &film->pair.arena;
    struct qkv_attention_report all;
    film->losses = required(qkv_arena_array(arena, film->snapshots, sizeof *film->losses));
    film->weights = required(qkv_arena_array(arena, film->snapshots, sizeof *film->weights));
    for (int64_t i = 0; i < film->snapshots; i++) {
        enum qkv_status status =
            qkv_snapshot_load(&film->pair.run, film->updates[i], &film->losses[i], error);
        if (!status) status = collect(film, &all, error);
        if (!status)
            status =
                qkv_attention_select(&all, film->kinds, film->layer, film->head, arena, &film->report, error);
        if (status) return status;
        const struct qkv_attention_map *map = film->report.maps;
        size_t size = (size_t)(map->rows * map->columns) * sizeof *map->weights;
        film->weights[i] = memcpy(required(qkv_arena_allocate(arena, size)), map->weights, size);
    }
    return QKV_OK;
}

/* How long a frame is shown: the longer, the more the map has changed since the last one. The change is the mean total
 * variation distance of the rows, from 0 to 1. */
static int milliseconds_of(const struct film *film, int64_t frame)
{
    const struct qkv_attention_map *map = film->report.maps;
    double change = 0;
    for (int64_t i = 0; frame && i < map->rows * map->columns; i++)
        change += fabs(film->weights[frame][i] - film->weights[frame - 1][i]) / 2 / (double)map->rows;
    return LEAST_MILLISECONDS + (int)(change * (CHANGED_MILLISECONDS - LEAST_MILLISECONDS));
}

/* Makes the curve: the losses of the log, and of snapshots, which are close together before the log begins. */
static enum qkv_status make_curve(struct film *film, struct qkv_error *error)
{
    struct qkv_training_log log = {0};
    enum qkv_status status = qkv_training_log_read(&log, film->pair.run.path, error);
    const int64_t most = film->snapshots + log.intervals;
    double *x = required(qkv_arena_zeros(&film->pair.arena, 2 * most, sizeof *x)), *y = x + most;
    int64_t *count = &film->curve.count;
    for (int64_t i = 0, at = 0; i < film->snapshots || at < log.intervals;) {
        bool is_logged = at < log.intervals &&
                         (i == film->snapshots || log.interval[at].place.update <= (double)film->updates[i]);
        x[*count] = is_logged ? log.interval[at].place.update : (double)film->updates[i];
        y[*count] = is_logged ? log.interval[at].loss : film->losses[i];
        *count += y[*count] < MAX_LOSS;
        *(is_logged ? &at : &i) += 1;
    }
    film->curve.x = x;
    film->curve.y = y;
    qkv_training_log_release(&log);
    return status;
}

/* Draws a frame: the map of a snapshot, and a dot at its update on the curve. The first loss is that of the random weights,
 * before an update. */
static enum qkv_status add_frame(struct film *film, struct qkv_error *error)
{
    struct qkv_arena *arena = &film->pair.arena;
    struct bytes bytes = {0};
    const double update = (double)film->updates[film->count], loss = film->losses[film->count];
    struct qkv_attention_map map = *film->report.maps;
    map.weights = film->weights[film->count];
    struct qkv_attention_report report = film->report;
    report.maps = &map;
    report.title = sentence_pair_title(&film->pair);
    /* This text is drawn below the title, next to the name of the map. */
    report.model = isfinite(loss) ? TEXT_IN(arena, "update %.0f, training loss %.2f", update, loss)
                                  : TEXT_IN(arena, "update %.0f", update);
    const struct chart_line *curve = &film->curve;
    const struct chart_point dot = {update, loss < MAX_LOSS ? loss : *curve->y, 4, CHART_DOT};
    const struct chart chart = {.x_label = "update",
                                .y_label = "training loss",
                                .lines = curve,
                                .line_count = 1,
                                .points = &dot,
                                .point_count = 1};
    const struct format_job job = {.report = &report,
                                   .options = {.colormap = colormap, .maximum = 1},
                                   .arena = arena,
                                   .chart = curve->count ? &chart : NULL};
    enum qkv_status status = qkv_png_draw(qkv_draw_maps, &job, SCALE, &film->missing, &bytes, error);
    int milliseconds = milliseconds_of(film, film->count);
    film->frames[film->count++] = (struct animation_frame){bytes.data, bytes.size, milliseconds};
    return !status && bytes.failed ? qkv_no_memory(error) : status;
}

static enum qkv_status draw_frames(struct film *film, struct qkv_error *error)
{
    film->frames = required(calloc((size_t)film->snapshots, sizeof *film->frames));
    enum qkv_status status = load_snapshots(film, error);
    if (!status) status = make_curve(film, error);
    while (!status && film->count < film->snapshots) status = add_frame(film, error);
    if (!status) film->frames[film->count - 1].milliseconds = LAST_MILLISECONDS;
    return status;
}

static enum qkv_status write_film(struct film *film, struct qkv_error *error)
{
    struct bytes bytes = {0};
    qkv_animation_write(film->frames, film->count, &bytes);
    enum qkv_status status = write_output(output, &bytes, error);
    if (status || pair_options.quiet) return status;
    note_missing_characters(output, &film->missing, 0);
    say(stderr, "%s is written: browsers play it, other programs show its last frame\n", output);
    return QKV_OK;
}

static enum qkv_status make_film(struct film *film, char **operand, struct qkv_error *error)
{
    bool found;
    enum qkv_status status = sentence_pair_open(&film->pair, operand[0], &pair_options, QKV_FLOAT32, error);
    if (!status && !kind && !(film->pair.run.sides.attention & film->kinds))
        film->kinds = film->pair.run.sides.attention;
    if (!status)
        status = find_snapshots(&film->pair.run, &film->updates, &film->snapshots,
                                error); /* before the translation is printed */
    if (!status) status = sentence_pair_next(&film->pair, operand[1], &found, error);
    film->pair.pair.vocabulary = NULL; /* frames have the same labels */
    if (status) return status;
    film->collector = qkv_attention_collector_new(film->pair.run.model, error);
    if (!film->collector) return QKV_INVALID;
    status = choose_head(film, error);
    if (!status) status = draw_frames(film, error);
    return status ? status : write_film(film, error);
}

static int run_film(int operands, char **operand)
{
    struct film film = {.layer = QKV_ATTENTION_EACH, .head = QKV_ATTENTION_BEST, .curve.without_marks = true};
    enum qkv_attention_kind chosen = QKV_ATTENTION_CROSS;
    struct qkv_error error = {""};
    (void)operands;
    if (!strcmp(operand[1], "-")) return print_error("a film shows one sentence: give it in place of -");
    if (kind) qkv_attention_kind_find(kind, &chosen);
    film.kinds = 1u << chosen;
    if (!output) output = "film.png";
    const char *extension = strrchr(output, '.');
    if (!extension || (strcasecmp(extension, ".png") != 0 && strcasecmp(extension, ".apng") != 0))
        return print_error("-o %s: a film is an animated PNG: name it .png", output);
    if (read_layer_or_head("--layer", layer, 0, &film.layer) ||
        read_layer_or_head("--head", head, ACCEPT_MEAN | ACCEPT_BEST, &film.head))
        return QKV_INVALID;
    enum qkv_status status = make_film(&film, operand, &error);
    for (int64_t i = 0; i < film.count; i++) free((char *)(uintptr_t)film.frames[i].png);
    free(film.frames);
    qkv_attention_collector_free(film.collector);
    sentence_pair_close(&film.pair);
    return conclude(status, &error);
}

const struct command command_film = {
    .name = "film",
    .summary = "draw how a head learned what to attend to, as an animated picture",
    .description = "Draws the attention map of one head for each snapshot of the training "
                   "(training.snapshots), from the random weights on, each beside the curve of the training "
                   "loss with a dot at its update: the longer, the more the map has changed. All frames show "
                   "the translation by the trained model, or that of --target. The file is an "
                   "animated PNG, which browsers play; other programs show its last frame.\n",
    .examples = "  qkv film runs/toy_en_es \"the cat is sleeping\" -o film.png\n"
                "  qkv film runs/toy_en_es \"we paint\" --kind encoder --layer 2 --head 1\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder"},
                         {"SENTENCE", VALUE_OTHER, "the text to translate, or to read"}),
    .options =
        OPTIONS({"output", 'o', "FILE", OPTION_TEXT, &output, "the picture (default: film.png)",
                 .completes = VALUE_FILE},
                {"kind", 0, "KIND", OPTION_CHOICE, &kind,
                 "{choices} (default: cross; of a language model: decoder)", .choices = kind_name},
                {"layer", 0, "L", OPTION_TEXT, &layer, "a layer from 1 (default: the last)"},
                {"head", 0, "H", OPTION_TEXT, &head,
                 "a head from 1, mean, or best: the one of this layer that agrees most with the mean of its "
                 "heads (default: best)"},
                {"colormap", 0, "NAME", OPTION_CHOICE, &colormap,
                 "colours of weights: {choices} (default: YlOrRd)", .choices = output_colormap_name},
                {"target", 't', "TEXT", OPTION_TEXT, &pair_options.target,
                 "show the attention for this translation instead of the run's own"},
                {"words", 0, NULL, OPTION_FLAG, &words,
                 "merge the tokens of each word, such as pieces of byte-pair encoding"},
                COMMAND_OPTION_CHECKPOINT(&pair_options.checkpoint),
                {"quiet", 'q', NULL, OPTION_FLAG, &pair_options.quiet,
                 "do not print the translation nor the name of the file, nor warn about unknown words"}),
    .run = run_film,
};
