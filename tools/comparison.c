#include "comparison.h"

#include "json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* Returns the text of a file, which the caller frees; NULL with an error. */
static char *read_text(const char *path, struct qkv_error *error)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length = file ? getdelim(&text, &capacity, '\0', file) : -1;
    if (length < 0 && file && feof(file))
        qkv_error_set(error, "%s: the file is empty", path);
    else if (length < 0) /* the file cannot be read, or memory is out */
        qkv_error_set(error, "%s: %s", path, strerror(errno));
    if (file) fclose(file);
    if (length >= 0) return text;
    free(text);
    return NULL;
}

static const char *text_of(const cJSON *evaluation, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(evaluation, key));
}

double evaluation_number(const cJSON *evaluation, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(evaluation, key);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

double evaluation_alignment_error(const cJSON *evaluation)
{
    const cJSON *alignment = cJSON_GetObjectItemCaseSensitive(evaluation, "alignment"), *best;
    double least = (double)NAN;
    cJSON_ArrayForEach(best, cJSON_GetObjectItemCaseSensitive(alignment, "best"))
    {
        double error = evaluation_number(best, "aer");
        if (!(least <= error)) least = error; /* also when `least` is not a number yet */
    }
    return least;
}

static bool is_evaluation(const cJSON *file)
{
    static const char *const numbers[] = {"parameters", "sentences", "sequence_accuracy", "token_accuracy",
                                          "bleu"};
    bool good = text_of(file, "run") && text_of(file, "test");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        good = good && !isnan(evaluation_number(file, numbers[i]));
    const cJSON *class;
    cJSON_ArrayForEach(class, cJSON_GetObjectItemCaseSensitive(file, "by_length"))
    {
        good = good && evaluation_number(class, "from") >= 1 && evaluation_number(class, "to") >= 1 &&
               evaluation_number(class, "sentences") >= 1 &&
               !isnan(evaluation_number(class, "sequence_accuracy"));
    }
    return good;
}

/* The index of a run or test, which is added when it is new; -1 when the table is full. */
static int find_or_add_run(struct comparison *c, const char *name)
{
    for (int i = 0; i < c->runs; i++)
        if (!strcmp(c->run[i].name, name)) return i;
    if (c->runs == MOST_RUNS) return -1;
    c->run[c->runs].name = name;
    return c->runs++;
}

static int find_or_add_test(struct comparison *c, const char *path)
{
    for (int i = 0; i < c->tests; i++)
        if (!strcmp(c->test[i].path, path)) return i;
    if (c->tests == MOST_TESTS) return -1;
    c->test[c->tests].path = path;
    return c->tests++;
}

static void describe(struct compared_run *run, const cJSON *evaluation)
{
    double speed = evaluation_number(evaluation, "training_tokens_per_second");
    double longest = evaluation_number(evaluation, "training_max_length");
    run->parameters = evaluation_number(evaluation, "parameters");
    run->tokens_per_second = speed > 0 ? speed : 0;
    run->max_length = longest > 0 ? longest : 0;
}

enum qkv_status comparison_read(struct comparison *c, const char *path, struct qkv_error *error)
{
    char *text = read_text(path, error);
    if (!text) return QKV_INVALID;
    cJSON *file = cJSON_Parse(text);
    free(text);
    if (!is_evaluation(file)) {
        cJSON_Delete(file);
        if (json_memory_is_out()) return qkv_error_set(error, "%s: out of memory", path);
        return qkv_error_set(error, "%s: is not an evaluation; make one with `qkv evaluate --json`", path);
    }
    if (c->files == MOST_RUNS * MOST_TESTS) {
        cJSON_Delete(file);
        return qkv_error_set(error, "%s: too many evaluations; at most %d can be compared", path,
                             MOST_RUNS * MOST_TESTS);
    }
    c->file[c->files++] = file;
    int run = find_or_add_run(c, text_of(file, "run")), test = find_or_add_test(c, text_of(file, "test"));
    if (run < 0 || test < 0)
        return qkv_error_set(error,
                             "%s: too many runs or tests; at most %d runs and %d tests can be compared", path,
                             MOST_RUNS, MOST_TESTS);
    if (c->run[run].evaluation[test])
        return qkv_error_set(error, "%s: a second evaluation of run %s on %s; give the runs different names",
                             path, c->run[run].name, c->test[test].path);
    c->run[run].evaluation[test] = file;
    c->test[test].aligned = c->test[test].aligned || !isnan(evaluation_alignment_error(file));
    describe(&c->run[run], file);
    return QKV_OK;
}

void comparison_release(struct comparison *c)
{
    for (int i = 0; i < c->files; i++) cJSON_Delete(c->file[i]);
    qkv_arena_release(&c->arena);
    *c = (struct comparison){0};
}

/* ---- names of tests ---- */

/* Returns the last component of the first `length` bytes of a path, without .tsv: "b" of a/b, "c" of a/c.tsv. */
static const char *last_part(struct qkv_arena *arena, const char *path, size_t length)
{
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    char *part = qkv_arena_format(arena, "%.*s", (int)(length - begin), path + begin);
    char *dot = part ? strrchr(part, '.') : NULL;
    if (dot && dot > part && strcmp(dot, ".tsv") == 0) *dot = '\0';
    return part;
}

static bool all_differ(const struct comparison *c)
{
    for (int i = 0; i < c->tests; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(c->test[i].name, c->test[j].name)) return false;
    return true;
}

/* Uses the names of the files, or of their folders when those are equal, or else the paths. */
enum qkv_status comparison_name_tests(struct comparison *c, struct qkv_error *error)
{
    enum { BY_FILE, BY_FOLDER, BY_PATH };
    for (int choice = BY_FILE; choice <= BY_PATH; choice++) {
        for (int i = 0; i < c->tests; i++) {
            const char *path = c->test[i].path, *slash = strrchr(path, '/');
            size_t length = choice == BY_FOLDER && slash ? (size_t)(slash - path) : strlen(path);
            c->test[i].name = choice == BY_PATH ? path : last_part(&c->arena, path, length);
            if (!c->test[i].name) return qkv_error_set(error, "out of memory");
        }
        if (all_differ(c)) break;
    }
    return QKV_OK;
}

/* ---- by length ---- */

struct point {
    double length;           /* middle of a length class, in tokens */
    double right, sentences; /* number of sentences translated without mistake, and of all */
};

static int compare_lengths(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    return (x->length > y->length) - (x->length < y->length);
}

int64_t comparison_by_length(struct comparison *c, const struct compared_run *run, double **lengths,
                             double **accuracies)
{
    int64_t count = 0, kept = 0;
    const cJSON *class;
    for (int t = 0; t < c->tests; t++)
        count += cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(run->evaluation[t], "by_length"));
    struct point *points = qkv_arena_allocate(&c->arena, (size_t)(count + 1) * sizeof *points);
    *lengths = qkv_arena_allocate(&c->arena, (size_t)(count + 1) * sizeof **lengths);
    *accuracies = qkv_arena_allocate(&c->arena, (size_t)(count + 1) * sizeof **accuracies);
    if (!points || !*lengths || !*accuracies) return -1;
    count = 0;
    for (int t = 0; t < c->tests; t++) {
        cJSON_ArrayForEach(class, cJSON_GetObjectItemCaseSensitive(run->evaluation[t], "by_length"))
        {
            double sentences = evaluation_number(class, "sentences");
            points[count++] =
                (struct point){(evaluation_number(class, "from") + evaluation_number(class, "to")) / 2,
                               evaluation_number(class, "sequence_accuracy") * sentences, sentences};
        }
    }
    qsort(points, (size_t)count, sizeof *points, compare_lengths);
    for (int64_t i = 0; i < count; i++) { /* merge equal classes of different tests */
        bool same = kept && points[kept - 1].length == points[i].length;
        if (same) {
            points[kept - 1].right += points[i].right;
            points[kept - 1].sentences += points[i].sentences;
        } else {
            points[kept++] = points[i];
        }
    }
    for (int64_t i = 0; i < kept; i++) {
        (*lengths)[i] = points[i].length;
        (*accuracies)[i] = 100 * points[i].right / points[i].sentences;
    }
    return kept;
}
