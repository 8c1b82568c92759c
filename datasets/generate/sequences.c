#include "datasets/generate/sequences.h"
#include "core/memory.h"
#include "core/text.h"

/* A sequence that another split must not share is drawn again, up to so many times; the last one is kept. */
enum { MAX_ATTEMPTS = 100 };

static void write_text(const struct sequences *sequences, int64_t length, char *text)
{
    for (int64_t i = 0; i < length; i++)
        text += sprintf(text, i ? " %lld" : "%lld", (long long)sequences->elements[i].number);
}

/* "0-3 1-2": where each number of the source stands in the target. The elements are those of the target. */
static void write_links(const struct sequences *sequences, int64_t length, char *text)
{
    *text = '\0';
    for (int64_t i = 0; i < length; i++)
        text += sprintf(text, i ? " %lld-%lld" : "%lld-%lld", (long long)sequences->elements[i].place,
                        (long long)i);
}

/* ---- tasks ---- */

/* Equal numbers keep their order. */
static int compare(const void *a, const void *b)
{
    const struct sequence_element *x = a, *y = b;
    if (x->number != y->number) return x->number > y->number ? 1 : -1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Brings the numbers of a source into the order of its target, which only two tasks change. */
static void solve(enum sequence_task task, int64_t count, struct sequence_element *elements)
{
    if (task == SEQUENCE_TASK_sort) qsort(elements, (size_t)count, sizeof *elements, compare);
    for (int64_t i = 0; task == SEQUENCE_TASK_reverse && i < count / 2; i++) {
        struct sequence_element first = elements[i];
        elements[i] = elements[count - 1 - i];
        elements[count - 1 - i] = first;
    }
}

/* ---- lines ---- */

enum qkv_status sequences_begin(struct sequences *sequences, const struct sequence_request *request,
                                struct qkv_error *error)
{
    enum { LONGEST_NUMBER = 21, LONGEST_LINK = 42 }; /* characters, with a space */
    size_t longest =
        (size_t)(request->longest > request->longest_test ? request->longest : request->longest_test);
    *sequences = (struct sequences){
        .request = request,
        .elements = malloc(longest * sizeof *sequences->elements),
        .source = malloc(longest * LONGEST_NUMBER + 1),
        .target = malloc(longest * LONGEST_NUMBER + 1),
        .links = malloc(longest * LONGEST_LINK + 1),
    };
    if (sequences->elements && sequences->source && sequences->target && sequences->links) return QKV_OK;
    sequences_release(sequences);
    return qkv_no_memory(error);
}

struct dice sequences_dice(const struct sequences *sequences, enum split split)
{
    return (struct dice){.random =
                             generate_random(sequences->request->request.seed, STREAM_SEQUENCE, (int)split)};
}

enum qkv_status sequences_next(struct sequences *sequences, enum split split, struct dice *dice, bool *known,
                               struct qkv_error *error)
{
    const struct sequence_request *request = sequences->request;
    bool repeats = request->task == SEQUENCE_TASK_induction;
    int64_t longest = split == TRAIN ? request->longest : request->longest_test;
    bool is_first = (split == TRAIN) != request->request.stream; /* later splits leave out its sources */
    int64_t length = request->shortest + dice_below(dice, longest - request->shortest + 1);
    int64_t again = repeats ? 2 + dice_below(dice, length / 2 - 1) : length;
    int64_t drawn = repeats ? length - again : length;
    *known = true;
    for (int attempt = 0; *known && attempt < MAX_ATTEMPTS; attempt++) {
        for (int64_t i = 0; i < drawn; i++)
            sequences->elements[i] = (struct sequence_element){dice_below(dice, request->symbols), i};
        write_text(sequences, drawn, sequences->source);
        *known = !is_first && qkv_types_find(&sequences->drawn, sequences->source) >= 0;
    }
    if (is_first && qkv_types_add(&sequences->drawn, sequences->source, 1) < 0) return qkv_no_memory(error);
    solve(request->task, drawn, sequences->elements);
    write_text(sequences, again, sequences->target);
    write_links(sequences, again, sequences->links);
    return QKV_OK;
}

void sequences_release(struct sequences *sequences)
{
    free(sequences->elements);
    free(sequences->source);
    free(sequences->target);
    free(sequences->links);
    qkv_types_release(&sequences->drawn);
    *sequences = (struct sequences){0};
}

/* ---- files ---- */

/* The files of a data set; train has no links. */
enum { DEV_LINKS = SPLITS, TEST_LINKS, FILES };

static const char *const NAMES[FILES] = {"train.tsv", "dev.tsv", "test.tsv", "dev.align", "test.align"},
                         *const TEXTS[SPLITS] = {"train.txt", "dev.txt", "test.txt"};

static enum qkv_status write_split(struct sequences *sequences, enum split split,
                                   const struct dataset_files *files, int64_t *repeated,
                                   struct qkv_error *error)
{
    const struct qkv_file_writer *writer = &files->writer[split];
    bool is_text = sequences->request->task == SEQUENCE_TASK_induction;
    const struct qkv_file_writer *links =
        split == TRAIN || is_text ? NULL : &files->writer[split == DEV ? DEV_LINKS : TEST_LINKS];
    const struct dataset_request *request = &sequences->request->request;
    struct dice dice = sequences_dice(sequences, split);
    struct qkv_error inner;
    for (int64_t line = 0; line < request->count[split]; line++) {
        bool known;
        if (sequences_next(sequences, split, &dice, &known, &inner))
            return qkv_error_set(error, "%s: %s", request->folder, inner.message);
        *repeated += known;
        fprintf(writer->file, is_text ? "%s %s\n" : "%s\t%s\n", sequences->source, sequences->target);
        if (links) fprintf(links->file, "%s\n", sequences->links);
        if (dataset_line_check(writer, error) || (links && dataset_line_check(links, error)))
            return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status write_all(const struct sequence_request *request, const struct dataset_files *files,
                                 int64_t repeated[SPLITS], struct qkv_error *error)
{
    static const enum split orders[2][SPLITS] = {{TRAIN, DEV, TEST}, {DEV, TEST, TRAIN}};
    const enum split *order = orders[request->request.stream];
    struct sequences sequences;
    struct qkv_error inner;
    if (sequences_begin(&sequences, request, &inner))
        return qkv_error_set(error, "%s: %s", request->request.folder, inner.message);
    enum qkv_status status = QKV_OK;
    for (int i = 0; !status && i < SPLITS; i++)
        status = write_split(&sequences, order[i], files, &repeated[order[i]], error);
    sequences_release(&sequences);
    return status;
}

enum qkv_status sequences_generate(const struct sequence_request *request, int64_t repeated[SPLITS],
                                   struct qkv_error *error)
{
    struct dataset_files files;
    bool is_text = request->task == SEQUENCE_TASK_induction;
    for (int split = 0; split < SPLITS; split++) repeated[split] = 0;
    if (dataset_files_begin(&files, &request->request, is_text ? TEXTS : NAMES, is_text ? SPLITS : FILES,
                            error))
        return QKV_INVALID;
    return dataset_files_end(&files, write_all(request, &files, repeated, error), error);
}
