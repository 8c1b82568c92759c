#include "screen.h"

#include <utf8proc.h>

static const struct screen_cell BLANK = {" "};

static void clear_cells(struct screen *screen, int line, int first, int end)
{
    for (int i = first; i < end; i++) screen->cell[line][i] = BLANK;
}

void screen_init(struct screen *screen, int columns, int rows)
{
    memset(screen, 0, sizeof *screen);
    screen->columns = columns;
    screen->rows = rows;
    screen->wraps = true;
    for (int line = 0; line < SCREEN_MAX_LINES; line++) clear_cells(screen, line, 0, SCREEN_MAX_COLUMNS);
}

static struct screen_cell *current_line(struct screen *screen)
{
    return screen->cell[screen->top + screen->row];
}

static void line_feed(struct screen *screen)
{
    if (screen->row + 1 < screen->rows)
        screen->row++;
    else if (screen->top + screen->rows < SCREEN_MAX_LINES)
        screen->top++;
    if (screen->top + screen->row >= screen->lines) screen->lines = screen->top + screen->row + 1;
}

/* Puts a character at the cursor. */
static void put(struct screen *screen, const char *text)
{
    utf8proc_int32_t point;
    utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
    int width = utf8proc_charwidth(point);
    if (!width) { /* a combining mark belongs to the character before */
        struct screen_cell *cell = &current_line(screen)[screen->column ? screen->column - 1 : 0];
        size_t length = strlen(cell->text);
        snprintf(cell->text + length, sizeof cell->text - length, "%.4s", text);
        return;
    }
    if (screen->column + width > screen->columns) {
        if (screen->wraps) {
            screen->column = 0;
            line_feed(screen);
        } else {
            screen->column = screen->columns - width;
        }
    }
    struct screen_cell *line = current_line(screen);
    snprintf(line[screen->column].text, sizeof line->text, "%.4s", text);
    if (width == 2) line[screen->column + 1].text[0] = '\0';
    screen->column += width;
    if (screen->top + screen->row >= screen->lines) screen->lines = screen->top + screen->row + 1;
}

static int clamp(int value, int max)
{
    return value < 0 ? 0 : value > max ? max : value;
}

static void erase_in_line(struct screen *screen, int mode)
{
    int column = clamp(screen->column, screen->columns - 1);
    clear_cells(screen, screen->top + screen->row, mode ? 0 : column,
                mode == 1 ? column + 1 : SCREEN_MAX_COLUMNS);
}

static void erase_in_screen(struct screen *screen, int mode)
{
    erase_in_line(screen, mode);
    for (int row = mode ? 0 : screen->row + 1; row < (mode == 1 ? screen->row : screen->rows); row++)
        clear_cells(screen, screen->top + row, 0, SCREEN_MAX_COLUMNS);
}

/* Moves the cells from the cursor on by `count` columns, which become empty: to the right for a positive count. */
static void shift(struct screen *screen, int count)
{
    struct screen_cell *line = current_line(screen);
    int first = screen->column, end = screen->columns, moved = count < 0 ? -count : count;
    if (moved > end - first) moved = end - first;
    size_t size = (size_t)(end - first - moved) * sizeof *line;
    if (count > 0)
        memmove(line + first + moved, line + first, size);
    else
        memmove(line + first, line + first + moved, size);
    clear_cells(screen, screen->top + screen->row, count > 0 ? first : end - moved,
                count > 0 ? first + moved : end);
}

/* Obeys "\033[" parameters and a letter. Returns false if it does not know the sequence. */
static bool control(struct screen *screen, const char *sequence)
{
    char last = sequence[strlen(sequence) - 1];
    int first = atoi(sequence + 2), count = first > 0 ? first : 1;
    const char *semicolon = strchr(sequence, ';');
    if (sequence[2] == '?') {
        if (!strncmp(sequence, "\033[?7", 4) && strlen(sequence) == 5) screen->wraps = last == 'h';
        return last == 'h' || last == 'l';
    }
    if (last == 'm') screen->is_colored = screen->is_colored || first != 0;
    if (last == 'A') screen->row = clamp(screen->row - count, screen->rows - 1);
    if (last == 'B') screen->row = clamp(screen->row + count, screen->rows - 1);
    if (last == 'C') screen->column = clamp(screen->column + count, screen->columns - 1);
    if (last == 'D') screen->column = clamp(screen->column - count, screen->columns - 1);
    if (last == 'G') screen->column = clamp(count - 1, screen->columns - 1);
    if (last == 'H') {
        screen->row = clamp(count - 1, screen->rows - 1);
        screen->column = clamp(semicolon ? atoi(semicolon + 1) - 1 : 0, screen->columns - 1);
    }
    if (last == 'J') erase_in_screen(screen, first);
    if (last == 'K') erase_in_line(screen, first);
    if (last == '@') shift(screen, count);
    if (last == 'P') shift(screen, -count);
    if (last == 'X')
        clear_cells(screen, screen->top + screen->row, screen->column,
                    clamp(screen->column + count, screen->columns));
    return strchr("mABCDGHJK@PX", last) != NULL;
}

/* Whether the pending bytes are a complete character or sequence. */
static bool is_complete(const struct screen *screen)
{
    unsigned char first = (unsigned char)screen->pending[0];
    char last = screen->pending[screen->pending_size - 1];
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    if (first != 033) return screen->pending_size >= length;
    if (screen->pending_size < 2) return false;
    if (screen->pending[1] != '[') return screen->pending[1] != '(' || screen->pending_size == 3;
    return screen->pending_size > 2 && last >= '@' && last <= '~';
}

static void obey(struct screen *screen)
{
    const char *text = screen->pending;
    bool known = true;
    if (*text == '\033')
        known = text[1] == '[' ? control(screen, text) : text[1] == '=' || text[1] == '>' || text[1] == '(';
    else if (*text == '\n')
        line_feed(screen);
    else if (*text == '\r')
        screen->column = 0;
    else if (*text == '\b')
        screen->column = clamp(screen->column - 1, screen->columns - 1);
    else if (*text == '\t')
        screen->column = clamp(screen->column / 8 * 8 + 8, screen->columns - 1);
    else if ((unsigned char)*text >= ' ')
        put(screen, text);
    else
        known = *text == '\a' || *text == '\017' || *text == '\016';
    if (!known && !*screen->unknown)
        snprintf(screen->unknown, sizeof screen->unknown, "\\%03o%s", (unsigned char)*text, text + 1);
}

void screen_print(struct screen *screen, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        screen->pending[screen->pending_size++] = bytes[i];
        screen->pending[screen->pending_size] = '\0';
        if (!is_complete(screen) && screen->pending_size + 1 < sizeof screen->pending) continue;
        obey(screen);
        screen->pending_size = 0;
    }
}

/* Columns of a line that are not blank. */
static int used_columns(const struct screen *screen, int line)
{
    int used = SCREEN_MAX_COLUMNS;
    while (used && !strcmp(screen->cell[line][used - 1].text, BLANK.text)) used--;
    return used;
}

void screen_resize(struct screen *screen, int columns, int rows)
{
    struct screen *old RELEASED(free_memory) = malloc(sizeof *old);
    if (!old) abort();
    memcpy(old, screen, sizeof *old);
    screen_init(screen, columns, rows);
    int cursor = 0, line = 0;
    for (int i = 0; i < old->lines && line < SCREEN_MAX_LINES; i++, line++) {
        if (i == old->top + old->row) cursor = line;
        int used = used_columns(old, i);
        for (int column = 0; column < used; column++) {
            if (column && column % columns == 0 && line + 1 < SCREEN_MAX_LINES) line++;
            screen->cell[line][column % columns] = old->cell[i][column];
        }
    }
    screen->lines = line;
    screen->top = screen->lines > rows ? screen->lines - rows : 0;
    if (cursor < screen->top) screen->top = cursor;
    screen->row = cursor - screen->top;
    screen->column = clamp(old->column, columns - 1);
    screen->wraps = old->wraps;
    screen->is_colored = old->is_colored;
    memcpy(screen->unknown, old->unknown, sizeof screen->unknown);
    memcpy(screen->pending, old->pending, sizeof screen->pending);
    screen->pending_size = old->pending_size;
}

char *screen_text(const struct screen *screen)
{
    size_t size = 0;
    char *text =
        malloc((size_t)screen->lines * (SCREEN_MAX_COLUMNS * sizeof screen->cell[0][0].text + 1) + 1);
    if (!text) abort();
    for (int line = 0; line < screen->lines; line++) {
        for (int column = 0; column < used_columns(screen, line); column++)
            size += (size_t)sprintf(text + size, "%s", screen->cell[line][column].text);
        text[size++] = '\n';
    }
    while (size > 1 && text[size - 2] == '\n') size--;
    if (size == 1) size = 0;
    text[size] = '\0';
    return remember(text);
}
