/* HTML in sentences, as Anki exports it. */
#ifndef QKV_DATA_PAIRS_MARKUP_H
#define QKV_DATA_PAIRS_MARKUP_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the tag at the beginning of a text, such as <br>, </b> or <div class="x">, or, with `entities`, of the entity, such
 * as &nbsp; or &#39;. 0: the text begins with neither. */
size_t qkv_markup_size(const char *text, bool entities);

#endif
