/* From a line of text to tokens and back, Unicode-correct through utf8proc.
 *
 * All text is UTF-8. Before it is cut it is brought to normal form C, so that a composed and a decomposed
 * accent give the same token; with `lowercase` every code point is then mapped to its simple lower case (ß
 * stays ß, ẞ becomes ß, Σ becomes σ also at the end of a word). White space is what has the Unicode property
 * White_Space: tab, space, no-break space, narrow no-break space, ideographic space and so on, all alike.
 *
 * Level word: tokens stand between white space. With `split_punctuation` each of them is cut further:
 * - letters, marks, digits (and format characters such as the zero-width non-joiner) stay together;
 * - every punctuation mark or symbol is a token of its own, together with what belongs to the same
 *   user-perceived character (Unicode Standard Annex 29): an emoji with its joiners and skin tone, or a
 *   flag, is one token;
 * - but between two characters of a word these stay inside, as in Annex 29 and much as in the tokenizer of
 *   Moses: apostrophes (' and ’: don't), full stops (3.14, p.m, EE.UU) and the middle dot (col·lega);
 *   between two digits also , and : (1,000, 10:30);
 * - and a hyphen (-, U+2010, U+2011) stays with the word on its left: peut-être, Vor- und Nachteile;
 * - in the languages that elide (`lang` is fr, it, ca or oc, or one of these followed by - or _), the word
 *   ends behind the apostrophe: l'homme is "l'" and "homme".
 * The marks ' and ’ are not unified: they are different characters.
 *
 * Level char: every user-perceived character (Annex 29 again) is a token, so that no picture shows a mark
 * without its letter; a run of white space between words is one token "▁" (U+2581). White space at the ends
 * is dropped. `split_punctuation` has no effect. */
#ifndef QKV_TOKENIZER_H
#define QKV_TOKENIZER_H

#include "qkv/arena.h"
#include "qkv/config.h"
#include "qkv/error.h"

#include <stddef.h>
#include <stdint.h>

/* The tokens of one line, in storage that the next line reuses. All zero is valid and empty. */
struct qkv_tokens {
    int64_t count;
    /* [count], NUL-terminated, never empty, without white space; valid until the next line. */
    const char **token;
    /* [count]: which of the pieces between white space the token is from, counted from 0; -1 for ▁, which is
     * from none. */
    int64_t *word;
    int64_t words; /* pieces between white space */
    /* private */
    char *text;
    int32_t *points;
    int64_t token_capacity, word_capacity, text_capacity, text_size, points_capacity;
};

/* Cuts `size` bytes of `line` into tokens; a line of white space gives none. Fails with
 * `column 5: byte 0xFF is not valid UTF-8` (or a NUL byte), columns counted in bytes from 1; `tokens` is then
 * empty. */
QKV_API enum qkv_status qkv_tokenize(struct qkv_tokens *tokens, const struct qkv_text_config *text,
                                     const char *line, size_t size, struct qkv_error *error);

QKV_API void qkv_tokens_release(struct qkv_tokens *tokens);

/* Joins tokens to a line of text in `arena`; NULL when there is no memory.
 *
 * Level char: one behind the other, "▁" as a space. Level word: with a space between, except, with
 * `split_punctuation`:
 * - none before . , ! ? ; : … % and closing brackets, none behind ¿ ¡ # and opening brackets, none around / @
 * _ and around full-width (East Asian) marks, none between $ £ ¥ and a digit, none behind an elided word
 * (l'homme);
 * - quotation marks open and close in turn within their family (" | ' ‘ ‚ | “ ” „ | « » | ‹ ›), so that „so“,
 * »so« and ”so” all come out right; ’ always closes;
 * - in French a no-break space before ! ? ; : % » and behind «.
 * Punctuation says nothing certain about the spaces that were around it: this is a good guess, not an
 * inverse. */
QKV_API char *qkv_detokenize(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                             struct qkv_arena *arena);

#endif
