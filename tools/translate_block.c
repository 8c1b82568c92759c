#include "translate_block.h"

#include "processes/processes.h"

#include <stdlib.h>

enum qkv_status block_open(struct block *block, int64_t capacity, struct qkv_error *error)
{
    size_t lines = (size_t)capacity;
    block->capacity = capacity;
    block->line = calloc(lines, sizeof *block->line);
    block->ids = calloc(lines, sizeof *block->ids);
    block->prefix = calloc(lines, sizeof *block->prefix);
    block->number = calloc(lines, sizeof *block->number);
    block->place = calloc(lines, sizeof *block->place);
    if (block->line && block->ids && block->prefix && block->number && block->place) return QKV_OK;
    return qkv_error_set(error, "out of memory");
}

void block_close(struct block *block)
{
    qkv_arena_release(&block->arena);
    free(block->line);
    free(block->ids);
    free(block->place);
    free(block->prefix);
    free(block->number);
}

void block_add(struct block *block, const struct input_line *line)
{
    if (line->source.ids.length) {
        block->ids[block->filled] = line->source.ids;
        block->prefix[block->filled] = line->prefix.ids;
        block->number[block->filled] = line->number;
        block->place[block->filled++] = block->count;
    }
    block->line[block->count++] = *line;
}

void block_clear(struct block *block)
{
    block->count = block->filled = 0;
    qkv_arena_reset(&block->arena);
}

/* The data that is shared between processes. */
struct shared {
    struct block *block;
    bool *end;
};

static void move_ids(struct block *block, struct qkv_parcel *parcel, struct qkv_ids *ids)
{
    qkv_parcel_move(parcel, &ids->length, sizeof ids->length);
    size_t size = (size_t)ids->length * sizeof *ids->ids;
    int32_t *words = parcel->is_received ? qkv_arena_allocate(&block->arena, size) : (int32_t *)ids->ids;
    if (ids->length && !words) {
        parcel->has_failed = true;
        return;
    }
    qkv_parcel_move(parcel, words, size);
    ids->ids = words;
}

static void move(void *context, int rank, struct qkv_parcel *parcel)
{
    const struct shared *shared = context;
    struct block *block = shared->block;
    (void)rank;
    qkv_parcel_move(parcel, shared->end, sizeof *shared->end);
    qkv_parcel_move(parcel, &block->filled, sizeof block->filled);
    for (int64_t i = 0; i < block->filled && !parcel->has_failed; i++) {
        qkv_parcel_move(parcel, &block->number[i], sizeof block->number[i]);
        move_ids(block, parcel, &block->ids[i]);
        move_ids(block, parcel, &block->prefix[i]);
    }
}

enum qkv_status block_share(struct block *block, struct qkv_processes *processes, bool *end,
                            struct qkv_error *error)
{
    struct shared shared = {block, end};
    const struct qkv_parcel_contents contents = {&shared, move};
    return qkv_share(processes, &contents, error);
}
