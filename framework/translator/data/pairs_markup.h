/* HTML and names of sounds in sentences, as Anki exports them. */
#ifndef QKV_DATA_PAIRS_MARKUP_H
#define QKV_DATA_PAIRS_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the tag at the beginning of a text, such as <br>, </b>, <div class="x"> or [sound:x.mp3], or, with `entities`, of the entity, such
 * as &nbsp; or &#39;. 0: the text begins with none. */
size_t qkv_markup_size(const char *text, bool entities);

#endif
