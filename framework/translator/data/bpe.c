/* Merges: the table of pairs, codes files, and the pieces that cutting keeps. */
#include "data/bpe.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/corpus.h"
#include "data/unicode.h"

#include <errno.h>
#include <zlib.h>

static const char VERSION_LINE[] = "#version: 0.2";

/* ---- pairs ---- */

/* The slot of a pair, or the free slot for it. At most half of the slots are in use. */
static int64_t slot_of(const struct qkv_symbol_pairs *pairs, int32_t left, int32_t right)
{
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    int64_t mask = pairs->slot_count - 1, slot = (int64_t)(hash >> 32) & mask;
    for (int32_t pair; (pair = pairs->slots[slot]) >= 0; slot = (slot + 1) & mask)
        if (pairs->left[pair] == left && pairs->right[pair] == right) break;
    return slot;
}

static bool double_slots(struct qkv_symbol_pairs *pairs)
{
    int64_t count = pairs->slot_count ? 2 * pairs->slot_count : 1024;
    int32_t *slots = malloc((size_t)count * sizeof *slots);
    if (!slots) return false;
    for (int64_t i = 0; i < count; i++) slots[i] = -1;
    free(pairs->slots);
    pairs->slots = slots;
    pairs->slot_count = count;
    for (int64_t i = 0; i < pairs->size; i++)
        slots[slot_of(pairs, pairs->left[i], pairs->right[i])] = (int32_t)i;
    return true;
}

int32_t qkv_symbol_pairs_add(struct qkv_symbol_pairs *pairs, int32_t left, int32_t right)
{
    if (2 * (pairs->size + 1) > pairs->slot_count && !double_slots(pairs)) return -1;
    int64_t slot = slot_of(pairs, left, right), pair = pairs->slots[slot];
    if (pair >= 0) return (int32_t)pair;
    pair = pairs->size;
    if (pair == INT32_MAX || !QKV_RESERVE(pairs->left, pairs->left_capacity, pair + 1) ||
        !QKV_RESERVE(pairs->right, pairs->right_capacity, pair + 1)) {
        qkv_symbol_pairs_release(pairs);
        return -1;
    }
    pairs->left[pair] = left;
    pairs->right[pair] = right;
    pairs->slots[slot] = (int32_t)pair;
    pairs->size++;
    return (int32_t)pair;
}

int32_t qkv_symbol_pairs_find(const struct qkv_symbol_pairs *pairs, int32_t left, int32_t right)
{
    return pairs->slot_count ? pairs->slots[slot_of(pairs, left, right)] : -1;
}

void qkv_symbol_pairs_release(struct qkv_symbol_pairs *pairs)
{
    free(pairs->left);
    free(pairs->right);
    free(pairs->slots);
    *pairs = (struct qkv_symbol_pairs){0};
}

/* ---- merges ---- */

bool qkv_bpe_add(struct qkv_bpe *bpe, const char *left, const char *right)
{
    int32_t first = qkv_types_add(&bpe->symbols, left, 0);
    int32_t second = first < 0 ? -1 : qkv_types_add(&bpe->symbols, right, 0);
    size_t left_size = strlen(left), right_size = strlen(right);
    char *text = second < 0 ? NULL : malloc(left_size + right_size + 1);
    if (!text) return false;
    memcpy(text, left, left_size);
    memcpy(text + left_size, right, right_size + 1);
    int32_t joined = qkv_types_add(&bpe->symbols, text, 0);
    free(text);
    int32_t pair = joined < 0 ? -1 : qkv_symbol_pairs_add(&bpe->pairs, first, second);
    if (pair < 0 || !QKV_RESERVE(bpe->joined, bpe->joined_capacity, pair + 1) ||
        !QKV_RESERVE(bpe->order, bpe->order_capacity, bpe->count + 1))
        return false;
    bpe->joined[pair] = joined;
    bpe->order[bpe->count++] = pair;
    return true;
}

static const char *left_of(const struct qkv_bpe *bpe, int64_t line)
{
    return qkv_types_token(&bpe->symbols, bpe->pairs.left[bpe->order[line]]);
}

static const char *right_of(const struct qkv_bpe *bpe, int64_t line)
{
    return qkv_types_token(&bpe->symbols, bpe->pairs.right[bpe->order[line]]);
}

struct qkv_bpe *qkv_bpe_copy(const struct qkv_bpe *bpe)
{
    struct qkv_bpe *copy = calloc(1, sizeof *copy);
    for (int64_t i = 0; copy && i < bpe->count; i++) {
        if (qkv_bpe_add(copy, left_of(bpe, i), right_of(bpe, i))) continue;
        qkv_bpe_free(copy);
        copy = NULL;
    }
    return copy;
}

char *qkv_bpe_character_text(char text[static QKV_BPE_CHARACTER_SIZE], const char *character, int size,
                             bool last)
{
    snprintf(text, QKV_BPE_CHARACTER_SIZE, "%.*s%s", size, character, last ? QKV_BPE_WORD_END : "");
    return text;
}

void qkv_bpe_free(struct qkv_bpe *bpe)
{
    if (!bpe) return;
    qkv_types_release(&bpe->symbols);
    qkv_symbol_pairs_release(&bpe->pairs);
    qkv_types_release(&bpe->kept);
    free(bpe->undone);
    free(bpe->joined);
    free(bpe->order);
    free(bpe);
}

/* ---- codes files ---- */

void qkv_bpe_write(const struct qkv_bpe *bpe, FILE *file)
{
    fprintf(file, "%s\n", VERSION_LINE);
    for (int64_t i = 0; i < bpe->count; i++) fprintf(file, "%s %s\n", left_of(bpe, i), right_of(bpe, i));
}

enum qkv_status qkv_bpe_save(const struct qkv_bpe *bpe, const char *path, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_bpe_write(bpe, writer.file);
    return qkv_file_commit(&writer, error);
}

static uLong add_text(uLong sum, const char *text)
{
    return crc32_z(sum, (const Bytef *)text, strlen(text));
}

uint32_t qkv_bpe_checksum(const struct qkv_bpe *bpe)
{
    uLong sum = add_text(add_text(crc32_z(0, NULL, 0), VERSION_LINE), "\n");
    for (int64_t i = 0; i < bpe->count; i++)
        sum = add_text(add_text(add_text(add_text(sum, left_of(bpe, i)), " "), right_of(bpe, i)), "\n");
    for (int64_t i = 0; i < bpe->kept.size; i++)
        sum = add_text(add_text(sum, qkv_types_token(&bpe->kept, i)), "\n");
    return (uint32_t)sum;
}

static enum qkv_status check_version(const struct qkv_lines *lines, struct qkv_error *error)
{
    static const char start[] = "#version:";
    if (!strcmp(lines->line, VERSION_LINE)) return QKV_OK;
    if (!strncmp(lines->line, start, sizeof start - 1))
        return qkv_error_set(
            error,
            "%s:1: holds byte-pair codes of version%.20s, but this qkv reads version 0.2: learn "
            "them again with subword-nmt 0.3",
            lines->path, lines->line + sizeof start - 1);
    return qkv_error_set(error,
                         "%s:1: is no file of byte-pair codes of version 0.2, which begins with the line "
                         "\"%s\"; learn the codes with subword-nmt 0.3 or with qkv",
                         lines->path, VERSION_LINE);
}

/* Adds the merge of the current line. A merge may contain other spaces, such as U+00A0, within which subword-nmt, unlike qkv,
 * does not split words: it then never applies. */
static enum qkv_status add_merge(void *bpe, const struct qkv_lines *lines, struct qkv_error *error)
{
    int spaces = 0;
    if (lines->number == 1) return check_version(lines, error);
    for (const char *c = lines->line; *c;) {
        int32_t point;
        c += qkv_point(c, &point);
        spaces += point == ' ' ? 1 : point < 0x80 && qkv_is_space(point) ? 2 : 0;
    }
    char *space = strchr(lines->line, ' ');
    if (spaces != 1 || space == lines->line || !space[1])
        return qkv_error_set(error, "%s:%lld: is not a merge: two symbols separated by one space",
                             lines->path, (long long)lines->number);
    *space = '\0';
    if (qkv_bpe_add(bpe, lines->line, space + 1)) return QKV_OK;
    return qkv_no_memory(error);
}

struct qkv_bpe *qkv_bpe_read(struct qkv_file_part part, struct qkv_error *error)
{
    struct qkv_bpe *bpe = calloc(1, sizeof *bpe);
    enum qkv_status status = bpe ? qkv_lines_read_part(part, add_merge, bpe, error) : qkv_no_memory(error);
    if (!status && !bpe->count) status = qkv_error_set(error, "%s: holds no merges", part.path);
    if (!status) return bpe;
    qkv_bpe_free(bpe);
    return NULL;
}

struct qkv_bpe *qkv_bpe_load(const char *path, struct qkv_error *error)
{
    return qkv_bpe_read((struct qkv_file_part){.path = path}, error);
}

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
    return *symbol && qkv_ends_in(symbol + 1, QKV_BPE_WORD_END);
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
    bool good = token && undone && qkv_types_add_frequent(&kept, pieces, minimum), chosen = good && kept.size;
    for (int64_t i = 0; chosen && i < bpe->symbols.size; i++) {
        const char *symbol = qkv_types_token(&bpe->symbols, i);
        qkv_bpe_piece_of(symbol, qkv_bpe_ends_word(symbol), token);
        if (qkv_types_find(&kept, token) >= 0) undone[i] = -1;
    }
    free(token);
    qkv_types_release(chosen ? &bpe->kept : &kept);
    free(chosen ? bpe->undone : undone);
    if (!good) return qkv_no_memory(error);
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
static enum qkv_status add_piece(void *pieces, const struct qkv_lines *lines, struct qkv_error *error)
{
    long long number = lines->number;
    char *space = strchr(lines->line, ' '), *end = NULL;
    errno = 0;
    long long frequency = space ? strtoll(space + 1, &end, 10) : 0;
    if (!space || space == lines->line || *end || errno || frequency < 1)
        return qkv_error_set(error, "%s:%lld: must be a piece, a space and its frequency", lines->path,
                             number);
    *space = '\0';
    if (qkv_types_find(pieces, lines->line) >= 0)
        return qkv_error_set(error, "%s:%lld: '%s' is already in an earlier line", lines->path, number,
                             lines->line);
    if (qkv_types_add(pieces, lines->line, frequency) >= 0) return QKV_OK;
    return qkv_no_memory(error);
}

enum qkv_status qkv_bpe_read_pieces(struct qkv_bpe *bpe, struct qkv_file_part part, struct qkv_error *error)
{
    struct qkv_types pieces = {0};
    enum qkv_status status = qkv_lines_read_part(part, add_piece, &pieces, error);
    if (!status) status = qkv_bpe_restrict(bpe, &pieces, 1, error);
    qkv_types_release(&pieces);
    return status;
}

enum qkv_status qkv_bpe_load_pieces(struct qkv_bpe *bpe, const char *path, struct qkv_error *error)
{
    return qkv_bpe_read_pieces(bpe, (struct qkv_file_part){.path = path}, error);
}
