#include "status_block.h"

#include "framework/engine/core/clock.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double REDRAW_SECONDS = 0.2;

/* Turned off while drawing, because a line that is wider than the terminal, which may just have become narrower, must not
 * continue in the next row. */
#define AUTO_WRAP_OFF "\033[?7l"
#define AUTO_WRAP_ON  "\033[?7h"

struct status_block status_block_on(FILE *file)
{
    return (struct status_block){.file = file, .live = has_cursor_control(file)};
}

bool status_block_is_due(const struct status_block *block)
{
    if (!block->live || !is_in_foreground(block->file)) return false;
    return !block->drawn || qkv_clock_seconds() - block->drawn_at >= REDRAW_SECONDS;
}

/* Writes everything in one call, so that output of a signal handler in another thread comes before or after it. */
static void write_bytes(FILE *file, const char *bytes, size_t size)
{
    fflush(file);
    while (size) {
        ssize_t written = write(fileno(file), bytes, size);
        if (written < 0 && errno != EINTR) return;
        if (written > 0) bytes += written, size -= (size_t)written;
    }
}

void status_block_draw(struct status_block *block, const struct bytes *lines)
{
    struct bytes out = {0};
    int space = terminal_height(block->file) - 2, drawn = 0; /* one row is for the cursor, one stays free */
    qkv_bytes_text(&out, AUTO_WRAP_OFF "\r\033[K");
    for (const char *line = lines->data, *end; line && *line && drawn < space; line = end + 1, drawn++) {
        end = strchr(line, '\n');
        qkv_bytes_text(&out, "\n");
        qkv_bytes_append(&out, line, (size_t)(end - line));
        qkv_bytes_text(&out, "\033[K");
    }
    qkv_bytes_text(&out, "\033[J\r");
    if (drawn) qkv_bytes_format(&out, "\033[%dA", drawn);
    qkv_bytes_text(&out, AUTO_WRAP_ON);
    if (!out.failed) write_bytes(block->file, out.data, out.size);
    free(out.data);
    block->drawn = true;
    block->rows = drawn;
    block->drawn_at = qkv_clock_seconds();
}

void status_block_erase(struct status_block *block)
{
    if (block->drawn) write_bytes(block->file, STATUS_BLOCK_ERASE, sizeof STATUS_BLOCK_ERASE - 1);
    block->drawn = false;
}

void status_block_keep(struct status_block *block)
{
    struct bytes out = {0};
    if (!block->drawn) return;
    for (int i = 0; i <= block->rows; i++) qkv_bytes_text(&out, "\n");
    if (!out.failed) write_bytes(block->file, out.data, out.size);
    free(out.data);
    block->drawn = false;
}
