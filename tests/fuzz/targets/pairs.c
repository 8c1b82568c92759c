/* Fuzz target: sentence pairs as people have them, in a table or two files: read, described, cleaned, split. What comes out is
 * what training reads. */
#include "data/pairs.h"
#include "data/unicode.h"
#include "harness.h"

enum { TWO_FILES = 1, CLEAN = 2, COLUMNS = 4 };

/* Requires that qkv_corpus_read finds the same pairs in a file that holds them. */
static void require_readable(const struct qkv_pairs *pairs)
{
    const struct qkv_text_config words = {
        .lang = "en", .level = QKV_LEVEL_WORD, .max_length = 8, .voc_min_freq = 1};
    const struct qkv_data_config texts = {.src = words, .trg = words};
    struct qkv_corpus corpus RELEASED(qkv_corpus_release) = {0};
    struct qkv_error error;
    char *bytes RELEASED(free_memory) = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&bytes, &size);
    REQUIRE(file);
    for (int64_t i = 0; i < pairs->count; i++)
        fprintf(file, "%s\t%s\n", qkv_pairs_text(pairs, i, 0), qkv_pairs_text(pairs, i, 1));
    fclose(file);
    const char *path = write_file("train.tsv", bytes, size);
    /* A byte order mark at the start of a sentence is text there, but not at the start of a file. */
    if (!strncmp(qkv_pairs_text(pairs, 0, 0), "\xEF\xBB\xBF", 3)) return;
    REQUIRE(!qkv_corpus_read(&corpus, path, &texts, (struct qkv_corpus_options){.keep_raw = true}, &error));
    REQUIRE(corpus.count == pairs->count);
    for (int64_t i = 0; i < corpus.count; i++) {
        REQUIRE(!strcmp(qkv_corpus_source(&corpus, i), qkv_pairs_text(pairs, i, 0)));
        /* Targets are compared with translations, which are in normal form C. */
        const char *text = qkv_pairs_text(pairs, i, 1);
        char *target RELEASED(free_memory) = qkv_text_compose(text, strlen(text));
        REQUIRE(target && !strcmp(qkv_corpus_target(&corpus, i), target));
    }
}

static void require_split(const struct qkv_pairs *pairs)
{
    struct qkv_error error = {""};
    enum qkv_pairs_part *part RELEASED(free_memory) = malloc((size_t)pairs->count * sizeof *part);
    REQUIRE(part);
    if (qkv_pairs_split(pairs, (struct qkv_pairs_parts){2, 1, 7}, part, &error)) {
        require_message(&error);
        return;
    }
    int64_t count[QKV_PAIRS_PARTS] = {0};
    for (int64_t i = 0; i < pairs->count; i++) {
        count[part[i]]++;
        for (int64_t k = 0; k < i && i < 100; k++)
            for (int side = 0; side < 2; side++)
                REQUIRE(part[i] == part[k] ||
                        strcmp(qkv_pairs_text(pairs, i, side), qkv_pairs_text(pairs, k, side)) != 0);
    }
    REQUIRE(count[QKV_PAIRS_TRAIN] && count[QKV_PAIRS_DEV] <= 2 && count[QKV_PAIRS_TEST] == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size}, source = {0};
    unsigned switches = take_switches(&input);
    struct qkv_pairs_request request = {0};
    struct qkv_pairs_statistics facts;
    struct qkv_pairs_removed removed;
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = {0};
    struct qkv_error error = {""};
    if (switches & COLUMNS) {
        request.column[0] = 2;
        request.column[1] = 1;
    }
    if (switches & TWO_FILES) {
        take_part(&input, PART_END, &source);
        request.target = write_file("pairs.es", source.data, source.size);
    }
    request.path = write_file("pairs.en", input.data, input.size);
    if (qkv_pairs_read(&pairs, request, &error)) {
        require_message(&error);
        return 0;
    }
    REQUIRE(pairs.count > 0 && pairs.count <= pairs.read);
    REQUIRE(!qkv_pairs_describe(&pairs, &facts, &error));
    REQUIRE(facts.repeated < pairs.count && facts.shared >= facts.repeated);
    if (switches & CLEAN) {
        int64_t before = pairs.count;
        REQUIRE(qkv_pairs_remove_markup(&pairs, &facts) >= before - pairs.count);
        before = pairs.count;
        REQUIRE(!qkv_pairs_clean(&pairs, &removed, &error));
        REQUIRE(pairs.count + removed.repeated + removed.unbalanced == before);
    }
    if (pairs.count) {
        require_readable(&pairs);
        require_split(&pairs);
    }
    return 0;
}
