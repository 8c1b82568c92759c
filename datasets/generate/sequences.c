#include "datasets/generate/sequences.h"

#include "datasets/generate/draw.h"
#include "datasets/generate/set.h"

#include <stdlib.h>
#include <string.h>

/* How often a dev or test sequence that train has is drawn again before it is taken as it is. */
enum { MOST_ATTEMPTS = 100 };

/* One run of the generator. */
struct run {
    const struct sequence_request *request;
    struct qkv_arena arena;
    struct text_set train; /* its sources */
    int64_t *numbers;      /* room for one sequence */
    char *text;            /* ... and for its text */
};

static void draw(const struct run *run, struct dice *dice, int64_t length)
{
    for (int64_t i = 0; i < length; i++) run->numbers[i] = dice_below(dice, run->request->symbols);
}

static void write_text(const struct run *run, int64_t length)
{
    char *end = run->text;
    for (int64_t i = 0; i < length; i++)
        end += sprintf(end, i ? " %lld" : "%lld", (long long)run->numbers[i]);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Turns the source into the target. */
static void solve(const struct run *run, int64_t length)
{
    int64_t *numbers = run->numbers;
    if (run->request->task == SEQUENCE_SORT) qsort(numbers, (size_t)length, sizeof *numbers, compare);
    if (run->request->task != SEQUENCE_REVERSE) return;
    for (int64_t i = 0; i < length / 2; i++) {
        int64_t kept = numbers[i];
        numbers[i] = numbers[length - 1 - i];
        numbers[length - 1 - i] = kept;
    }
}

static bool remember(struct run *run)
{
    char *copy = qkv_arena_string(&run->arena, run->text);
    return copy && text_set_add(&run->train, copy);
}

static enum qkv_status write_split(struct run *run, enum split split, FILE *file, int64_t *repeated,
                                   struct qkv_error *error)
{
    const struct sequence_request *request = run->request;
    int64_t longest = split == TRAIN ? request->longest : request->longest_test;
    struct dice dice = {.random = generate_random(request->request.seed, STREAM_SEQUENCE, (int)split)};
    for (int64_t line = 0; line < request->request.count[split]; line++) {
        int64_t length = request->shortest + dice_below(&dice, longest - request->shortest + 1);
        bool known = true;
        for (int attempt = 0; known && attempt < MOST_ATTEMPTS; attempt++) {
            draw(run, &dice, length);
            write_text(run, length);
            known = split != TRAIN && text_set_has(&run->train, run->text);
        }
        *repeated += known;
        if (split == TRAIN && !remember(run))
            return qkv_error_set(error, "%s: out of memory", request->request.folder);
        fprintf(file, "%s\t", run->text);
        solve(run, length);
        write_text(run, length);
        fprintf(file, "%s\n", run->text);
    }
    return QKV_OK;
}

static enum qkv_status write_all(struct run *run, const struct output *output, int64_t repeated[SPLITS],
                                 struct qkv_error *error)
{
    const struct sequence_request *request = run->request;
    size_t longest =
        (size_t)(request->longest > request->longest_test ? request->longest : request->longest_test);
    run->numbers = malloc(longest * sizeof *run->numbers);
    run->text = malloc(longest * 21 + 1);
    if (!run->numbers || !run->text)
        return qkv_error_set(error, "%s: out of memory", request->request.folder);
    for (int split = 0; split < SPLITS; split++)
        if (write_split(run, (enum split)split, output->writer[split].file, &repeated[split], error))
            return QKV_INVALID;
    return QKV_OK;
}

enum qkv_status sequences_generate(const struct sequence_request *request, int64_t repeated[SPLITS],
                                   struct qkv_error *error)
{
    static const char *const names[SPLITS] = {"train.tsv", "dev.tsv", "test.tsv"};
    struct run run = {.request = request};
    struct output output;
    for (int split = 0; split < SPLITS; split++) repeated[split] = 0;
    if (output_begin(&output, &request->request, names, SPLITS, error)) return QKV_INVALID;
    enum qkv_status status = write_all(&run, &output, repeated, error);
    if (status)
        output_abandon(&output);
    else
        status = output_commit(&output, error);
    free(run.numbers);
    free(run.text);
    text_set_release(&run.train);
    qkv_arena_release(&run.arena);
    return status;
}
