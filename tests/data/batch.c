/* Batches: their contents, their order, how they are cut into shards, and that making them calls no
 * malloc. */

#include "encoded.h"
#include "tools/bench/malloc_counter.h"

/* ---- A corpus of sentences of many lengths ---- */

enum { PAIRS = 3000, LONGEST = 40 };

static struct encoded text;
static const struct qkv_corpus *const corpus = &text.corpus;

/* Some length between 1 and LONGEST - 1, short ones more often. */
static int some_length(unsigned i)
{
    unsigned mixed = (i * 2654435761u) >> 16;
    return 1 + (int)(mixed % (1 + (mixed >> 8) % (LONGEST - 1)));
}

static void setup(void)
{
    /* The tests of a suite run side by side, and each of them comes through here: a folder each,
     * gone at once. */
    const char *folder = scratch(format("data_batch.%ld", (long)getpid()));
    char *lines = remember(malloc((size_t)PAIRS * 2 * LONGEST * 6)), *end = lines;
    for (unsigned i = 0; i < PAIRS; i++) {
        for (int k = some_length(i); k; k--) end += sprintf(end, "s%u ", (i + (unsigned)k) % 97);
        *end++ = '\t';
        for (int k = some_length(i + 7 * (i % 3)); k; k--)
            end += sprintf(end, "t%u ", (i * 3 + (unsigned)k) % 89);
        *end++ = '\n';
    }
    *end = '\0';
    const struct qkv_text_config side = {.max_length = 100, .voc_min_freq = 1};
    const char *path = write_text(folder, "x.tsv", lines);
    read_encoded(&text, path, &(struct qkv_data_config){.src = side, .trg = side},
                 (struct qkv_corpus_options){0});
    cr_assert_eq(remove(path) || remove(folder), 0);
}

static void teardown(void)
{
    release_encoded(&text);
}

TestSuite(batches, .init = setup, .fini = teardown);

static struct qkv_batches plan_of(enum qkv_batch_type type, int64_t size, enum qkv_batch_order order,
                                  uint64_t seed)
{
    struct qkv_batches batches;
    struct qkv_batches_options options = {.type = type, .size = size, .order = order, .seed = seed};
    cr_assert_eq(qkv_batches_init(&batches, corpus, options, NULL), QKV_OK);
    return batches;
}

/* A row of a batch holds `first` (0: nothing), the ids of sentence `index`, and `last` (0: nothing). */
static void expect_row(const int32_t *row, int64_t length, const struct qkv_corpus_side *side, int64_t index,
                       int32_t first, int32_t last)
{
    int64_t count = side->start[index + 1] - side->start[index];
    cr_assert_eq(length, count + 1);
    if (first) cr_assert_eq(*row++, first);
    cr_assert_arr_eq(row, side->ids + side->start[index], (size_t)count * sizeof *row);
    if (last) cr_assert_eq(row[count], last);
}

/* Sentence by sentence against the corpus. */
static void expect_faithful(const struct qkv_batch *batch)
{
    const int64_t *source = batch->source_start, *target = batch->target_start;
    cr_assert(source[batch->count] == batch->source_tokens && target[batch->count] == batch->target_tokens);
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t index = batch->index[i], length = batch->target_length[i];
        cr_assert_eq(source[i + 1] - source[i], batch->source_length[i]);
        cr_assert_eq(target[i + 1] - target[i], length);
        expect_row(batch->source + source[i], batch->source_length[i], &corpus->source, index, 0, QKV_END);
        expect_row(batch->target_input + target[i], length, &corpus->target, index, QKV_BEGIN, 0);
        expect_row(batch->target_output + target[i], length, &corpus->target, index, 0, QKV_END);
    }
}

/* Every sentence once in this epoch, in batches within the bounds; leaves the order of the
 * sentences in `order`. */
static void expect_complete(struct qkv_batches *batches, int64_t *order)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    char *seen RELEASED(free_memory) = calloc(1, PAIRS);
    int64_t count = 0;
    for (int64_t i = 0; i < batches->count; i++) {
        cr_assert_eq(qkv_batches_get(batches, i, &batch, NULL), QKV_OK);
        expect_faithful(&batch);
        cr_assert_gt(batch.count, 0);
        if (batches->options.type == QKV_BATCH_SENTENCE) {
            cr_assert_leq(batch.count, batches->options.size);
        } else if (batch.count > 1) {
            cr_assert_leq(batch.source_tokens, batches->options.size);
            cr_assert_leq(batch.target_tokens, batches->options.size);
        }
        for (int64_t k = 0; k < batch.count; k++) {
            cr_assert_eq(seen[batch.index[k]]++, 0);
            if (order) order[count] = batch.index[k];
            count++;
        }
    }
    cr_assert_eq(count, PAIRS);
}

Test(batches, hold_every_sentence_once)
{
    static const int64_t sizes[] = {1, 2, 7, 64, 1000, 100000, INT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int type = QKV_BATCH_SENTENCE; type <= QKV_BATCH_TOKEN; type++)
            for (int order = QKV_BATCH_ORDER_CORPUS; order <= QKV_BATCH_ORDER_SHUFFLED; order++) {
                struct qkv_batches batches RELEASED(qkv_batches_release) =
                    plan_of((enum qkv_batch_type)type, sizes[s], (enum qkv_batch_order)order, 1);
                expect_complete(&batches, NULL);
                qkv_batches_epoch(&batches, 1);
                expect_complete(&batches, NULL);
            }
}

Test(batches, are_filled_almost_to_their_size)
{
    struct qkv_batches batches RELEASED(qkv_batches_release) =
        plan_of(QKV_BATCH_TOKEN, 1000, QKV_BATCH_ORDER_SHUFFLED, 1);
    int64_t source = corpus->source.start[PAIRS] + PAIRS, target = corpus->target.start[PAIRS] + PAIRS;
    int64_t min = (source > target ? source : target) / 1000;
    cr_assert_leq(batches.count, min * 3 / 2, "%lld batches, %lld would do", (long long)batches.count,
                  (long long)min);
    qkv_batches_release(&batches);
    batches = plan_of(QKV_BATCH_SENTENCE, 64, QKV_BATCH_ORDER_SHUFFLED, 1);
    cr_assert_eq(batches.count, (PAIRS + 63) / 64);
}

/* The order of the sentences in an epoch, to which the plan comes from epoch `before` (-1: at once, as in a resumed run). */
static int64_t *order_of(uint64_t seed, int64_t before, int64_t epoch)
{
    int64_t *order = remember(malloc(PAIRS * sizeof *order));
    struct qkv_batches batches RELEASED(qkv_batches_release) =
        plan_of(QKV_BATCH_TOKEN, 500, QKV_BATCH_ORDER_SHUFFLED, seed);
    if (before >= 0) {
        qkv_batches_epoch(&batches, before);
        expect_complete(&batches, order);
    }
    if (before >= 0 || epoch) qkv_batches_epoch(&batches, epoch);
    expect_complete(&batches, order);
    return order;
}

Test(batches, depend_only_on_seed_and_epoch)
{
    enum { BYTES = PAIRS * sizeof(int64_t) };
    int64_t *first = order_of(42, -1, 0), *second = order_of(42, 0, 1);
    cr_assert_arr_eq(first, order_of(42, 1, 0), BYTES);
    cr_assert_arr_eq(second, order_of(42, -1, 1), BYTES);
    cr_assert_arr_neq(first, second, BYTES);
    cr_assert_arr_neq(first, order_of(43, -1, 0), BYTES);
}

/* Any batch can be filled after any other, as a resumed run begins in the middle. */
Test(batches, are_the_same_in_any_order)
{
    for (int is_token = 0; is_token < 2; is_token++) {
        enum qkv_batch_type type = is_token ? QKV_BATCH_TOKEN : QKV_BATCH_SENTENCE;
        struct qkv_batches batches RELEASED(qkv_batches_release) =
            plan_of(type, is_token ? 60 : 5, QKV_BATCH_ORDER_SHUFFLED, 7),
                                   other RELEASED(qkv_batches_release) =
                                       plan_of(type, is_token ? 60 : 5, QKV_BATCH_ORDER_SHUFFLED, 7);
        struct qkv_batch batch RELEASED(qkv_batch_release) = {0}, same RELEASED(qkv_batch_release) = {0};
        int64_t step = batches.count / 3 * 2 + 1, pools = 0;
        for (int64_t i = 0, k = 0, last = -1; i < batches.count; i++, k = (k + step) % batches.count) {
            while (qkv_batches_get(&batches, k, &batch, NULL)) k = (k + 1) % batches.count;
            pools += batches.pool != last;
            last = batches.pool;
            qkv_batches_epoch(&other, 3);
            qkv_batches_epoch(&other, 0);
            cr_assert_eq(qkv_batches_get(&other, k, &same, NULL), QKV_OK);
            cr_assert_eq(same.count, batch.count);
            cr_assert_arr_eq(same.index, batch.index, (size_t)batch.count * sizeof *batch.index);
        }
        cr_expect_gt(pools, 2, "several pools were planned");
    }
}

/* Pools take memory for 64 batches, not for the corpus, and are in themselves shuffled. */
Test(batches, are_shuffled_within_pools)
{
    struct qkv_batches batches RELEASED(qkv_batches_release) =
        plan_of(QKV_BATCH_SENTENCE, 3, QKV_BATCH_ORDER_SHUFFLED, 7);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    cr_expect_eq(batches.pool_size, 64 * 3);
    int64_t rising = 0, before = 0;
    for (int64_t i = 0; i < 64; i++) {
        cr_assert_eq(qkv_batches_get(&batches, i, &batch, NULL), QKV_OK);
        rising += batch.target_length[0] >= before;
        before = batch.target_length[0];
    }
    cr_expect(rising > 16 && rising < 56, "%lld of 64 rise: not sorted by length", (long long)rising);
}

/* Mean over batches of the longest minus the shortest target. */
static double mean_length_range(struct qkv_batches batches)
{
    double sum = 0;
    struct qkv_batch batch = {0};
    for (int64_t i = 0; i < batches.count; i++) {
        cr_assert_eq(qkv_batches_get(&batches, i, &batch, NULL), QKV_OK);
        int64_t min = batch.target_length[0], max = min;
        for (int64_t k = 1; k < batch.count; k++) {
            if (batch.target_length[k] < min) min = batch.target_length[k];
            if (batch.target_length[k] > max) max = batch.target_length[k];
        }
        sum += (double)(max - min);
    }
    qkv_batch_release(&batch);
    double mean = sum / (double)batches.count;
    qkv_batches_release(&batches);
    return mean;
}

Test(batches, hold_sentences_of_similar_length)
{
    double unsorted = mean_length_range(plan_of(QKV_BATCH_SENTENCE, 16, QKV_BATCH_ORDER_CORPUS, 1));
    double pooled = mean_length_range(plan_of(QKV_BATCH_SENTENCE, 16, QKV_BATCH_ORDER_SHUFFLED, 1));
    cr_assert_lt(pooled, unsorted / 5, "%g against %g", pooled, unsorted);
}

Test(batches, of_evaluation_keep_the_order_or_sort_by_length)
{
    int64_t *order RELEASED(free_memory) = malloc(PAIRS * sizeof *order);
    struct qkv_batches batches RELEASED(qkv_batches_release) =
        plan_of(QKV_BATCH_SENTENCE, 10, QKV_BATCH_ORDER_CORPUS, 0);
    expect_complete(&batches, order);
    for (int64_t i = 0; i < PAIRS; i++) cr_assert_eq(order[i], i);
    qkv_batches_release(&batches);
    batches = plan_of(QKV_BATCH_SENTENCE, 10, QKV_BATCH_ORDER_LENGTH, 0);
    expect_complete(&batches, order);
    for (int64_t i = 1; i < PAIRS; i++) {
        int64_t a = order[i - 1], b = order[i];
        cr_assert_leq(corpus->target.start[a + 1] - corpus->target.start[a],
                      corpus->target.start[b + 1] - corpus->target.start[b]);
    }
}

Test(batches, are_filled_without_malloc)
{
    if (malloc_calls() < 0) cr_skip_test("calls of malloc cannot be counted in this build");
    for (int type = QKV_BATCH_SENTENCE; type <= QKV_BATCH_TOKEN; type++) {
        struct qkv_batches batches RELEASED(qkv_batches_release) =
            plan_of((enum qkv_batch_type)type, 50, QKV_BATCH_ORDER_SHUFFLED, 3);
        struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
        struct qkv_batch_view view;
        cr_assert_eq(qkv_batches_get(&batches, 0, &batch, NULL), QKV_OK);
        long before = malloc_calls();
        cr_assert_gt(before, 0, "malloc is not counted");
        long bad = 0;
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            qkv_batches_epoch(&batches, epoch);
            for (int64_t i = 0; i < batches.count; i++) {
                bad += qkv_batches_get(&batches, i, &batch, NULL) != QKV_OK;
                for (int64_t shard = 0; shard < 4; shard++) qkv_batch_shard(&batch, shard, 4, &view);
            }
        }
        long after = malloc_calls();
        cr_assert_eq(bad, 0);
        cr_assert_eq(after, before, "%ld calls", after - before);
    }
}

/* ---- Shards ---- */

static void expect_split(struct qkv_batch *batch, int64_t shards)
{
    int64_t next = 0, source = 0, target = 0, longest = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t tokens = batch->source_length[i] + batch->target_length[i];
        if (tokens > longest) longest = tokens;
    }
    int64_t total = batch->source_tokens + batch->target_tokens;
    for (int64_t shard = 0; shard < shards; shard++) {
        struct qkv_batch_view view;
        qkv_batch_shard(batch, shard, shards, &view);
        cr_assert_eq(view.first, next);
        const size_t bytes = (size_t)view.count * sizeof *view.index;
        if (view.count) { /* an empty view has no arrays */
            cr_assert_arr_eq(view.index, batch->index + next, bytes);
            cr_assert_arr_eq(view.source_length, batch->source_length + next, bytes);
            cr_assert_arr_eq(view.target_length, batch->target_length + next, bytes);
        }
        for (int64_t i = 0; i < view.count; i++, next++) {
            cr_assert_eq(view.source_start[i], batch->source_start[next] - source);
            cr_assert_eq(view.target_start[i], batch->target_start[next] - target);
        }
        cr_assert(!view.count || (view.source == batch->source + source &&
                                  view.target_input == batch->target_input + target &&
                                  view.target_output == batch->target_output + target));
        cr_assert_eq(view.source_tokens, batch->source_start[next] - source);
        cr_assert_eq(view.target_tokens, batch->target_start[next] - target);
        /* Both cuts lie within half a sentence of an even split. */
        cr_assert_leq(view.source_tokens + view.target_tokens, total / shards + longest + 1);
        source += view.source_tokens;
        target += view.target_tokens;
    }
    cr_assert_eq(next, batch->count);
}

Test(batches, split_into_shards_by_tokens)
{
    struct qkv_batches batches RELEASED(qkv_batches_release) =
        plan_of(QKV_BATCH_TOKEN, 600, QKV_BATCH_ORDER_CORPUS, 1);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    for (int64_t i = 0; i < batches.count; i++) {
        cr_assert_eq(qkv_batches_get(&batches, i, &batch, NULL), QKV_OK);
        for (int64_t shards = 1; shards < 9; shards++) expect_split(&batch, shards);
        expect_split(&batch, 1000);
    }
}

/* ---- Explicit sentences ---- */

Test(batch, is_made_of_given_sentences)
{
    static const int32_t a[] = {5, 6, 7}, b[] = {8};
    const struct qkv_ids source[] = {{3, a}, {0, NULL}, {1, b}}, target[] = {{1, b}, {3, a}, {0, NULL}};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    cr_assert_eq(qkv_batch_make(&batch, 3, source, target, NULL), QKV_OK);
    static const int32_t sources[] = {5, 6, 7, 2, 2, 8, 2}, inputs[] = {1, 8, 1, 5, 6, 7, 1},
                         outputs[] = {8, 2, 5, 6, 7, 2, 2};
    static const int64_t starts[] = {0, 4, 5, 7}, lengths[] = {2, 4, 1};
    cr_assert_eq(batch.source_tokens, 7);
    cr_assert_arr_eq(batch.source, sources, sizeof sources);
    cr_assert_arr_eq(batch.target_input, inputs, sizeof inputs);
    cr_assert_arr_eq(batch.target_output, outputs, sizeof outputs);
    cr_assert_arr_eq(batch.source_start, starts, sizeof starts);
    cr_assert_arr_eq(batch.target_length, lengths, sizeof lengths);
    expect_split(&batch, 2);

    cr_assert_eq(qkv_batch_make(&batch, 1, source, NULL, NULL), QKV_OK);
    cr_assert(batch.count == 1 && batch.source_tokens == 4 && batch.target_tokens == 0);
    cr_assert_eq(batch.target_length[0], 0);
    expect_split(&batch, 3);

    cr_assert_eq(qkv_batch_make(&batch, 0, NULL, NULL, NULL), QKV_OK);
    cr_assert_eq(batch.count, 0);
    expect_split(&batch, 2);
}
