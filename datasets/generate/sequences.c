#include "datasets/generate/sequences.h"

#include "datasets/generate/dice.h"
#include "qkv/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* A dev or test sequence that train contains is drawn again, up to so many times; the last one is kept. */
enum { MOST_ATTEMPTS = 100 };

struct generation {
    const struct sequence_request *request;
    struct qkv_types train; /* the sources of train */
    int64_t *numbers;       /* of one sequence */
    char *text;             /* of one sequence */
};

static void draw(const struct generation *generation, struct dice *dice, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        generation->numbers[i] = dice_below(dice, generation->request->symbols);
}

static void write_text(const struct generation *generation, int64_t length)
{
    char *end = generation->text;
    for (int64_t i = 0; i < length; i++)
        end += sprintf(end, i ? " %lld" : "%lld", (long long)generation->numbers[i]);
}

/* ---- tasks: each turns the numbers of a source into those of its target ---- */

static void solve_copy(int64_t count, int64_t *numbers)
{
    (void)count, (void)numbers;
}

static void solve_reverse(int64_t count, int64_t *numbers)
{
    for (int64_t i = 0; i < count / 2; i++) {
        int64_t first = numbers[i];
        numbers[i] = numbers[count - 1 - i];
        numbers[count - 1 - i] = first;
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void solve_sort(int64_t count, int64_t *numbers)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare);
}

static void (*const solve[])(int64_t count, int64_t *numbers) = {
#define SEQUENCE_TASK(name, help) solve_##name,
#include "datasets/generate/sequences.def"
#undef SEQUENCE_TASK
};

/* ---- files ---- */

static enum qkv_status write_split(struct generation *generation, enum split split, FILE *file,
                                   int64_t *repeated, struct qkv_error *error)
{
    const struct sequence_request *request = generation->request;
    int64_t longest = split == TRAIN ? request->longest : request->longest_test;
    struct dice dice = {.random = generate_random(request->request.seed, STREAM_SEQUENCE, (int)split)};
    for (int64_t line = 0; line < request->request.count[split]; line++) {
        int64_t length = request->shortest + dice_below(&dice, longest - request->shortest + 1);
        bool known = true;
        for (int attempt = 0; known && attempt < MOST_ATTEMPTS; attempt++) {
            draw(generation, &dice, length);
            write_text(generation, length);
            known = split != TRAIN && qkv_types_find(&generation->train, generation->text) >= 0;
        }
        *repeated += known;
        if (split == TRAIN && qkv_types_add(&generation->train, generation->text, 1) < 0)
            return qkv_error_set(error, "%s: out of memory", request->request.folder);
        fprintf(file, "%s\t", generation->text);
        solve[request->task](length, generation->numbers);
        write_text(generation, length);
        fprintf(file, "%s\n", generation->text);
    }
    return QKV_OK;
}

static enum qkv_status write_all(struct generation *generation, const struct dataset_files *files,
                                 int64_t repeated[SPLITS], struct qkv_error *error)
{
    const struct sequence_request *request = generation->request;
    size_t longest =
        (size_t)(request->longest > request->longest_test ? request->longest : request->longest_test);
    generation->numbers = malloc(longest * sizeof *generation->numbers);
    generation->text = malloc(longest * 21 + 1);
    if (!generation->numbers || !generation->text)
        return qkv_error_set(error, "%s: out of memory", request->request.folder);
    for (int split = 0; split < SPLITS; split++)
        if (write_split(generation, (enum split)split, files->writer[split].file, &repeated[split], error))
            return QKV_INVALID;
    return QKV_OK;
}

enum qkv_status sequences_generate(const struct sequence_request *request, int64_t repeated[SPLITS],
                                   struct qkv_error *error)
{
    static const char *const names[SPLITS] = {"train.tsv", "dev.tsv", "test.tsv"};
    struct generation generation = {.request = request};
    struct dataset_files files;
    for (int split = 0; split < SPLITS; split++) repeated[split] = 0;
    if (dataset_files_begin(&files, &request->request, names, SPLITS, error)) return QKV_INVALID;
    enum qkv_status status = write_all(&generation, &files, repeated, error);
    if (status)
        dataset_files_abandon(&files);
    else
        status = dataset_files_commit(&files, error);
    free(generation.numbers);
    free(generation.text);
    qkv_types_release(&generation.train);
    return status;
}
