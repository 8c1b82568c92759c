/* Describes a set of sentence pairs, cleans it, and splits it into training, dev and test pairs.
 *
 * Example:
 *     struct qkv_pairs pairs = {0}; // of qkv_pairs_read
 *     struct qkv_error error;
 *     const struct qkv_pairs_parts wanted = {.dev = 100, .test = 100, .seed = 42};
 *     enum qkv_pairs_part *part = malloc(((size_t)pairs.count + 1) * sizeof *part);
 *     if (part && !qkv_pairs_split(&pairs, wanted, part, &error))
 *         for (int64_t i = 0; i < pairs.count; i++)
 *             if (part[i] == QKV_PAIRS_DEV) puts(qkv_pairs_text(&pairs, i, 0));
 *     free(part);
 *     qkv_pairs_release(&pairs);
 *
 * Two sentences count as the same when they differ only in upper and lower case, punctuation and white space: a model that
 * was trained on the translation of "Go!" also knows that of "go". */
#ifndef QKV_PAIRS_SET_H
#define QKV_PAIRS_SET_H

#include "qkv/pairs_file.h"

/* Description of one side. */
struct qkv_pairs_side {
    int64_t words, longest; /* between white space: of all sentences, of the longest one */
    int64_t characters;     /* code points of all sentences */
    int64_t alphabet;       /* different code points, without white space */
    /* The script of most letters, such as "Latin"; "unknown" if qkv does not know it */
    const char *script;
    double script_share; /* of the letters, 0 .. 1 */
    bool has_spaces;     /* false: that script does not separate words */
    bool is_tokenized;   /* qkv_looks_tokenized is true of more than half of the sentences */
};

struct qkv_pairs_statistics {
    struct qkv_pairs_side side[2];
    int64_t repeated; /* pairs that are equal to an earlier one, in every character */
    int64_t shared;   /* pairs of which a sentence is also in another pair */
    int64_t copied;   /* pairs whose source and target are the same text */
    /* Pairs with a tag or an entity of HTML, such as <br> or &nbsp;; entities of a side that is tokenized do not count:
     * the tokenizer of Moses writes &apos; and the like */
    int64_t markup;
};

/* Fails when memory runs out. */
QKV_API enum qkv_status qkv_pairs_describe(const struct qkv_pairs *pairs, struct qkv_pairs_statistics *facts,
                                           struct qkv_error *error);

/* Removes tags of HTML and replaces entities, such as &nbsp; or &#39;, by their characters; entities of a side that is
 * tokenized stay, as do unknown ones. Pairs of which a side has nothing else are removed. facts: of these pairs. Returns the
 * number of pairs that had markup. */
QKV_API int64_t qkv_pairs_remove_markup(struct qkv_pairs *pairs, const struct qkv_pairs_statistics *facts);

/* Pairs that qkv_pairs_clean removed. */
struct qkv_pairs_removed {
    int64_t repeated;   /* equal to an earlier pair, in every character */
    int64_t unbalanced; /* one side is far longer than expected from the other */
};

/* Removes repeated and unbalanced pairs. With r the ratio of the characters of both sides in the whole set, a pair of a and b
 * characters is unbalanced when a r > 3 b + 10 or b > 3 a r + 10. Fails when memory runs out. */
QKV_API enum qkv_status qkv_pairs_clean(struct qkv_pairs *pairs, struct qkv_pairs_removed *removed,
                                        struct qkv_error *error);

enum qkv_pairs_part { QKV_PAIRS_TRAIN, QKV_PAIRS_DEV, QKV_PAIRS_TEST, QKV_PAIRS_PARTS };

/* The sizes of the dev and test parts that are wanted; what remains is the training part. */
struct qkv_pairs_parts {
    int64_t dev, test; /* each at least 1 */
    uint64_t seed;
};

/* Assigns each pair to a part: part [count]. Pairs are drawn at random. All pairs that share a sentence, directly or
 * through other pairs, go to the same part, so that no sentence of either side is in two parts. Such groups can make dev
 * and test smaller than wanted, but never larger. The same pairs and seed give the same parts on every machine. Fails when
 * a part would be empty, when no pairs were read, and when memory runs out. */
QKV_API enum qkv_status qkv_pairs_split(const struct qkv_pairs *pairs, struct qkv_pairs_parts wanted,
                                        enum qkv_pairs_part *part, struct qkv_error *error);

#endif
