/* Private: an animated picture of still ones, as APNG (PNG specification, third edition, section 4.9): programs that know
 * PNG only show its first frame. */
#ifndef QKV_DRAW_ANIMATION_H
#define QKV_DRAW_ANIMATION_H

#include "draw/bytes.h"

struct animation_frame {
    const char *png; /* a PNG file in memory; not owned */
    size_t size;
    int milliseconds; /* that it is shown; below 65536 */
};

/* Appends a file of `count` frames, at least one, that plays for ever. All frames must be pictures of one size and colour
 * type, as one program draws them; fails when they are not. If memory runs out, it sets out->failed. */
enum qkv_status qkv_animation_write(const struct animation_frame *frames, int64_t count, struct bytes *out,
                                    struct qkv_error *error);

#endif
