/* Measures what heads attend to: sums over the rows of their maps. */
#include "report/head_sums.h"
#include "report/map_rows.h"
#include "report/word_map.h"

#include <math.h>
#include <string.h>

/* ---- maps between words, with <s> and </s> ---- */

/* The words of the rows and columns of one map. */
struct labeled_map {
    const struct qkv_attention_map *map;
    const char *const *row_names, *const *column_names;
    int64_t special_column; /* the column of </s>; in decoder attention, of <s> */
    int64_t special_row;
};

static struct labeled_map labeled(const struct qkv_attention_report *report,
                                  const struct qkv_attention_map *map)
{
    bool decoder = map->kind == QKV_ATTENTION_DECODER;
    return (struct labeled_map){map, qkv_attention_row_tokens(report, map->kind),
                                qkv_attention_column_tokens(report, map->kind),
                                decoder ? 0 : map->columns - 1, decoder ? 0 : map->rows - 1};
}

/* The share of a row on a column that is a word; 0 if there is no such column. */
static double share_of(const struct labeled_map *labels, const double *row, double total, int64_t column)
{
    if (column < 0 || column >= labels->map->columns || column == labels->special_column) return 0;
    return row[column] / total;
}

/* Adds the share of the row on words with the same text (in self-attention, only at other positions), if it can see one. Weight
 * 0 does not show whether a key is hidden, because an unlikely key may also have it; so decoder attention ignores later
 * keys. */
static void add_copied(const struct labeled_map *labels, const double *row, double total, int64_t r,
                       struct head_sums *sums)
{
    bool self = labels->map->kind != QKV_ATTENTION_CROSS, found = false;
    int64_t end = labels->map->kind == QKV_ATTENTION_DECODER ? r : labels->map->columns;
    double share = 0;
    for (int64_t c = 0; c < end; c++) {
        if (c == labels->special_column || (self && c == r) ||
            strcmp(labels->row_names[r], labels->column_names[c]) != 0)
            continue;
        share += row[c] / total;
        found = true;
    }
    if (!found) return;
    sums->copied += share;
    sums->copied_rows++;
}

static void add_row(const struct labeled_map *labels, int64_t r, struct head_sums *sums)
{
    int64_t columns = labels->map->columns;
    const double *row = labels->map->weights + r * columns;
    double total = qkv_row_total(row, columns), greatest = 0;
    if (!(total > 0)) return;
    for (int64_t c = 0; c < columns; c++)
        if (row[c] > greatest) greatest = row[c];
    sums->rows++;
    sums->entropy += qkv_row_entropy(row, columns, total);
    sums->sharpness += greatest / total;
    sums->previous += share_of(labels, row, total, r - 1);
    sums->same += share_of(labels, row, total, r);
    sums->next += share_of(labels, row, total, r + 1);
    sums->special += row[labels->special_column] / total;
    add_copied(labels, row, total, r, sums);
}

static void add_rows(const struct labeled_map *labels, const struct labeled_map *norms,
                     struct head_sums *sums)
{
    for (int64_t r = 0; r < labels->map->rows; r++) {
        if (r == labels->special_row) continue;
        add_row(labels, r, sums);
        sums->norm += qkv_row_total(norms->map->weights + r * norms->map->columns, norms->map->columns);
        sums->norm_rows++;
    }
}

/* ---- gold links ---- */

/* The total variation distance between a row of weights, which sums to at most 1, and the uniform distribution over the gold
 * links of its word. The rest of the row up to 1 is on </s>, which has no links. -1: the word has no link. */
static double variation_of(const double *row, int64_t sources, int64_t target,
                           const struct qkv_alignment *gold, double *ideal)
{
    double links = 0, sum = 0;
    memset(ideal, 0, (size_t)sources * sizeof *ideal);
    for (int64_t i = 0; i < gold->count; i++)
        if (gold->links[i].target == target) ideal[gold->links[i].source] = 1, links++;
    if (!(links > 0)) return -1;
    for (int64_t c = 0; c < sources; c++) sum += fabs(row[c] - ideal[c] / links);
    return (sum + fabs(1 - qkv_row_total(row, sources))) / 2;
}

/* Counts the links that are drawn from the map in one reading, and adds the variation of its rows. */
static enum qkv_status add_reading(const struct qkv_word_map *map, const struct qkv_alignment *gold,
                                   enum qkv_alignment_reading reading, struct qkv_arena *arena,
                                   struct head_sums *sums, struct qkv_error *error)
{
    struct qkv_alignment drawn;
    double *ideal = qkv_arena_allocate(arena, (size_t)map->sources * sizeof *ideal);
    if (!ideal) return qkv_error_set(error, "out of memory for the measures of heads");
    if (qkv_alignment_draw(map, NULL, QKV_DRAWING_TARGET, 0, arena, &drawn, error)) return QKV_INVALID;
    qkv_alignment_count(&sums->counted[reading], &drawn, gold);
    for (int64_t target = 0; target < map->targets; target++) {
        double variation =
            variation_of(map->weights + target * map->sources, map->sources, target, gold, ideal);
        if (variation < 0) continue;
        sums->variation[reading] += variation;
        sums->variation_rows[reading]++;
    }
    return QKV_OK;
}

static enum qkv_status add_links(const struct head_maps *maps, const struct alignment_labels *labels,
                                 struct qkv_attention_map map, struct qkv_arena *arena,
                                 struct head_sums *sums, struct qkv_error *error)
{
    bool complete = !maps->measures_norms || qkv_map_normalize(&map, arena);
    for (int reading = 0; complete && reading < QKV_READINGS; reading++) {
        struct qkv_word_map words;
        complete = qkv_word_map_make(&map, labels, (enum qkv_alignment_reading)reading, arena, &words);
        if (complete &&
            add_reading(&words, maps->gold, (enum qkv_alignment_reading)reading, arena, sums, error))
            return QKV_INVALID;
    }
    return complete ? QKV_OK : qkv_error_set(error, "out of memory for the measures of heads");
}

/* ---- all maps of a pair ---- */

enum qkv_status qkv_head_sums_add(const struct head_maps *maps, struct qkv_arena *arena,
                                  struct head_sums *sums, struct qkv_error *error)
{
    struct qkv_attention_report weights, norms;
    struct alignment_labels labels;
    const struct qkv_attention_report *chosen = maps->measures_norms ? &maps->norms : &maps->pair->report;
    if (qkv_attention_merge_words(&maps->pair->report, maps->pair->words, arena, &weights, error) ||
        qkv_attention_merge_words(&maps->norms, maps->pair->words, arena, &norms, error))
        return QKV_INVALID;
    if (maps->gold && (qkv_alignment_labels(chosen, maps->pair->words, arena, &labels, error) ||
                       qkv_alignment_check(maps->gold, labels.words, error)))
        return QKV_INVALID;
    for (int64_t i = 0; i < chosen->map_count; i++) {
        const struct labeled_map by_weight = labeled(&weights, &weights.maps[i]),
                                 by_norm = labeled(&norms, &norms.maps[i]);
        add_rows(maps->measures_norms ? &by_norm : &by_weight, &by_norm, &sums[i]);
        if (maps->gold && chosen->maps[i].kind == QKV_ATTENTION_CROSS &&
            add_links(maps, &labels, chosen->maps[i], arena, &sums[i], error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

void qkv_head_sums_merge(struct head_sums *sums, const struct head_sums *more)
{
    sums->entropy += more->entropy;
    sums->sharpness += more->sharpness;
    sums->previous += more->previous;
    sums->same += more->same;
    sums->next += more->next;
    sums->special += more->special;
    sums->rows += more->rows;
    sums->norm += more->norm;
    sums->norm_rows += more->norm_rows;
    sums->copied += more->copied;
    sums->copied_rows += more->copied_rows;
    sums->gradient += more->gradient;
    for (int r = 0; r < QKV_READINGS; r++) {
        struct qkv_alignment_result *counted = &sums->counted[r];
        counted->links += more->counted[r].links;
        counted->sure += more->counted[r].sure;
        counted->found_sure += more->counted[r].found_sure;
        counted->found_possible += more->counted[r].found_possible;
        sums->variation[r] += more->variation[r];
        sums->variation_rows[r] += more->variation_rows[r];
    }
}

/* NaN if there are no rows. */
static double mean(double sum, int64_t rows)
{
    return rows ? sum / (double)rows : (double)NAN;
}

void qkv_head_sums_finish(const struct head_sums *sums, int64_t tokens, double value[QKV_HEAD_MEASURES])
{
    static const enum qkv_head_measure ERROR[] = {QKV_HEAD_ERROR_PREDICTED, QKV_HEAD_ERROR_READ},
                                       VARIATION[] = {QKV_HEAD_VARIATION_PREDICTED, QKV_HEAD_VARIATION_READ};
    value[QKV_HEAD_ENTROPY] = mean(sums->entropy, sums->rows);
    value[QKV_HEAD_SHARPNESS] = mean(sums->sharpness, sums->rows);
    value[QKV_HEAD_PREVIOUS] = mean(sums->previous, sums->rows);
    value[QKV_HEAD_SAME] = mean(sums->same, sums->rows);
    value[QKV_HEAD_NEXT] = mean(sums->next, sums->rows);
    value[QKV_HEAD_SPECIAL] = mean(sums->special, sums->rows);
    value[QKV_HEAD_COPIED] = mean(sums->copied, sums->copied_rows);
    value[QKV_HEAD_NORM] = mean(sums->norm, sums->norm_rows);
    value[QKV_HEAD_IMPORTANCE] = mean(sums->gradient, tokens);
    for (int r = 0; r < QKV_READINGS; r++) {
        struct qkv_alignment_result counted = sums->counted[r];
        qkv_alignment_rate(&counted);
        value[ERROR[r]] = counted.sure ? counted.error_rate : (double)NAN;
        value[VARIATION[r]] = mean(sums->variation[r], sums->variation_rows[r]);
    }
}
