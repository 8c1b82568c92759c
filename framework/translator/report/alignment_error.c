/* The alignment error of a run: compares its attention maps with gold links. */
#include "qkv/alignment_score.h"

#include "report/corpus_links.h"
#include "report/forced.h"

#include <string.h>

struct scoring {
    const struct qkv_run *run;
    const struct qkv_corpus *corpus;
    struct qkv_alignments gold;
    struct forced_passes passes;
};

enum qkv_status qkv_corpus_texts(const struct qkv_corpus *corpus, int64_t pair, struct qkv_pair_texts *texts,
                                 struct qkv_error *error)
{
    const char *source = qkv_corpus_source(corpus, pair), *target = qkv_corpus_target(corpus, pair);
    if (!source || !target)
        return qkv_error_set(error, "alignment scores need a corpus that keeps its raw lines");
    *texts = (struct qkv_pair_texts){source, target, strlen(source), strlen(target)};
    return QKV_OK;
}

/* Counts the words of each pair of the corpus. words: indexed by line of the file; the caller sets them to -1. */
static enum qkv_status count_words(const struct qkv_corpus *corpus, const struct qkv_data_config *data,
                                   struct qkv_tokens *tokens, struct qkv_word_counts *words,
                                   struct qkv_error *error)
{
    for (int64_t pair = 0; pair < corpus->count; pair++) {
        struct qkv_pair_texts texts;
        if (qkv_corpus_texts(corpus, pair, &texts, error) ||
            qkv_tokenize(tokens, &data->src, texts.source, texts.source_size, error))
            return QKV_INVALID;
        struct qkv_word_counts *counts = &words[corpus->line[pair] - 1];
        counts->source = tokens->words;
        if (qkv_tokenize(tokens, &data->trg, texts.target, texts.target_size, error)) return QKV_INVALID;
        counts->target = tokens->words;
    }
    return QKV_OK;
}

enum qkv_status qkv_corpus_links(const struct qkv_corpus *corpus, const struct qkv_data_config *data,
                                 const char *links, enum qkv_links_from from, struct qkv_alignments *gold,
                                 struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_tokens tokens = {0};
    struct qkv_word_counts *words = qkv_arena_allocate(&arena, (size_t)corpus->read * sizeof *words);
    enum qkv_status status = words ? QKV_OK : qkv_error_set(error, "out of memory for alignment scores");
    for (int64_t i = 0; words && i < corpus->read; i++) words[i] = (struct qkv_word_counts){-1, -1};
    if (!status) status = count_words(corpus, data, &tokens, words, error);
    if (!status) status = qkv_alignments_read(gold, links, from, words, corpus->read, error);
    qkv_tokens_release(&tokens);
    qkv_arena_release(&arena);
    return status;
}

/* Scores the pairs first .. first + count - 1. */
static enum qkv_status score_batch(struct scoring *s, int64_t first, int64_t count,
                                   struct qkv_alignment_score *score, struct qkv_error *error)
{
    struct qkv_pair_texts texts[FORCED_MAX] = {{0}};
    struct forced_pair pairs[FORCED_MAX];
    for (int64_t i = 0; i < count; i++)
        if (qkv_corpus_texts(s->corpus, first + i, &texts[i], error)) return QKV_INVALID;
    enum qkv_status status = qkv_forced_collect(&s->passes, count, texts, false, pairs, error);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        int64_t line = s->corpus->line[first + i];
        if (!pairs[i].has_report)
            return qkv_error_set(error, "line %lld of the corpus: %s", (long long)line,
                                 pairs[i].reason ? pairs[i].reason : "a side is empty");
        if (qkv_alignment_score_add(score, &pairs[i].report, pairs[i].words, &s->gold.sentences[line - 1],
                                    error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status evaluate(struct scoring *s, const char *links, enum qkv_links_from from,
                                struct qkv_alignment_score *score, struct qkv_error *error)
{
    if (qkv_corpus_links(s->corpus, &s->run->config.data, links, from, &s->gold, error) ||
        qkv_forced_init(&s->passes, s->run, NULL, error))
        return QKV_INVALID;
    score->missing = s->gold.missing;
    for (int64_t first = 0; first < s->corpus->count; first += FORCED_MAX) {
        int64_t left = s->corpus->count - first;
        enum qkv_status status = score_batch(s, first, left < FORCED_MAX ? left : FORCED_MAX, score, error);
        if (status) return status;
    }
    return QKV_OK;
}

enum qkv_status qkv_alignment_evaluate(const struct qkv_run *run, const struct qkv_corpus *corpus,
                                       const char *links, enum qkv_links_from from,
                                       struct qkv_alignment_score *score, struct qkv_error *error)
{
    struct scoring scoring = {.run = run, .corpus = corpus};
    enum qkv_status status = evaluate(&scoring, links, from, score, error);
    qkv_alignments_release(&scoring.gold);
    qkv_forced_release(&scoring.passes);
    return status;
}
