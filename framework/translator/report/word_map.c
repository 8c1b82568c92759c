/* Word maps from cross attention. */
#include "report/word_map.h"

/* Counts the words of `tokens` tokens. Returns -1, with an error, if the word of a token is out of range: there are at most as
 * many words as tokens. word NULL: each token is a word. */
static int64_t count_words(const int64_t *word, int64_t tokens, const char *side, struct qkv_error *error)
{
    int64_t words = word ? 0 : tokens;
    for (int64_t i = 0; word && i < tokens; i++) {
        if (word[i] < -1 || word[i] >= tokens) {
            qkv_error_set(error, "%s token %lld belongs to word %lld, but words are 0 to %lld, or -1: none",
                          side, (long long)i, (long long)word[i], (long long)tokens - 1);
            return -1;
        }
        if (word[i] >= words) words = word[i] + 1;
    }
    return words;
}

/* Sets the word of each of `count` rows or columns: row i belongs to token i - shift. False when memory runs out. */
static bool label(const int64_t *word, int64_t tokens, int64_t words, int64_t count, int64_t shift,
                  struct qkv_arena *arena, struct word_labels *labels)
{
    int64_t *label_of = qkv_arena_allocate(arena, (size_t)count * sizeof *label_of);
    if (!label_of) return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t token = i - shift;
        bool inside = token >= 0 && token < tokens;
        label_of[i] = !inside ? -1 : word ? word[token] : token;
    }
    *labels = (struct word_labels){label_of, count, words};
    return true;
}

enum qkv_status qkv_alignment_labels(const struct qkv_attention_report *report,
                                     struct qkv_attention_words words, struct qkv_arena *arena,
                                     struct alignment_labels *labels, struct qkv_error *error)
{
    int64_t columns = report->source_length, rows = report->target_length;
    int64_t source_tokens = qkv_tokens_without_end(report->source, columns),
            target_tokens = qkv_tokens_without_end(report->target_output, rows);
    int64_t sources = count_words(words.source, source_tokens, "source", error);
    int64_t targets = sources < 0 ? -1 : count_words(words.target, target_tokens, "target", error);
    if (targets < 0) return QKV_INVALID;
    labels->words = (struct qkv_word_counts){sources, targets};
    /* Step t predicts token t, and reads token t - 1. */
    if (label(words.source, source_tokens, sources, columns, 0, arena, &labels->columns) &&
        label(words.target, target_tokens, targets, rows, 0, arena, &labels->rows[QKV_READING_PREDICTED]) &&
        label(words.target, target_tokens, targets, rows, 1, arena, &labels->rows[QKV_READING_READ]))
        return QKV_OK;
    return qkv_error_set(error, "out of memory for word alignment");
}

bool qkv_word_map_make(const struct qkv_attention_map *map, const struct alignment_labels *labels,
                       enum qkv_alignment_reading reading, struct qkv_arena *arena,
                       struct qkv_word_map *words)
{
    *words = (struct qkv_word_map){.targets = labels->words.target, .sources = labels->words.source};
    words->weights =
        qkv_arena_allocate(arena, (size_t)(words->targets * words->sources) * sizeof *words->weights);
    if (!words->weights) return false;
    qkv_merge_weights(map->weights, &labels->rows[reading], &labels->columns, words->weights);
    return true;
}
