#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "command.h"
#include "core/system.h"

#include <sys/ioctl.h>

static const double REDRAW_SECONDS = 0.1;

int terminal_width(FILE *file)
{
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
    return 80;
}

int terminal_height(FILE *file)
{
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_row > 1) return size.ws_row;
    return 24;
}

bool is_in_foreground(FILE *file)
{
    pid_t group = tcgetpgrp(fileno(file));
    return group < 0 || group == getpgrp();
}

bool has_cursor_control(FILE *file)
{
    const char *terminal = getenv("TERM");
    return isatty(fileno(file)) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (int i = 0; i < 3 && !(locale && *locale); i++) locale = getenv(names[i]);
    return locale && (strstr(locale, "UTF-8") || strstr(locale, "utf8") || strstr(locale, "UTF8") ||
                      strstr(locale, "utf-8"));
}

struct progress_bar progress_bar_on(FILE *file)
{
    return (struct progress_bar){.file = file, .live = has_cursor_control(file)};
}

void progress_bar_show(struct progress_bar *bar, double share, const char *text)
{
    double seconds = qkv_clock_seconds();
    if (!bar->live || (bar->drawn && seconds - bar->drawn_at < REDRAW_SECONDS)) return;
    int width = terminal_width(bar->file) - 1, space = width - (int)strlen(text) - 10;
    fputs("\r\033[K", bar->file);
    if (share >= 0 && space >= 10) {
        int cells = space < 30 ? space : 30, full = (int)(fmin(share, 1) * cells);
        fprintf(bar->file, "%3.0f %% [", 100 * share);
        for (int i = 0; i < cells; i++) fputc(i < full ? '#' : '-', bar->file);
        fputs("] ", bar->file);
    }
    fprintf(bar->file, "%.*s", width, text);
    fflush(bar->file);
    bar->drawn = true;
    bar->drawn_at = seconds;
}

void progress_bar_clear(struct progress_bar *bar)
{
    if (!bar->drawn) return;
    fputs("\r\033[K", bar->file);
    fflush(bar->file);
    bar->drawn = false;
}

enum qkv_terminal_colors terminal_colors(FILE *file)
{
    const char *depth = getenv("COLORTERM"), *no_color = getenv("NO_COLOR");
    if (!has_cursor_control(file) || (no_color && *no_color)) return QKV_COLORS_NONE;
    return depth && (!strcmp(depth, "truecolor") || !strcmp(depth, "24bit")) ? QKV_COLORS_TRUE
                                                                             : QKV_COLORS_256;
}
