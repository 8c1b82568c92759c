/* The merges of a training text: learned from it, or read from codes files. */
#include "core/file.h"
#include "data/prepared.h"
#include "qkv/corpus.h"

#include <string.h>

static bool learns(const struct qkv_text_config *text)
{
    return text->level == QKV_LEVEL_BPE && !*text->bpe_codes;
}

static void set_level_word(struct qkv_text_config *text)
{
    if (text->level == QKV_LEVEL_BPE) text->level = QKV_LEVEL_WORD;
}

/* Refuses a text that can be read only once. */
static enum qkv_status check_is_file(const char *path, struct qkv_error *error)
{
    if (strcmp(path, "-") != 0 && !qkv_is_open_file(path)) return QKV_OK;
    return qkv_error_set(error,
                         "%s: level bpe reads the training text twice, once to learn merges: give a file, or "
                         "merges in data.src.bpe_codes and data.trg.bpe_codes, without bpe_min_freq",
                         path);
}

/* Counts the words of a text. The caller releases the corpus. */
static enum qkv_status count_words(struct qkv_corpus *corpus, const char *path,
                                   const struct qkv_data_config *data, struct qkv_corpus_options options,
                                   struct qkv_error *error)
{
    struct qkv_data_config words = *data;
    set_level_word(&words.src);
    set_level_word(&words.trg);
    options.types_only = true;
    if (check_is_file(path, error)) return QKV_INVALID;
    return qkv_corpus_read(corpus, path, &words, options, error);
}

/* Learns the merges of one side; of both sides together when `other` is not NULL. */
static enum qkv_status learn(struct qkv_bpe **bpe, const struct qkv_types *words,
                             const struct qkv_types *other, int64_t merges, const char *key,
                             struct qkv_error *error)
{
    struct qkv_error inner = {""};
    const struct qkv_types *const texts[2] = {words, other};
    *bpe = qkv_bpe_learn(other ? 2 : 1, texts, merges, &inner);
    return *bpe ? QKV_OK : qkv_error_set(error, "%s: %s", key, inner.message);
}

/* Cuts the text with all merges, then keeps on each side only the pieces that occur at least bpe_min_freq times. */
static enum qkv_status keep_frequent(const char *path, const struct qkv_data_config *data,
                                     struct qkv_bpe *bpe[2], struct qkv_corpus_options options,
                                     struct qkv_error *error)
{
    static const char *const keys[2] = {"data.src.bpe_min_freq", "data.trg.bpe_min_freq"};
    const struct qkv_text_config *texts[2] = {&data->src, &data->trg};
    struct qkv_corpus corpus = {0};
    struct qkv_error inner = {""};
    options.drop_long = options.bpe_dropout = false;
    options.types_only = true;
    enum qkv_status status = check_is_file(path, error);
    if (!status) status = qkv_corpus_read(&corpus, path, data, options, error);
    const struct qkv_types *pieces[2] = {&corpus.source.types, &corpus.target.types};
    for (int side = 0; side < 2 && !status; side++)
        if (bpe[side] && texts[side]->bpe_min_freq > 0 &&
            qkv_bpe_restrict(bpe[side], pieces[side], texts[side]->bpe_min_freq, &inner))
            status = qkv_error_set(error, "%s: %s", keys[side], inner.message);
    qkv_corpus_release(&corpus);
    return status;
}

enum qkv_status qkv_corpus_merges(const char *path, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                                  struct qkv_corpus_options options, struct qkv_error *error)
{
    struct qkv_text_config *texts[2] = {&data->src, &data->trg};
    static const char *const keys[2] = {"data.src.num_merges", "data.trg.num_merges"};
    struct qkv_corpus corpus = {0};
    bool learns_source = learns(texts[0]), learns_target = learns(texts[1]);
    enum qkv_status status = QKV_OK;
    bpe[0] = bpe[1] = NULL;
    if (qkv_is_prepared(path)) return qkv_prepared_merges(path, data, bpe, error);
    if (learns_source || learns_target) status = count_words(&corpus, path, data, options, error);
    const struct qkv_types *words[2] = {&corpus.source.types, &corpus.target.types};
    bool joint = data->joint_vocabulary && learns_source && learns_target;
    for (int side = 0; side < 2 && !status; side++) {
        struct qkv_text_config *text = texts[side];
        if (text->level != QKV_LEVEL_BPE) continue;
        if (!learns(text))
            bpe[side] = qkv_bpe_load(text->bpe_codes, error);
        else if (joint && side)
            bpe[1] = qkv_bpe_copy(bpe[0]);
        else
            status =
                learn(&bpe[side], words[side], joint ? words[1] : NULL, text->num_merges, keys[side], error);
        if (!status && !bpe[side])
            status = learns(text) ? qkv_error_set(error, "out of memory") : QKV_INVALID;
        text->bpe = bpe[side];
    }
    qkv_corpus_release(&corpus);
    bool filters = (bpe[0] && texts[0]->bpe_min_freq > 0) || (bpe[1] && texts[1]->bpe_min_freq > 0);
    if (!status && filters) status = keep_frequent(path, data, bpe, options, error);
    return status;
}
