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

/* Undoes the filters of the lines of an image (PNG specification, section 9), each of which begins with that of its line. */
static void unfilter(Bytef *image, const uint32_t size[static 2])
{
    const int line = (int)(3 * size[0] + 1);
    for (int y = 0; y < (int)size[1]; y++) {
        Bytef *row = image + y * line;
        for (int x = 1; x < line; x++) {
            int left = x > 3 ? row[x - 3] : 0, up = y ? row[x - line] : 0,
                corner = x > 3 && y ? row[x - 3 - line] : 0;
            int to_left = abs(up - corner), to_up = abs(left - corner),
                to_corner = abs(left + up - 2 * corner);
            int nearest = to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
            const int predicted[] = {0, left, up, (left + up) / 2, nearest};
            cr_assert_lt(row[0], 5);
            row[x] = (Bytef)(row[x] + predicted[row[0]]);
        }
        row[0] = 0;
    }
}

/* The centre of the dot on the curve, in the right half of an image. */
static void find_dot(const Bytef *image, const uint32_t size[static 2], double dot[static 2])
{
    double count = 0;
    dot[0] = dot[1] = 0;
    for (uint32_t y = 0; y < size[1]; y++)
        for (uint32_t x = size[0] / 2; x < size[0]; x++) {
            if (memcmp(image + y * (3 * size[0] + 1) + 1 + 3 * x, "\xD5\x5E\x00", 3) != 0) continue;
            dot[0] += x;
            dot[1] += y;
            count++;
        }
    cr_assert_gt(count, 50.0);
    dot[0] /= count;
    dot[1] /= count;
}

/* The mean loss at a snapshot since the last line of the log. */
static double loss_at(int update)
{
    double sum, tokens;
    char *text = run_ok("for key in loss tokens; do grep -ao '\"train.log_'$key'\":\"[^\"]*' "
                        "run/snapshot-%d.safetensors | cut -d'\"' -f4; done",
                        update);
    cr_assert_eq(sscanf(text, "%lf %lf", &sum, &tokens), 2);
    return sum / tokens;
}

Test(film, has_a_frame_for_each_snapshot)
{
    enter(tiny_task("film"));
    run_ok("qkv train c.yaml --quiet -s training.snapshots=4 && film=\"qkv film run 'a b c' --target 'A B C' "
           "--head 1\" && eval $film -o a.png && eval $film -o b.png && cmp a.png b.png");
    static const char *const snapshots[] = {"snapshot-0", "snapshot-2", "snapshot-7"};
    static const int updates[] = {0, 2, 7, 20};
    struct pixels still = {0}, frames[MAX_FRAMES];
    uint32_t size[2] = {0};
    int count = read_film("a.png", &still, frames, size);
    cr_assert_eq(count, 4);
    cr_assert_eq(still.size, frames[count - 1].size);
    cr_expect_arr_eq(still.bytes, frames[count - 1].bytes, still.size, "the still image is the last frame");
    Bytef *all[MAX_FRAMES];
    double dot[MAX_FRAMES][2];
    const uint32_t line = 3 * size[0] + 1;
    for (int i = 0; i < count; i++) {
        uLongf inflated = (uLongf)size[1] * (3 * size[0] + 1), expected = inflated;
        Bytef *pixels = all[i] = malloc(inflated);
        cr_expect_eq(uncompress(pixels, &inflated, (const Bytef *)frames[i].bytes, frames[i].size), Z_OK);
        cr_expect_eq(inflated, expected, "frame %d has %lu bytes", i, inflated);
        uint32_t time = i == 0 ? 250 : i == 3 ? 3000 : expected_time(snapshots[i - 1], snapshots[i]);
        cr_expect_leq(abs((int)frames[i].milliseconds - (int)time), 1, "frame %d: %u ms, not %u", i,
                      frames[i].milliseconds, time);
        unfilter(pixels, size);
        find_dot(pixels, size, dot[i]);
        /* The left of the lower half has no title, which tells the update, and no dot, but the map. */
        for (int j = 0; j < i; j++) {
            bool same = true;
            for (uint32_t y = size[1] / 2; y < size[1]; y++)
                same = same && !memcmp(all[i] + y * line, all[j] + y * line, line / 2);
            cr_expect(!same, "frames %d and %d have one map", j, i);
        }
    }
    /* The dot moves as update and loss do, from the loss of the first update for the random weights. */
    const double last = loss_at(updates[3]), first = loss_at(updates[1]);
    cr_expect_gt(dot[3][0] - dot[0][0], 100.0);
    cr_expect_gt(dot[3][1] - dot[1][1], 20.0);
    cr_expect_float_eq(dot[0][1], dot[1][1], 0.5);
    for (int i = 1; i < 4; i++) {
        double across = (double)updates[i] / updates[3],
               down = (loss_at(updates[i]) - first) / (last - first);
        cr_expect_float_eq(dot[i][0], dot[0][0] + across * (dot[3][0] - dot[0][0]), 1, "frame %d", i);
        cr_expect_float_eq(dot[i][1], dot[1][1] + down * (dot[3][1] - dot[1][1]), 1, "frame %d", i);
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
