/* Private: makes an animated PNG from still pictures (PNG specification, third edition, section 4.9). Programs that do not know
 * APNG show its last frame. */
#ifndef QKV_DRAW_ANIMATION_H
#define QKV_DRAW_ANIMATION_H

#include "draw/bytes.h"

struct animation_frame {
    const char *png; /* a PNG file in memory; not owned */
    size_t size;
    int milliseconds; /* how long it is shown; below 65536 */
};

/* Appends a file of `count` frames, at least one, that plays in a loop. Fails unless all frames are pictures of the same size
 * and colour type, as they are when the same program draws them. If memory runs out, it sets out->failed. */
enum qkv_status qkv_animation_write(const struct animation_frame *frames, int64_t count, struct bytes *out,
                                    struct qkv_error *error);

#endif
