#include "loss_history.h"

#include "qkv/scalar_math.h"

#include <math.h>

enum { LEVELS = 8 };

static const double LOWEST = 1e-6; /* losses below are drawn as this one */

/* The smallest range of logarithms that is spread over all heights, so that a loss that hardly falls looks flat. */
static const double MIN_RANGE = 0.25;

void loss_history_add(struct loss_history *history, double loss)
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
    return qkv_scalar_log(fmax(sum / losses, LOWEST));
}

void loss_history_draw(const struct loss_history *history, int width, bool is_utf8, struct bytes *out)
{
    static const char ascii[LEVELS + 1] = "_..--=+#";
    int columns = history->count < width ? history->count : width;
    double lowest = INFINITY, highest = -INFINITY;
    for (int i = 0; i < columns; i++) {
        lowest = fmin(lowest, column_value(history, i, columns));
        highest = fmax(highest, column_value(history, i, columns));
    }
    for (int i = 0; i < columns; i++) {
        double share = (column_value(history, i, columns) - lowest) / fmax(highest - lowest, MIN_RANGE);
        int level = (int)fmin(share * LEVELS, LEVELS - 1);
        const char block[3] = {'\xE2', '\x96', (char)(0x81 + level)}; /* U+2581, an eighth, to U+2588 */
        if (is_utf8)
            qkv_bytes_append(out, block, sizeof block);
        else
            qkv_bytes_append(out, &ascii[level], 1);
    }
}
