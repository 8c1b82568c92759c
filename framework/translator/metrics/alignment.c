/* Draws links from word maps: to the strongest words in both directions, and then combines the two sets of links; and
 * counts how many of them are gold links (metrics/alignment.h has the definitions). */
#include "core/memory.h"
#include "metrics/links.h"

/* Links between all words; each array has a cell for each pair of words, [targets, sources]. */
struct grid {
    int64_t targets, sources;
    bool *by_target, *by_source;   /* T and S of alignment.h */
    bool *linked;                  /* the links that are drawn */
    bool *has_source, *has_target; /* [sources], [targets]: whether the word has a link */
};

const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing)
{
    static const char *const names[] = {
#define ALIGNMENT_DRAWING(id, name, help) name,
#include "metrics/alignment_drawings.def"
#undef ALIGNMENT_DRAWING
    };
    return (unsigned)drawing < QKV_DRAWINGS ? names[drawing] : NULL;
}

/* ---- agreement of two directions ---- */

static void normalize_rows(struct qkv_word_map *map)
{
    for (int64_t t = 0; t < map->targets; t++) {
        double *row = map->weights + t * map->sources, total = 0;
        for (int64_t s = 0; s < map->sources; s++) total += row[s];
        for (int64_t s = 0; s < map->sources && total > 0; s++) row[s] /= total;
    }
}

static enum qkv_status check_directions(const struct qkv_word_map *map, const struct qkv_word_map *reverse,
                                        struct qkv_error *error)
{
    if (reverse->targets == map->sources && reverse->sources == map->targets) return QKV_OK;
    return qkv_error_set(error,
                         "word maps of shapes [%lld, %lld] and [%lld, %lld] are not of the two "
                         "directions of one sentence pair",
                         (long long)map->targets, (long long)map->sources, (long long)reverse->targets,
                         (long long)reverse->sources);
}

enum qkv_status qkv_word_maps_multiply(struct qkv_word_map *map, struct qkv_word_map *reverse,
                                       struct qkv_error *error)
{
    if (check_directions(map, reverse, error)) return QKV_INVALID;
    for (int64_t t = 0; t < map->targets; t++)
        for (int64_t s = 0; s < map->sources; s++) {
            double *one = &map->weights[t * map->sources + s],
                   *other = &reverse->weights[s * map->targets + t];
            *one = *other = *one * *other;
        }
    normalize_rows(map);
    normalize_rows(reverse);
    return QKV_OK;
}

/* ---- one direction ---- */

/* Draws links from one row or column of weights: `count` weights at a distance of `stride` numbers, into cells at a distance of
 * `cell_stride`. */
static void draw_word(const double *weights, int64_t count, int64_t stride, double threshold, bool *cells,
                      int64_t cell_stride)
{
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        double weight = weights[i * stride];
        if (threshold > 0)
            cells[i * cell_stride] = weight > threshold;
        else if (weight > 0 && (best < 0 || weight > weights[best * stride]))
            best = i;
    }
    if (best >= 0) cells[best * cell_stride] = true;
}

/* The sum of the weights of source word `source` for all target words. */
static double column_total(const struct qkv_word_map *map, int64_t source)
{
    double total = 0;
    for (int64_t t = 0; t < map->targets; t++) total += map->weights[t * map->sources + source];
    return total;
}

static void draw_both(struct grid *grid, const struct qkv_word_map *map, const struct qkv_word_map *reverse,
                      double threshold)
{
    int64_t targets = grid->targets, sources = grid->sources;
    for (int64_t t = 0; t < targets; t++)
        draw_word(map->weights + t * sources, sources, 1, threshold, grid->by_target + t * sources, 1);
    for (int64_t s = 0; s < sources; s++)
        if (reverse)
            draw_word(reverse->weights + s * targets, targets, 1, threshold, grid->by_source + s, sources);
        else
            draw_word(map->weights + s, targets, sources, threshold * column_total(map, s),
                      grid->by_source + s, sources);
}

/* ---- both directions ---- */

static void add_link(struct grid *grid, int64_t target, int64_t source)
{
    grid->linked[target * grid->sources + source] = true;
    grid->has_target[target] = grid->has_source[source] = true;
}

/* Adds the neighbours of a link; false when there is nothing to add. */
static bool grow_link(struct grid *grid, int64_t target, int64_t source)
{
    static const int neighbors[8][2] = {{-1, 0},  {0, -1}, {1, 0},  {0, 1},
                                        {-1, -1}, {-1, 1}, {1, -1}, {1, 1}}; /* target, source */
    bool grown = false;
    for (int i = 0; i < 8; i++) {
        int64_t t = target + neighbors[i][0], s = source + neighbors[i][1], cell = t * grid->sources + s;
        if (t < 0 || t >= grid->targets || s < 0 || s >= grid->sources || grid->linked[cell]) continue;
        if (grid->has_target[t] && grid->has_source[s]) continue;
        if (!grid->by_target[cell] && !grid->by_source[cell]) continue;
        add_link(grid, t, s);
        grown = true;
    }
    return grown;
}

static void grow(struct grid *grid)
{
    for (bool grown = true; grown;) {
        grown = false;
        for (int64_t t = 0; t < grid->targets; t++)
            for (int64_t s = 0; s < grid->sources; s++)
                if (grid->linked[t * grid->sources + s] && grow_link(grid, t, s)) grown = true;
    }
}

/* Adds the links of one direction whose two words both have no link yet. */
static void add_final(struct grid *grid, const bool *direction)
{
    for (int64_t t = 0; t < grid->targets; t++)
        for (int64_t s = 0; s < grid->sources; s++)
            if (direction[t * grid->sources + s] && !grid->has_target[t] && !grid->has_source[s])
                add_link(grid, t, s);
}

static void symmetrize(struct grid *grid, enum qkv_alignment_drawing drawing)
{
    for (int64_t cell = 0; cell < grid->targets * grid->sources; cell++) {
        bool by_target = grid->by_target[cell], by_source = grid->by_source[cell];
        bool kept = drawing == QKV_DRAWING_TARGET   ? by_target
                    : drawing == QKV_DRAWING_SOURCE ? by_source
                    : drawing == QKV_DRAWING_UNION  ? by_target || by_source
                                                    : by_target && by_source;
        if (kept) add_link(grid, cell / grid->sources, cell % grid->sources);
    }
    if (drawing == QKV_DRAWING_GROW_DIAG || drawing == QKV_DRAWING_GROW_DIAG_FINAL_AND) grow(grid);
    if (drawing != QKV_DRAWING_GROW_DIAG_FINAL_AND) return;
    add_final(grid, grid->by_target);
    add_final(grid, grid->by_source);
}

/* ---- links ---- */

static bool list_links(const struct grid *grid, struct qkv_arena *arena, struct qkv_alignment *drawn)
{
    int64_t count = 0, cells = grid->targets * grid->sources;
    for (int64_t cell = 0; cell < cells; cell++) count += grid->linked[cell];
    struct qkv_alignment_link *links = qkv_arena_array(arena, count, sizeof *links);
    if (!links) return false;
    *drawn = (struct qkv_alignment){.links = links, .count = count};
    for (int64_t s = 0; s < grid->sources; s++)
        for (int64_t t = 0; t < grid->targets; t++)
            if (grid->linked[t * grid->sources + s])
                *links++ = (struct qkv_alignment_link){.source = s, .target = t, .sure = true};
    return true;
}

enum qkv_status qkv_alignment_draw(const struct qkv_word_map *map, const struct qkv_word_map *reverse,
                                   enum qkv_alignment_drawing drawing, double threshold,
                                   struct qkv_arena *arena, struct qkv_alignment *drawn,
                                   struct qkv_error *error)
{
    struct grid grid = {.targets = map->targets, .sources = map->sources};
    if (reverse && check_directions(map, reverse, error)) return QKV_INVALID;
    size_t cells = (size_t)(grid.targets * grid.sources);
    bool *cell = qkv_arena_zeroed(arena, 3 * cells + (size_t)(grid.targets + grid.sources));
    if (!cell) return qkv_no_memory(error);
    grid.by_target = cell;
    grid.by_source = cell + cells;
    grid.linked = cell + 2 * cells;
    grid.has_target = cell + 3 * cells;
    grid.has_source = grid.has_target + grid.targets;
    draw_both(&grid, map, reverse, threshold);
    symmetrize(&grid, drawing);
    return list_links(&grid, arena, drawn) ? QKV_OK : qkv_no_memory(error);
}

/* ---- scores ---- */

const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading)
{
    static const char *const names[] = {[QKV_READING_PREDICTED] = "predicted", [QKV_READING_READ] = "read"};
    return (unsigned)reading < QKV_READINGS ? names[reading] : NULL;
}

/* Below 0, 0, above 0: the order of links in struct qkv_alignment. */
static int compare(const struct qkv_alignment_link *a, const struct qkv_alignment_link *b)
{
    if (a->source != b->source) return a->source < b->source ? -1 : 1;
    return (a->target > b->target) - (a->target < b->target);
}

static double ratio(double part, double total)
{
    return total > 0 ? part / total : 0;
}

void qkv_alignment_add(struct qkv_alignment_result *result, const struct qkv_alignment_result *more)
{
    double links = (double)(result->links += more->links), sure = (double)(result->sure += more->sure),
           found_sure = (double)(result->found_sure += more->found_sure),
           found_possible = (double)(result->found_possible += more->found_possible);
    result->precision = ratio(found_possible, links);
    result->recall = ratio(found_sure, sure);
    result->error_rate = 1 - ratio(found_sure + found_possible, links + sure);
}

void qkv_alignment_count(struct qkv_alignment_result *result, const struct qkv_alignment *drawn,
                         const struct qkv_alignment *gold)
{
    struct qkv_alignment_result pair = {.links = drawn->count};
    for (int64_t g = 0, d = 0; g < gold->count; g++) {
        const struct qkv_alignment_link *link = &gold->links[g];
        while (d < drawn->count && compare(&drawn->links[d], link) < 0) d++;
        bool found = d < drawn->count && !compare(&drawn->links[d], link);
        pair.sure += link->sure;
        pair.found_possible += found;
        pair.found_sure += found && link->sure;
    }
    qkv_alignment_add(result, &pair);
}
