/* qkv film: the chunks of the animated picture, and its frames. */
#include "json.h"

#include <zlib.h>

static uint32_t number_at(const char *at, int size)
{
    uint32_t value = 0;
    for (int i = 0; i < size; i++) value = value << 8 | (unsigned char)at[i];
    return value;
}

/* The pixels of one frame, compressed. */
struct pixels {
    char *bytes;
    size_t size;
    uint32_t milliseconds;
};

enum { MAX_FRAMES = 8 };

/* Reads a film by the PNG specification: lengths, CRCs, order of chunks, sequence numbers. *still becomes the image that is
 * shown by programs that do not play films. Returns the number of frames. */
static int read_film(const char *path, struct pixels *still, struct pixels frames[static MAX_FRAMES],
                     uint32_t size[static 2])
{
    size_t length, at = 8;
    char *file = read_file(path, &length);
    cr_assert_not_null(file);
    cr_assert_arr_eq(file, "\x89PNG\r\n\x1a\n", 8);
    int count = 0, announced = 0;
    uint32_t sequence = 0;
    bool ended = false;
    for (uint32_t data; at < length; at += data + 12) {
        cr_assert(!ended && at + 12 <= length);
        data = number_at(file + at, 4);
        const char *type = file + at + 4, *bytes = type + 4;
        cr_assert_leq(at + 12 + data, length);
        cr_assert_eq(number_at(bytes + data, 4), crc32(0, (const Bytef *)type, data + 4), "CRC of %.4s",
                     type);
        if (at == 8) cr_assert_arr_eq(type, "IHDR", 4);
        if (!memcmp(type, "IHDR", 4))
            memcpy(size, (uint32_t[]){number_at(bytes, 4), number_at(bytes + 4, 4)}, 8);
        if (!memcmp(type, "acTL", 4)) announced = (int)number_at(bytes, 4);
        if (!memcmp(type, "fcTL", 4)) {
            cr_assert_lt(count, MAX_FRAMES);
            cr_expect_eq(number_at(bytes, 4), sequence++);
            cr_expect_eq(number_at(bytes + 4, 4), size[0]);
            cr_expect_eq(number_at(bytes + 8, 4), size[1]);
            frames[count++] =
                (struct pixels){NULL, 0, number_at(bytes + 20, 2) * 1000 / number_at(bytes + 22, 2)};
        }
        uint32_t skipped = 0;
        if (!memcmp(type, "fdAT", 4)) {
            cr_assert_gt(count, 0);
            cr_expect_eq(number_at(bytes, 4), sequence++);
            skipped = 4;
        } else if (!memcmp(type, "IDAT", 4)) {
            cr_assert_eq(count, 0, "the default image is no frame");
        } else {
            ended = !memcmp(type, "IEND", 4);
            continue;
        }
        struct pixels *frame = count ? &frames[count - 1] : still;
        frame->bytes = realloc(frame->bytes, frame->size + data);
        memcpy(frame->bytes + frame->size, bytes + skipped, data - skipped);
        frame->size += data - skipped;
    }
    cr_expect(ended);
    cr_expect_eq(announced, count);
    return count;
}

/* The map of a snapshot for the sentence of the film. */
static const cJSON *map_of(const char *checkpoint)
{
    return json_at(
        json_by("qkv attention run 'a b c' --target 'A B C' -q --kind cross --head 1 -f json --checkpoint %s",
                checkpoint),
        "maps.0.weights");
}

/* The longer, the more the map has changed: mean total variation distance of the rows. */
static uint32_t expected_time(const char *before, const char *now)
{
    const cJSON *old = map_of(before), *new = map_of(now);
    double change = 0;
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++)
            change += fabs(json_cell(new, row, column) - json_cell(old, row, column)) / 8;
    return (uint32_t)(250 + 1750 * change);
}

Test(film, has_a_frame_for_each_snapshot)
{
    enter(tiny_task("film"));
    run_ok("qkv train c.yaml --quiet -s training.snapshots=4 && film=\"qkv film run 'a b c' --target 'A B C' "
           "--head 1\" && eval $film -o a.png && eval $film -o b.png && cmp a.png b.png");
    static const char *const snapshots[] = {"snapshot-0", "snapshot-2", "snapshot-7"};
    struct pixels still = {0}, frames[MAX_FRAMES];
    uint32_t size[2] = {0};
    int count = read_film("a.png", &still, frames, size);
    cr_assert_eq(count, 4);
    cr_assert_eq(still.size, frames[count - 1].size);
    cr_expect_arr_eq(still.bytes, frames[count - 1].bytes, still.size, "the still image is the last frame");
    Bytef *all[MAX_FRAMES];
    for (int i = 0; i < count; i++) {
        uLongf inflated = (uLongf)size[1] * (3 * size[0] + 1), expected = inflated;
        Bytef *pixels = all[i] = malloc(inflated);
        cr_expect_eq(uncompress(pixels, &inflated, (const Bytef *)frames[i].bytes, frames[i].size), Z_OK);
        cr_expect_eq(inflated, expected, "frame %d has %lu bytes", i, inflated);
        uint32_t time = i == 0 ? 250 : i == 3 ? 3000 : expected_time(snapshots[i - 1], snapshots[i]);
        cr_expect_leq(abs((int)frames[i].milliseconds - (int)time), 1, "frame %d: %u ms, not %u", i,
                      frames[i].milliseconds, time);
        /* The lower half has no title, which tells the update, but the map. */
        for (int j = 0; j < i; j++)
            cr_expect(memcmp(all[i] + expected / 2, all[j] + expected / 2, expected - expected / 2) != 0,
                      "frames %d and %d have one map", j, i);
    }
    for (int i = 0; i < count; i++) free(all[i]);
    for (int i = 0; i < count; i++) free(frames[i].bytes);
    free(still.bytes);
}

Test(film, says_what_it_wrote)
{
    enter(tiny_task("name"));
    run_ok("qkv train c.yaml --quiet -s training.snapshots=2");
    cr_expect_str_eq(run_ok("qkv film run 'a b' --target 'B A' -o a.png 2>&1"),
                     "a.png is written: browsers play it, other programs show its last frame\n");
    cr_expect_str_empty(run_ok("qkv film run 'a b' --target 'B A' -q 2>&1"));
}

Test(film, says_what_is_missing_and_writes_nothing)
{
    static const char *const cases[][2] = {
        {"run 'a b'", "qkv: run: has no snapshots of its training: train it again with them, by `qkv train "
                      "CONFIG -s training.snapshots=16 --overwrite`"},
        {"run 'a b' -o film.gif", "qkv: -o film.gif: a film is an animated PNG: name it .png"}};
    enter(tiny_run("none", 3));
    EXPECT_REFUSALS("qkv film", cases);
    cr_expect_eq(run("qkv film run -").exit_code, 2);
    cr_expect_eq(run("qkv film run 'a b' --layer 9").exit_code, 2);
    run_ok("! ls *.png");
}
