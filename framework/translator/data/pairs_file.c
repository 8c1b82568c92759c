/* Reads sentence pairs: finds the files, reads a table or two files, and finds out which side is which. */
#include "core/file.h"
#include "core/memory.h"
#include "data/corpus.h"
#include "data/pairs.h"
#include "data/prepared.h"

#include <errno.h>
#include <glob.h>

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

enum { MAX_FILES = 16 };

/* The files of a prefix, in the order of their names. Paths live in `listing`, for globfree. */
struct files {
    const char *prefix; /* without the folder */
    size_t folder_size; /* of the part of the paths before that */
    glob_t listing;
    int count;
    struct {
        const char *path, *language; /* language: within the path */
        size_t language_size;
    } file[MAX_FILES];
};

/* Lists the files PREFIX.<language>. */
static enum qkv_status list_files(struct files *files, const struct qkv_pairs_request *request,
                                  struct qkv_error *error)
{
    const char *slash = strrchr(request->path, '/');
    files->prefix = slash ? slash + 1 : request->path;
    files->folder_size = (size_t)(files->prefix - request->path);
    char *pattern = malloc(2 * strlen(request->path) + sizeof ".*"), *to = pattern;
    if (!pattern) return qkv_no_memory(error);
    for (const char *at = request->path; *at; *to++ = *at++)
        if (strchr("*?[\\", *at)) *to++ = '\\';
    strcpy(to, ".*");
    int code = glob(pattern, GLOB_ERR, NULL, &files->listing);
    free(pattern);
    if (code && code != GLOB_NOMATCH)
        return qkv_error_set(error, "%.*s: cannot be read: %s", slash ? (int)files->folder_size : 1,
                             slash ? request->path : ".", strerror(code == GLOB_NOSPACE ? ENOMEM : errno));
    for (size_t i = 0; !code && i < files->listing.gl_pathc && files->count < MAX_FILES; i++) {
        const char *path = files->listing.gl_pathv[i], *name = path + files->folder_size;
        size_t size = language_size(name, files->prefix, request->lang), prefix_size = strlen(files->prefix);
        const char *language = name + prefix_size + 1;
        bool is_zipped_twin = files->count && size == files->file[files->count - 1].language_size &&
                              !strncmp(language, files->file[files->count - 1].language, size);
        if (!size || is_zipped_twin) continue; /* x.en is sorted before x.en.gz, which holds the same text */
        files->file[files->count].path = path;
        files->file[files->count].language = language;
        files->file[files->count++].language_size = size;
    }
    return QKV_OK;
}

/* The index of the file whose suffix is a language, or else is another name of it, as in x.eng and x.en-US for en; -1:
 * there is none. */
static int find_language(const struct files *files, const char *lang)
{
    int found = -1;
    for (int i = 0; i < files->count; i++) {
        const char *suffix = files->file[i].language;
        size_t size = files->file[i].language_size;
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

static enum qkv_status refuse_count(const struct files *files, const char *prefix, struct qkv_error *error)
{
    char list[1024] = "", table[1024];
    if (!files->count && suggest_table(prefix, table, sizeof table))
        return qkv_error_set(error, "%s: there is no such file; did you mean %s", prefix, table);
    if (!files->count)
        return qkv_error_set(
            error,
            "%s: there is no such file, and no two files %s.en and %s.es (or other languages) of which "
            "it is the common prefix",
            prefix, prefix, prefix);
    for (int i = 0; i < files->count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                 files->file[i].path + files->folder_size);
    }
    return qkv_error_set(
        error,
        files->count == 1
            ? "%s: two files must begin with this, but only %s does"
            : "%s: is the prefix of more than two files: %s; name two languages with --src and --trg",
        prefix, list);
}

/* Chooses the source and the target file. */
static enum qkv_status choose_files(const struct files *files, const struct qkv_pairs_request *request,
                                    int chosen[2], struct qkv_error *error)
{
    for (int side = 0; side < 2; side++) {
        chosen[side] = request->lang[side] ? find_language(files, request->lang[side]) : -1;
        if (request->lang[side] && chosen[side] < 0)
            return qkv_error_set(error, "%s.%s: there is no such file", request->path, request->lang[side]);
    }
    if (chosen[0] >= 0 && chosen[1] >= 0) return QKV_OK;
    if (files->count != 2) return refuse_count(files, request->path, error);
    if (chosen[0] < 0) chosen[0] = chosen[1] < 0 ? 0 : !chosen[1];
    chosen[1] = !chosen[0];
    return QKV_OK;
}

/* Finds both files: request.path and request.target, or the files prefix.<language>, plain or .gz, if request.path is a
 * prefix. Copies their paths, which the caller frees, even after a failure. */
static enum qkv_status find_files(const struct qkv_pairs_request *request, char *path[2],
                                  struct qkv_error *error)
{
    struct files files = {.prefix = NULL};
    int chosen[2] = {0, 1};
    enum qkv_status status = QKV_OK;
    if (!request->target) status = list_files(&files, request, error);
    if (!request->target && !status) status = choose_files(&files, request, chosen, error);
    for (int side = 0; side < 2 && !status; side++) {
        const char *given = side ? request->target : request->path;
        path[side] = strdup(request->target ? given : files.file[chosen[side]].path);
        if (!path[side]) status = qkv_no_memory(error);
    }
    globfree(&files.listing);
    return status;
}

/* ---- two files ---- */

/* Fails when most lines of both files have a tab: these are two tables of pairs, not two sides. */
static enum qkv_status check_tabs(const struct qkv_pairs *pairs, const int64_t tabs[2],
                                  struct qkv_error *error)
{
    if (tabs[0] * 2 <= pairs->read || tabs[1] * 2 <= pairs->read) return QKV_OK;
    const char *const *path = (const char *const *)pairs->path;
    return qkv_error_set(error,
                         "%s and %s: both have columns (tabs), so each is a table of pairs and not one side; "
                         "join them: cat %s %s >all.txt",
                         path[0], path[1], path[0], path[1]);
}

static enum qkv_status read_aligned(struct qkv_pairs *pairs, struct qkv_pair_lines *lines,
                                    struct qkv_error *error)
{
    for (int64_t tabs[2] = {0, 0};;) {
        bool found;
        struct qkv_pair_texts texts;
        enum qkv_status status = qkv_pair_lines_next(lines, &texts, &found, error);
        if (status || !found) return check_tabs(pairs, tabs, error) ? QKV_INVALID : status;
        pairs->read++;
        tabs[0] += strchr(texts.source, '\t') != NULL;
        tabs[1] += strchr(texts.target, '\t') != NULL;
        const struct pairs_field sentence[] = {
            qkv_pairs_trim((struct pairs_field){texts.source, strlen(texts.source)}),
            qkv_pairs_trim((struct pairs_field){texts.target, strlen(texts.target)})};
        if (qkv_pairs_add(pairs, lines->source.number, sentence, error)) return QKV_INVALID;
    }
}

static enum qkv_status read_two_files(struct qkv_pairs *pairs, struct qkv_error *error)
{
    struct qkv_pair_lines lines = {.is_table = false};
    enum qkv_status status = qkv_lines_open(&lines.source, pairs->path[0], error);
    if (!status) status = qkv_lines_open(&lines.target, pairs->path[1], error);
    if (!status) status = read_aligned(pairs, &lines, error);
    for (int side = 0; side < 2; side++) {
        const char *code[2];
        qkv_languages_of_path(pairs->path[side], code);
        qkv_pairs_set_language(pairs, side, code[1] ? code[1] : code[0]);
    }
    qkv_pair_lines_close(&lines);
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

static void swap_sides(struct qkv_pairs *pairs)
{
    const struct qkv_pairs old = *pairs;
    for (int side = 0; side < 2; side++) {
        pairs->column[side] = old.column[!side];
        pairs->path[side] = old.path[!side];
        pairs->start[side] = old.start[!side];
        pairs->capacity[side] = old.capacity[!side];
        strcpy(pairs->lang[side], old.lang[!side]);
    }
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
    const bool is_one_file = !request.target && is_table(request.path);
    const char *packed = is_one_file ? packed_form(request.path) : NULL;
    *pairs = (struct qkv_pairs){0};
    if (is_one_file && qkv_is_prepared(request.path)) return qkv_prepared_refuse(request.path, error);
    if (packed) return qkv_error_set(error, "%s: %s", request.path, packed);
    enum qkv_status status =
        is_one_file ? qkv_pairs_read_table(pairs, &request, error) : find_files(&request, pairs->path, error);
    if (!status && !is_one_file) status = read_two_files(pairs, error);
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
