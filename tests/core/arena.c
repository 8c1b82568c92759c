#define _DEFAULT_SOURCE /* mincore */
#include "support.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

static struct qkv_arena arena;

static void release(void)
{
    qkv_arena_release(&arena);
}

TestSuite(arena, .fini = release);

Test(arena, gives_aligned_memory_that_does_not_overlap)
{
    char *previous = NULL;
    for (size_t size = 0; size < 300000; size = size * 2 + 1) {
        char *memory = qkv_arena_allocate(&arena, size);
        cr_assert_not_null(memory);
        cr_assert_eq((uintptr_t)memory % 64, 0);
        cr_assert_neq(memory, previous);
        memset(memory, 0xAB, size);
        previous = memory;
    }
}

Test(arena, gives_the_same_memory_after_a_reset)
{
    char *first[2] = {NULL, NULL};
    for (int round = 0; round < 4; round++) {
        char *small = qkv_arena_allocate(&arena, 100), *large = qkv_arena_allocate(&arena, 1 << 20);
        cr_assert_geq(arena.peak, (1u << 20) + 100u);
        memset(small, round, 100);
        memset(large, round, 1 << 20);
        if (round == 1)
            first[0] = small, first[1] = large; /* the first reset joins the chunks of the first round */
        if (round > 1) cr_assert(small == first[0] && large == first[1]);
        qkv_arena_reset(&arena);
        cr_assert_eq(arena.used, 0);
    }
}

Test(arena, refuses_sizes_that_cannot_be)
{
    cr_assert_null(qkv_arena_allocate(&arena, SIZE_MAX));
    cr_assert_null(qkv_arena_allocate(&arena, SIZE_MAX / 2 + 1));
}

Test(arena, formats_text)
{
    cr_assert_str_eq(qkv_arena_format(&arena, "%s.%d", "layer", 7), "layer.7");
    cr_assert_str_eq(qkv_arena_string(&arena, "query"), "query");
}

Test(arena, blocks_are_aligned_to_vectors_and_large_ones_to_large_pages)
{
    static const struct {
        size_t size, used, alignment;
    } CASES[] = {{1, 1, 64},
                 {100, 100, 64},
                 {1 << 20, 1 << 19, 64},
                 {4 << 20, 4 << 20, 2 << 20},
                 {(5 << 20) + 3, (5 << 20) + 3, 2 << 20},
                 {8 << 20, 3 << 20, 2 << 20},
                 {8 << 20, 0, 64}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char *block = qkv_block_new(CASES[i].size, CASES[i].used);
        cr_assert_not_null(block);
        cr_expect_eq((uintptr_t)block % CASES[i].alignment, 0, "%zu bytes at %p", CASES[i].size,
                     (void *)block);
        memset(block, 1, CASES[i].size);
        qkv_block_free(block, CASES[i].size);
    }
    qkv_block_free(NULL, 100);
    qkv_block_free(NULL, 4 << 20);
    cr_expect_null(qkv_block_new(SIZE_MAX - 1, 1));
    cr_expect_null(qkv_block_new(SIZE_MAX / 4, 1));
}

static long resident_pages(void)
{
    long all = 0, resident = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &resident) != 2) resident = -1;
    if (file) fclose(file);
    return resident;
}

static bool is_there(void *block, size_t size)
{
    unsigned char pages[4096];
    return !mincore(block, size, pages) || errno != ENOMEM;
}

/* Though one that was made after them stays. */
Test(arena, blocks_go_back_to_the_system)
{
    enum { BLOCKS = 8, BYTES = 4 << 20 };
    char *block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = qkv_block_new(BYTES, BYTES);
        memset(block[i], 1, BYTES);
    }
    for (int i = 0; i < BLOCKS - 1; i++) {
        cr_expect(is_there(block[i], BYTES));
        qkv_block_free(block[i], BYTES);
        cr_expect_not(is_there(block[i], BYTES), "block %d", i);
    }
    qkv_block_free(block[BLOCKS - 1], BYTES);
}

/* As when the largest batch is laid out before the first step: arrays of 3 MB that nobody writes, and a
 * little that is written between them. */
Test(arena, what_is_only_laid_out_takes_no_memory)
{
    enum { ARRAYS = 60, BYTES = 3 << 20 };
    long before = resident_pages();
    if (before < 0) cr_skip("there is no /proc/self/statm");
    for (int i = 0; i < ARRAYS; i++) {
        char *written = qkv_arena_allocate(&arena, 500);
        cr_assert_not_null(written);
        memset(written, 1, 500);
        cr_assert_not_null(qkv_arena_allocate(&arena, BYTES));
    }
    long taken = (resident_pages() - before) * sysconf(_SC_PAGESIZE);
    cr_expect_lt(taken, 8l << 20, "%ld of %d bytes", taken, ARRAYS * BYTES);
}

/* ---- guards ---- */

Test(arena, guarded_memory_can_be_used_up_to_its_end)
{
    char *before = qkv_arena_allocate(&arena, 100);
    qkv_arena_guard(true);
    cr_expect(qkv_arena_is_guarded());
    for (size_t size = 0; size < 20000; size = 2 * size + 1) {
        char *memory = qkv_arena_allocate(&arena, size);
        cr_assert_not_null(memory);
        for (size_t i = 0; i < size; i++) cr_assert_eq((unsigned char)memory[i], 0xFF);
        memset(memory, 1, size);
        char *zeroed = qkv_arena_zeroed(&arena, size);
        for (size_t i = 0; i < size; i++) cr_assert_eq(zeroed[i], 0);
    }
    cr_expect_str_eq(qkv_arena_format(&arena, "%d", 12345), "12345");
    memset(before, 1, 100);
    size_t peak = arena.peak;
    qkv_arena_reset(&arena);
    cr_expect_eq(arena.used, 0);
    cr_expect_eq(arena.peak, peak);
    memset(qkv_arena_allocate(&arena, 70), 1, 70);
    qkv_arena_guard(false);
    memset(qkv_arena_allocate(&arena, 100000), 1, 100000);
    qkv_arena_reset(&arena);
    memset(qkv_arena_allocate(&arena, 100000), 1, 100000);
    cr_expect_null(qkv_arena_string(&arena, NULL));
    const char *volatile no_format = NULL; /* of which the compiler must not know */
    cr_expect_null(qkv_arena_format(&arena, no_format, 0));
}

static volatile char seen; /* valgrind leaves out reads of what nobody uses */

Test(arena, a_read_behind_guarded_memory_ends_the_program, .signal = SIGSEGV)
{
    signal(SIGSEGV, SIG_DFL); /* sanitizers would report the crash as their own finding */
    qkv_arena_guard(true);
    volatile const char *memory = qkv_arena_zeroed(&arena, 13);
    cr_assert_eq(memory[12], 0);
    seen = memory[13];
}

Test(arena, guarded_memory_is_gone_after_a_reset, .signal = SIGSEGV)
{
    signal(SIGSEGV, SIG_DFL); /* sanitizers would report the crash as their own finding */
    qkv_arena_guard(true);
    volatile const char *memory = qkv_arena_zeroed(&arena, 13);
    qkv_arena_reset(&arena);
    seen = memory[0];
}
