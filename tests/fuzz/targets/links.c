/* Fuzz target: gold links in any format, which are also counted against a small map. */
#include "harness.h"

#include "metrics/alignment.h"
#include "metrics/links.h"

enum { WORDS = 8 };

static bool is_inside(const struct qkv_alignment *gold)
{
    for (int64_t i = 0; i < gold->count; i++)
        if (gold->links[i].source >= WORDS || gold->links[i].target >= WORDS) return false;
    return true;
}

static void check(const struct qkv_alignment *gold)
{
    double weights[WORDS * WORDS];
    struct qkv_word_map map = {weights, WORDS, WORDS};
    struct qkv_alignment_result result = {0};
    struct qkv_alignment drawn;
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_error error;
    for (int i = 0; i < WORDS * WORDS; i++) weights[i] = (double)(i * 7 % 11);
    for (int64_t i = 0; i < gold->count; i++) {
        const struct qkv_alignment_link *link = &gold->links[i];
        REQUIRE(link->source >= 0 && link->target >= 0 && link->column >= 1);
    }
    if (!is_inside(gold)) return; /* callers refuse such links with the lengths of the sentences */
    for (enum qkv_alignment_drawing drawing = 0; drawing < QKV_DRAWINGS; drawing++) {
        REQUIRE(!qkv_alignment_draw(&map, NULL, drawing, 0, &arena, &drawn, &error));
        result = (struct qkv_alignment_result){0};
        qkv_alignment_count(&result, &drawn, gold);
        REQUIRE(result.found_sure <= result.sure && result.sure <= gold->count);
        REQUIRE(result.found_sure <= result.found_possible && result.found_possible <= result.links);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_alignments alignments RELEASED(qkv_alignments_release) = {0};
    struct qkv_error error = {""};
    if (qkv_alignments_read(&alignments, write_file("links", data, size), QKV_LINKS_FROM_0, NULL, 0,
                            &error)) {
        require_message(&error);
        return 0;
    }
    /* A .wa file of one line may have a million pairs without links, which are all alike: one is enough. */
    bool has_empty = false;
    for (int64_t i = 0; i < alignments.count; i++) {
        const struct qkv_alignment *gold = &alignments.sentences[i];
        if (gold->count || !has_empty) check(gold);
        has_empty = has_empty || !gold->count;
    }
    return 0;
}
