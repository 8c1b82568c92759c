/* Pieces: the text of a symbol as a token, and the pieces that are frequent enough to be kept. */
#include "core/grow.h"
#include "data/bpe.h"
#include "data/file_parts.h"
#include "qkv/file.h"
#include "qkv/lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* ---- the text of a symbol as a token ---- */

size_t qkv_bpe_longest_piece(const struct qkv_types *symbols)
{
    size_t longest = QKV_BPE_CHARACTER_SIZE;
    for (int64_t i = 0; i < symbols->size; i++) {
        size_t size = strlen(qkv_types_token(symbols, i)) + 1;
        if (size > longest) longest = size;
    }
    return longest + sizeof QKV_BPE_CONTINUES;
}

bool qkv_bpe_ends_word(const char *symbol)
{
    size_t size = strlen(symbol), mark = sizeof QKV_BPE_WORD_END - 1;
    return size > mark && !strcmp(symbol + size - mark, QKV_BPE_WORD_END);
}

const char *qkv_bpe_piece_of(const char *symbol, bool is_last, char *token)
{
    size_t size = strlen(symbol);
    if (is_last && qkv_bpe_ends_word(symbol)) size -= sizeof QKV_BPE_WORD_END - 1;
    memcpy(token, symbol, size);
    strcpy(token + size, is_last ? "" : QKV_BPE_CONTINUES);
    return token;
}

/* ---- pieces that are kept ---- */

/* Copies the pieces that occur at least `minimum` times. */
static bool copy_pieces(struct qkv_types *kept, const struct qkv_types *pieces, int64_t minimum)
{
    for (int64_t i = 0; i < pieces->size; i++)
        if (pieces->frequency[i] >= minimum &&
            qkv_types_add(kept, qkv_types_token(pieces, i), pieces->frequency[i]) < 0)
            return false;
    return true;
}

/* The merge to undo for each symbol, or -1 if no merge makes it. If several merges make the same symbol, chooses as subword-nmt
 * does: it reads the lines from the last to the first, ignores a merge that it has read before, and the last one read wins.
 * NULL when memory runs out; the caller frees it. */
static int32_t *find_merges(const struct qkv_bpe *bpe)
{
    bool *is_read = calloc((size_t)bpe->pairs.size + 1, sizeof *is_read);
    int32_t *merges = malloc(((size_t)bpe->symbols.size + 1) * sizeof *merges);
    bool good = is_read && merges;
    for (int64_t i = 0; good && i < bpe->symbols.size; i++) merges[i] = -1;
    for (int64_t line = bpe->count - 1; good && line >= 0; line--) {
        int32_t merge = bpe->order[line];
        if (!is_read[merge]) merges[bpe->joined[merge]] = merge;
        is_read[merge] = true;
    }
    free(is_read);
    if (good) return merges;
    free(merges);
    return NULL;
}

enum qkv_status qkv_bpe_restrict(struct qkv_bpe *bpe, const struct qkv_types *pieces, int64_t minimum,
                                 struct qkv_error *error)
{
    struct qkv_types kept = {0};
    char *token = malloc(qkv_bpe_longest_piece(&bpe->symbols));
    int32_t *undone = find_merges(bpe);
    bool good = token && undone && copy_pieces(&kept, pieces, minimum), chosen = good && kept.size;
    for (int64_t i = 0; chosen && i < bpe->symbols.size; i++) {
        const char *symbol = qkv_types_token(&bpe->symbols, i);
        qkv_bpe_piece_of(symbol, qkv_bpe_ends_word(symbol), token);
        if (qkv_types_find(&kept, token) >= 0) undone[i] = -1;
    }
    free(token);
    qkv_types_release(chosen ? &bpe->kept : &kept);
    free(chosen ? bpe->undone : undone);
    if (!good) return qkv_error_set(error, "out of memory for pieces");
    if (!chosen) return qkv_error_set(error, "no piece of the text occurs %lld times", (long long)minimum);
    bpe->kept = kept;
    bpe->undone = undone;
    return QKV_OK;
}

/* ---- files of pieces ---- */

void qkv_bpe_write_pieces(const struct qkv_bpe *bpe, FILE *file)
{
    for (int64_t i = 0; i < bpe->kept.size; i++)
        fprintf(file, "%s %lld\n", qkv_types_token(&bpe->kept, i), (long long)bpe->kept.frequency[i]);
}

enum qkv_status qkv_bpe_save_pieces(const struct qkv_bpe *bpe, const char *path, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_bpe_write_pieces(bpe, writer.file);
    return qkv_file_commit(&writer, error);
}

/* Adds the piece of the current line with its frequency. */
static enum qkv_status add_line(struct qkv_types *pieces, const struct qkv_lines *lines,
                                struct qkv_error *error)
{
    long long number = lines->number;
    char *space = strchr(lines->line, ' '), *end = NULL;
    errno = 0;
    long long frequency = space ? strtoll(space + 1, &end, 10) : 0;
    if (!space || space == lines->line || *end || errno || frequency < 1)
        return qkv_error_set(error, "%s:%lld: must be a piece, a space and its frequency", lines->path,
                             number);
    if (!lines->ended)
        return qkv_error_set(error, "%s:%lld: the last line has no newline; the file may be truncated",
                             lines->path, number);
    *space = '\0';
    if (qkv_types_find(pieces, lines->line) >= 0)
        return qkv_error_set(error, "%s:%lld: '%s' is already in an earlier line", lines->path, number,
                             lines->line);
    if (qkv_types_add(pieces, lines->line, frequency) >= 0) return QKV_OK;
    return qkv_error_set(error, "%s: out of memory", lines->path);
}

enum qkv_status qkv_bpe_read_pieces(struct qkv_bpe *bpe, struct qkv_file_part part, struct qkv_error *error)
{
    struct qkv_lines lines;
    if (qkv_lines_open_part(&lines, part, error)) return QKV_INVALID;
    struct qkv_types pieces = {0};
    bool found;
    enum qkv_status status;
    while (!(status = qkv_lines_next(&lines, &found, error)) && found)
        if ((status = add_line(&pieces, &lines, error))) break;
    if (!status) status = qkv_lines_check_read(&lines, error);
    qkv_lines_close(&lines);
    if (!status) status = qkv_bpe_restrict(bpe, &pieces, 1, error);
    qkv_types_release(&pieces);
    return status;
}

enum qkv_status qkv_bpe_load_pieces(struct qkv_bpe *bpe, const char *path, struct qkv_error *error)
{
    return qkv_bpe_read_pieces(bpe, (struct qkv_file_part){.path = path}, error);
}
