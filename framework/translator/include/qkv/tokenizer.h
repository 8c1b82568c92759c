/* Text to tokens and back, by the tokenizer that the config's `level` names (qkv/tokenizers.def).
 *
 * Example:
 *     const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_WORD, .split_punctuation = true};
 *     struct qkv_tokens tokens = {0};
 *     struct qkv_error error;
 *     if (!qkv_tokenize(&tokens, &text, "I don't know.", 13, &error)) // I, don't, know, .
 *         for (int64_t i = 0; i < tokens.count; i++) puts(tokens.token[i]);
 *     qkv_tokens_release(&tokens);
 *
 * Text is UTF-8. It is first converted to normal form C, so that a composed and a decomposed accent give the same token.
 * With `lowercase`, every code point is then mapped to its simple lower case: ß stays ß, ẞ becomes ß, Σ becomes σ, also at
 * the end of a word. White space is every character with the Unicode property White_Space: tab, space, no-break space,
 * ideographic space and others.
 *
 * Level word: white space separates tokens. With `split_punctuation`, each word is split further:
 * - letters, combining marks, digits and format characters such as the zero-width non-joiner stay together;
 * - every punctuation mark or symbol is a token, together with the rest of its user-perceived character (Unicode Standard
 *   Annex 29): an emoji with its joiners and skin tone, or a flag, is one token;
 * - between two characters of a word, these marks stay inside the word, as in Annex 29 and similar to the tokenizer of
 *   Moses: apostrophes (' and ’: don't), full stops (3.14, p.m, EE.UU) and the middle dot (col·lega); between two digits
 *   also comma and colon (1,000, 10:30);
 * - a hyphen (-, U+2010, U+2011) stays with the word on its left: peut-être, Vor- und Nachteile;
 * - in languages with elision (`lang` is fr, it, ca or oc, alone or followed by - or _), a token ends after the
 *   apostrophe: l'homme is l' and homme.
 * The characters ' and ’ stay different.
 *
 * Level char: every user-perceived character is a token, so that no picture shows a combining mark without its letter.
 * White space between words is one token ▁ (U+2581); white space at the ends of the line is dropped. `split_punctuation`
 * has no effect.
 *
 * Level bpe: the tokens of level word are cut into pieces by the merges that `bpe` of the config points to;
 * without them, tokenizing fails. Every piece but the last of a word ends in @@: "low@@ er". */
#ifndef QKV_TOKENIZER_H
#define QKV_TOKENIZER_H

#include "qkv/base.h"
#include "qkv/config.h"

#include <stddef.h>
#include <stdint.h>

/* The tokens of one line; the next line reuses the memory. Caller's storage; all zero is valid and empty. */
struct qkv_tokens {
    int64_t count;
    /* [count], NUL-terminated, never empty, without white space; valid until the next line. */
    const char **token;
    /* [count]: the word that the token is part of, from 0; words are separated by white space. -1 for ▁. */
    int64_t *word;
    int64_t words; /* number of words of the line */
    /* private */
    char *text;      /* all tokens, each with its NUL; `token` points into it */
    int32_t *points; /* code points of the normalised line */
    int64_t token_capacity, word_capacity, text_capacity, text_size, points_capacity;
    struct qkv_piece *pieces;         /* of the current word */
    struct qkv_candidate *candidates; /* merges that may apply to it */
    int64_t pieces_capacity, candidates_capacity;
};

/* Splits `size` bytes of `line` into tokens; a line of white space has none. Invalid UTF-8 and NUL bytes fail with
 * `column 5: byte 0xFF is not valid UTF-8`, where columns count bytes from 1; `tokens` is then empty. */
QKV_API enum qkv_status qkv_tokenize(struct qkv_tokens *tokens, const struct qkv_text_config *text,
                                     const char *line, size_t size, struct qkv_error *error);

QKV_API void qkv_tokens_release(struct qkv_tokens *tokens);

/* Joins tokens to a line of text in `arena`; NULL when memory runs out or the level is unknown. `tokens` come from
 * qkv_tokenize or from a vocabulary.
 *
 * Level char: tokens are written without space, and ▁ as a space. Level word: a space between tokens, except with
 * `split_punctuation`:
 * - no space before . , ! ? ; : … % and closing brackets, after ¿ ¡ # and opening brackets, around / @ _ and full-width
 *   (East Asian) punctuation, between $ £ ¥ and a digit, and after an elided word (l'homme);
 * - two hyphens or plus signs in a row are one mark (a -- b, C++); ° follows its number, and C or F follows it (5°C);
 * - within each family of quotation marks (" | ' ‘ ‚ | “ ” „ | « » | ‹ ›) every second mark closes, so that „so“, »so«
 *   and ”so” are all right; ’ always closes, and so does ' after a word in s if no other ' follows (the dogs' bones);
 * - in French, a no-break space before ! ? ; : % » and after «.
 * Level bpe: pieces are first joined to words: a token that ends in @@, but is longer, is joined with the next one.
 * The result is a good guess, not an inverse: tokens do not record where the spaces were. */
QKV_API char *qkv_detokenize(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                             struct qkv_arena *arena);

/* The index of the word that each token is part of, in the line that qkv_detokenize makes, as in qkv_tokens.word: [count],
 * in the arena. NULL when qkv_detokenize returns NULL. */
QKV_API const int64_t *qkv_token_words(const struct qkv_text_config *text, int64_t count,
                                       const char *const *tokens, struct qkv_arena *arena);

#endif
