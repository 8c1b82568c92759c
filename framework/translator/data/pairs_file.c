/* Reads sentence pairs: finds the files, reads a table or two files, and finds out which side is which. */
#include "core/file.h"
#include "data/lines.h"
#include "data/pairs.h"
#include "data/prepared.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- a table ---- */

/* What a regular file is that must be unpacked or exported first, by its first bytes, and how; NULL: it is no such file. A pipe
 * is not checked, because bytes that are read from it would be lost. */
static const char *packed_form(const char *path)
{
    enum { BYTES = 4 };
    static const char *const forms[][2] = {
        {"PK\3\4",
         "is an archive: take the text out of it with unzip; or, if it is a deck (.apkg) or a spreadsheet "
         "(.xlsx, .ods), export it as text with tabs between the columns"},
        {"BZh", "is compressed with bzip2: unpack it with bunzip2"},
        {"\xFD\67zX", "is compressed with xz: unpack it with unxz"},
        {"\x28\xB5\x2F\xFD", "is compressed with zstd: unpack it with unzstd"},
    };
    char begin[BYTES] = "";
    struct stat status;
    bool is_regular = strcmp(path, "-") != 0 && !stat(path, &status) && S_ISREG(status.st_mode);
    FILE *file = is_regular ? fopen(path, "rb") : NULL;
    bool complete = file && fread(begin, 1, BYTES, file) == BYTES;
    if (file) fclose(file);
    for (size_t i = 0; complete && i < sizeof forms / sizeof *forms; i++)
        if (!memcmp(begin, forms[i][0], strlen(forms[i][0]))) return forms[i][1];
    return NULL;
}

static enum qkv_status read_table_file(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                       struct qkv_error *error)
{
    if (qkv_is_prepared(request->path)) return qkv_prepared_refuse(request->path, error);
    const char *packed = packed_form(request->path);
    if (packed) return qkv_error_set(error, "%s: %s", request->path, packed);
    return qkv_pairs_read_table(pairs, request, error);
}

/* ---- the two files that a prefix stands for ---- */

/* Returns the length of the language in a file name <prefix>.<language> or <prefix>.<language>.gz; 0: the name has another
 * form. */
static size_t language_size(const char *name, const char *prefix, const char *const lang[2])
{
    size_t skipped = strlen(prefix);
    if (strncmp(name, prefix, skipped) || name[skipped] != '.') return 0;
    const char *suffix = name + skipped + 1;
    size_t size = strcspn(suffix, ".");
    if (suffix[size] && strcmp(suffix + size, ".gz")) return 0;
    for (int side = 0; side < 2; side++)
        if (lang[side] && strlen(lang[side]) == size && !strncmp(suffix, lang[side], size)) return size;
    return qkv_language_of_title(suffix, size) ? size : 0;
}

enum { MAX_FILES = 16, NAME_LONGEST = 255 };

/* The names of the files of a prefix. */
struct names {
    int count;
    char name[MAX_FILES][NAME_LONGEST + 1];
    size_t language_size[MAX_FILES];
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Lists the files folder/prefix.<language>, in the order of their names. */
static enum qkv_status list_files(struct names *names, const char *folder, const char *prefix,
                                  const char *const lang[2], struct qkv_error *error)
{
    DIR *listing = opendir(*folder ? folder : ".");
    names->count = 0;
    if (!listing)
        return qkv_error_set(error, "%s: cannot be read: %s", *folder ? folder : ".", strerror(errno));
    for (struct dirent *entry; names->count < MAX_FILES && (errno = 0, entry = readdir(listing));) {
        if (strlen(entry->d_name) > NAME_LONGEST || !language_size(entry->d_name, prefix, lang)) continue;
        strcpy(names->name[names->count++], entry->d_name);
    }
    int code = names->count < MAX_FILES ? errno : 0;
    closedir(listing);
    if (code) return qkv_error_set(error, "%s: cannot be read: %s", *folder ? folder : ".", strerror(code));
    qsort(names->name, (size_t)names->count, sizeof names->name[0], compare_names);
    int different = 0;
    for (int i = 0; i < names->count; i++) {
        size_t size = language_size(names->name[i], prefix, lang);
        /* x.en is sorted before x.en.gz, which holds the same text. */
        if (different && size == names->language_size[different - 1] &&
            !strncmp(names->name[i], names->name[different - 1], strlen(prefix) + 1 + size))
            continue;
        memmove(names->name[different], names->name[i], sizeof names->name[0]);
        names->language_size[different++] = size;
    }
    names->count = different;
    return QKV_OK;
}

/* The index of the file whose suffix is a language, or else is another name of it, as in x.eng and x.en-US for en; -1:
 * there is none. */
static int find_language(const struct names *names, size_t prefix_size, const char *lang)
{
    int found = -1;
    for (int i = 0; i < names->count; i++) {
        const char *suffix = names->name[i] + prefix_size + 1;
        size_t size = names->language_size[i];
        if (strlen(lang) == size && !strncmp(suffix, lang, size)) return i;
        const char *code = qkv_language_of_title(suffix, size);
        if (found < 0 && code && !strcmp(code, lang)) found = i;
    }
    return found;
}

/* The table x.tsv, x.txt or the like, if the user has named x; NULL if there is none. */
static const char *suggest_table(const char *path, char *table, size_t size)
{
    static const char *const ends[] = {".tsv",    ".txt",    ".csv",    ".jsonl",
                                       ".tsv.gz", ".txt.gz", ".csv.gz", ".jsonl.gz"};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        int length = snprintf(table, size, "%s%s", path, ends[e]);
        if ((size_t)length < size && qkv_path_exists(table)) return table;
    }
    return NULL;
}

static enum qkv_status refuse_count(const struct names *names, const char *prefix, struct qkv_error *error)
{
    char list[1024] = "", table[1024];
    if (!names->count && suggest_table(prefix, table, sizeof table))
        return qkv_error_set(error, "%s: there is no such file; did you mean %s", prefix, table);
    if (!names->count)
        return qkv_error_set(
            error,
            "%s: there is no such file, and no two files %s.en and %s.es (or other languages) of which "
            "it is the common prefix",
            prefix, prefix, prefix);
    for (int i = 0; i < names->count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names->name[i]);
    }
    return qkv_error_set(
        error,
        names->count == 1
            ? "%s: two files must begin with this, but only %s does"
            : "%s: is the prefix of more than two files: %s; name two languages with --src and --trg",
        prefix, list);
}

/* Chooses the names of the source and the target file. */
static enum qkv_status choose_files(const struct names *names, const struct qkv_pairs_request *request,
                                    const char *prefix, int chosen[2], struct qkv_error *error)
{
    bool is_named = false;
    for (int side = 0; side < 2; side++) {
        chosen[side] = request->lang[side] ? find_language(names, strlen(prefix), request->lang[side]) : -1;
        if (request->lang[side] && chosen[side] < 0)
            return qkv_error_set(error, "%s.%s: there is no such file", request->path, request->lang[side]);
        is_named = is_named || request->lang[side];
    }
    if (chosen[0] >= 0 && chosen[1] >= 0) return QKV_OK;
    if (names->count != 2) return refuse_count(names, request->path, error);
    if (!is_named) {
        chosen[0] = 0;
        chosen[1] = 1;
    } else if (chosen[0] >= 0) {
        chosen[1] = !chosen[0];
    } else {
        chosen[0] = !chosen[1];
    }
    return QKV_OK;
}

/* Finds both files: request.path and request.target, or the files prefix.<language>, plain or .gz, if request.path is a
 * prefix. Copies their paths, which the caller frees, even after a failure. */
static enum qkv_status find_files(const struct qkv_pairs_request *request, char *path[2],
                                  struct qkv_error *error)
{
    if (request->target) {
        path[0] = strdup(request->path);
        path[1] = strdup(request->target);
        return path[0] && path[1] ? QKV_OK : qkv_error_set(error, "%s: out of memory", request->path);
    }
    const char *slash = strrchr(request->path, '/'), *prefix = slash ? slash + 1 : request->path;
    size_t folder_size = (size_t)(prefix - request->path);
    char *folder = strndup(request->path, folder_size);
    struct names *names = malloc(sizeof *names);
    int chosen[2];
    enum qkv_status status = QKV_OK;
    if (!folder || !names) {
        status = qkv_error_set(error, "%s: out of memory", request->path);
    } else {
        status = list_files(names, folder, prefix, request->lang, error);
        if (!status) status = choose_files(names, request, prefix, chosen, error);
    }
    for (int side = 0; side < 2 && !status; side++) {
        size_t size = folder_size + strlen(names->name[chosen[side]]) + 1;
        path[side] = malloc(size);
        if (path[side])
            snprintf(path[side], size, "%s%s", folder, names->name[chosen[side]]);
        else
            status = qkv_error_set(error, "%s: out of memory", request->path);
    }
    free(folder);
    free(names);
    return status;
}

/* ---- two files ---- */

static enum qkv_status different_lengths(struct qkv_lines lines[2], int longer, struct qkv_error *error)
{
    int64_t count = lines[!longer].number;
    bool found = true;
    while (found)
        if (qkv_lines_next(&lines[longer], &found, error)) return QKV_INVALID;
    return qkv_error_set(
        error,
        "%s has %lld lines, but %s has %lld: line n of one file must be the translation of line n "
        "of the other",
        lines[longer].path, (long long)lines[longer].number, lines[!longer].path, (long long)count);
}

/* Fails when most lines of both files have a tab: these are two tables of pairs, not two sides. */
static enum qkv_status check_tabs(const struct qkv_lines lines[2], int64_t count, const int64_t tabs[2],
                                  struct qkv_error *error)
{
    if (tabs[0] * 2 <= count || tabs[1] * 2 <= count) return QKV_OK;
    return qkv_error_set(error,
                         "%s and %s: both have columns (tabs), so each is a table of pairs and not one side; "
                         "join them: cat %s %s >all.txt",
                         lines[0].path, lines[1].path, lines[0].path, lines[1].path);
}

static enum qkv_status read_aligned(struct qkv_pairs *pairs, struct qkv_lines lines[2],
                                    struct qkv_error *error)
{
    for (int64_t tabs[2] = {0, 0};;) {
        bool found[2];
        struct pairs_field sentence[2];
        for (int side = 0; side < 2; side++) {
            if (qkv_lines_next(&lines[side], &found[side], error)) return QKV_INVALID;
            if (!found[side] && qkv_lines_check_read(&lines[side], error)) return QKV_INVALID;
            if (found[side])
                sentence[side] = qkv_pairs_trim((struct pairs_field){lines[side].line, lines[side].size});
        }
        if (!found[0] || !found[1]) {
            if (check_tabs(lines, pairs->read, tabs, error)) return QKV_INVALID;
            if (!found[0] && !found[1]) return QKV_OK;
            return different_lengths(lines, found[0] ? 0 : 1, error);
        }
        pairs->read++;
        for (int side = 0; side < 2; side++) tabs[side] += strchr(lines[side].line, '\t') != NULL;
        if (qkv_pairs_add(pairs, lines[0].number, sentence, error)) return QKV_INVALID;
    }
}

static enum qkv_status read_two_files(struct qkv_pairs *pairs, struct qkv_error *error)
{
    struct qkv_lines lines[2] = {0};
    enum qkv_status status = QKV_OK;
    for (int side = 0; side < 2 && !status; side++)
        status = qkv_lines_open(&lines[side], pairs->path[side], error);
    if (!status) status = read_aligned(pairs, lines, error);
    for (int side = 0; side < 2; side++) {
        const char *code[2];
        qkv_languages_of_path(pairs->path[side], code);
        qkv_pairs_set_language(pairs, side, code[1] ? code[1] : code[0]);
        qkv_lines_close(&lines[side]);
    }
    return status;
}

/* ---- which side is which ---- */

/* Whether the languages that are asked for are those of the opposite sides, according to the names of files or columns. */
static bool is_reversed(const struct qkv_pairs *pairs, const char *const lang[2])
{
    bool reversed = false;
    for (int side = 0; side < 2; side++) {
        if (!lang[side]) continue;
        if (qkv_is_same_language(lang[side], pairs->lang[side]) ||
            !qkv_is_same_language(lang[side], pairs->lang[!side]))
            return false;
        reversed = true;
    }
    return reversed;
}

static void swap(void *a, void *b, size_t size)
{
    char kept[sizeof((struct qkv_pairs){0}.lang[0])];
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

static void swap_sides(struct qkv_pairs *pairs)
{
    swap(&pairs->column[0], &pairs->column[1], sizeof pairs->column[0]);
    swap(&pairs->path[0], &pairs->path[1], sizeof pairs->path[0]);
    swap(pairs->lang[0], pairs->lang[1], sizeof pairs->lang[0]);
    swap(&pairs->start[0], &pairs->start[1], sizeof pairs->start[0]);
    swap(&pairs->capacity[0], &pairs->capacity[1], sizeof pairs->capacity[0]);
}

/* Refuses, for a table with further columns, a language that contradicts the title of its column. A region, as in pt-BR, does
 * not. */
static enum qkv_status check_titles(const struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                    struct qkv_error *error)
{
    for (int side = 0; side < 2; side++) {
        const char *lang = request->lang[side], *title = pairs->lang[side];
        if (!lang || !pairs->has_header || pairs->columns < 3 || request->column[0] || !*title ||
            !strncmp(lang, title, strlen(title)))
            continue;
        return qkv_error_set(
            error,
            "%s: no column is titled %s: the title of column %d is that of %s; name the columns "
            "with --columns, as in --columns %d,%d",
            pairs->path[0], lang, pairs->column[side], title, pairs->column[0], pairs->column[1]);
    }
    return QKV_OK;
}

/* Sets the languages that are asked for, and swaps the sides if that is needed. */
static enum qkv_status apply_languages(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                       struct qkv_error *error)
{
    bool is_swapped = !request->column[0] && is_reversed(pairs, request->lang);
    if (is_swapped) swap_sides(pairs);
    if (check_titles(pairs, request, error)) return QKV_INVALID;
    /* Languages that are asked for, and agree with the name of the file without a swap, do not follow from the name. */
    if (!is_swapped && request->lang[0] && request->lang[1]) pairs->has_named_order = false;
    for (int side = 0; side < 2; side++) {
        const char *lang = request->lang[side];
        if (!lang) continue;
        if (strcmp(lang, pairs->lang[side]) != 0) pairs->has_named_order = false;
        snprintf(pairs->lang[side], sizeof pairs->lang[side], "%s", lang);
    }
    return QKV_OK;
}

/* ---- public functions ---- */

/* Whether a path names a table, because the file exists or the path is "-", and is not a prefix. */
static bool is_table(const char *path)
{
    struct stat status;
    return !strcmp(path, "-") || !stat(path, &status) || errno != ENOENT;
}

enum qkv_status qkv_pairs_read(struct qkv_pairs *pairs, struct qkv_pairs_request request,
                               struct qkv_error *error)
{
    *pairs = (struct qkv_pairs){0};
    enum qkv_status status;
    if (!request.target && is_table(request.path)) {
        status = read_table_file(pairs, &request, error);
    } else {
        status = find_files(&request, pairs->path, error);
        if (!status) status = read_two_files(pairs, error);
    }
    if (!status && !pairs->count)
        status = qkv_error_set(error, "%s: has %lld lines, but no pair of sentences", pairs->path[0],
                               (long long)pairs->read);
    if (!status) status = apply_languages(pairs, &request, error);
    if (status) qkv_pairs_release(pairs);
    return status;
}

const char *qkv_pairs_text(const struct qkv_pairs *pairs, int64_t i, int side)
{
    bool exists = i >= 0 && i < pairs->count && (side == 0 || side == 1);
    return exists ? pairs->text + pairs->start[side][i] : NULL;
}

void qkv_pairs_release(struct qkv_pairs *pairs)
{
    for (int side = 0; side < 2; side++) {
        free(pairs->path[side]);
        free(pairs->start[side]);
    }
    free(pairs->text);
    *pairs = (struct qkv_pairs){0};
}
