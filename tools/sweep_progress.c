#include "sweep_progress.h"

#include "framework/engine/core/clock.h"

#include "qkv/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The update of the last record in the log of a run; 0: none yet. While the run trains, the last record may be incomplete. */
static double last_update(const char *path)
{
    enum { TAIL = 4096 /* bytes, longer than a record */ };
    static const char key[] = "\"update\":";
    char text[TAIL + 1];
    double update = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    if (fseek(file, -TAIL, SEEK_END)) rewind(file); /* the file is shorter */
    text[fread(text, 1, TAIL, file)] = '\0';
    fclose(file);
    for (const char *at = text; (at = strstr(at, key)); at++)
        if (at[sizeof key - 1 + strspn(at + sizeof key - 1, "0123456789")] == ',')
            update = strtod(at + sizeof key - 1, NULL);
    return update;
}

/* The share of a run that is done, 0 .. 1. If the length of the run is given in epochs, the share is 0 until it ends. */
static double share_of(const struct sweep_run *run)
{
    double updates = (double)run->config.training.updates;
    if (run->state == SWEEP_DONE || run->state == SWEEP_FAILED) return 1;
    if (updates <= 0) return 0;
    struct qkv_arena arena = {0};
    const char *path = qkv_run_file(&arena, run->folder, QKV_RUN_METRICS);
    double share = path ? fmin(last_update(path) / updates, 1) : 0;
    qkv_arena_release(&arena);
    return share;
}

void sweep_progress_show(struct sweep_progress *progress, const struct sweep *sweep)
{
    if (!progress->bar.live || !is_in_foreground(progress->bar.file)) return;
    int done = 0, trains = 0;
    double share = 0, now = qkv_clock_seconds();
    for (int i = 0; i < sweep->runs; i++) {
        share += share_of(&sweep->run[i]) / sweep->runs;
        done += sweep->run[i].state == SWEEP_DONE;
        trains += sweep->run[i].state == SWEEP_TRAINS;
    }
    if (progress->started <= 0) {
        progress->started = now;
        progress->share_first = share;
    }
    char text[96], left[16] = "";
    double gained = share - progress->share_first;
    if (gained > 0) format_duration((now - progress->started) / gained * (1 - share), left);
    snprintf(text, sizeof text, "%d of %d runs done, %d in training%s%s", done, sweep->runs, trains,
             *left ? ", left " : "", left);
    progress_bar_show(&progress->bar, share, text);
}
