/* The alignment error of a run: its attention maps against gold links. */
#include "qkv/alignment_score.h"

#include "qkv/attention_collect.h"
#include "qkv/corpus.h"
#include "qkv/run.h"

#include <string.h>

enum { BATCH = 64 }; /* sentences per forward pass */

struct scoring {
    const struct qkv_run *run;
    const struct qkv_corpus *corpus;
    struct qkv_alignments gold;
    struct qkv_attention_collector *collector;
    struct qkv_tokens tokens; /* of one line */
    struct qkv_arena arena;   /* tokens and words of one batch */
};

static enum qkv_status no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for alignment scores");
}

/* Tokenizes a side of a pair as the run does, into s->tokens. */
static enum qkv_status tokenize(struct scoring *s, int64_t pair, bool target, struct qkv_error *error)
{
    const struct qkv_data_config *data = &s->run->config.data;
    const char *line = target ? qkv_corpus_target(s->corpus, pair) : qkv_corpus_source(s->corpus, pair);
    if (!line) return qkv_error_set(error, "alignment scores need a corpus that keeps its raw lines");
    return qkv_tokenize(&s->tokens, target ? &data->trg : &data->src, line, strlen(line), error);
}

/* Links count words, maps have tokens: finds the word of each token of a side, kept in the arena. */
static enum qkv_status find_words(struct scoring *s, int64_t pair, bool target, const int64_t **words,
                                  struct qkv_error *error)
{
    const struct qkv_corpus_side *side = target ? &s->corpus->target : &s->corpus->source;
    if (tokenize(s, pair, target, error)) return QKV_INVALID;
    int64_t count = s->tokens.count;
    if (count != side->start[pair + 1] - side->start[pair])
        return qkv_error_set(
            error,
            "pair %lld of the corpus was tokenized in another way than the run tokenizes: read "
            "the corpus with the config of the run",
            (long long)pair + 1);
    int64_t *copy = qkv_arena_allocate(&s->arena, (size_t)count * sizeof *copy);
    if (!copy) return no_memory(error);
    memcpy(copy, s->tokens.word, (size_t)count * sizeof *copy);
    *words = copy;
    return QKV_OK;
}

/* Reads the gold links of all pairs of the corpus' file. */
static enum qkv_status read_links(struct scoring *s, const char *links, int from, struct qkv_error *error)
{
    const struct qkv_corpus *corpus = s->corpus;
    struct qkv_word_counts *words = qkv_arena_allocate(&s->arena, (size_t)corpus->read * sizeof *words);
    if (!words) return no_memory(error);
    for (int64_t i = 0; i < corpus->read; i++) words[i] = (struct qkv_word_counts){-1, -1};
    for (int64_t pair = 0; pair < corpus->count; pair++) {
        struct qkv_word_counts *counts = &words[corpus->line[pair] - 1];
        if (tokenize(s, pair, false, error)) return QKV_INVALID;
        counts->source = s->tokens.words;
        if (tokenize(s, pair, true, error)) return QKV_INVALID;
        counts->target = s->tokens.words;
    }
    return qkv_alignments_read(&s->gold, links, from, words, corpus->read, error);
}

/* The texts of the tokens of a sentence; fails if memory runs out or the vocabulary lacks one. */
static enum qkv_status find_texts(struct scoring *s, const struct qkv_vocabulary *vocabulary,
                                  struct qkv_ids ids, const char *const **texts, struct qkv_error *error)
{
    const char **tokens = qkv_arena_allocate(&s->arena, (size_t)ids.length * sizeof *tokens);
    if (!tokens) return no_memory(error);
    for (int64_t i = 0; i < ids.length; i++) {
        tokens[i] = qkv_vocabulary_token(vocabulary, ids.ids[i]);
        if (!tokens[i])
            return qkv_error_set(error, "the corpus was not encoded with the vocabularies of the run");
    }
    *texts = tokens;
    return QKV_OK;
}

static struct qkv_ids ids_of(const struct qkv_corpus_side *side, int64_t pair)
{
    return (struct qkv_ids){side->start[pair + 1] - side->start[pair], side->ids + side->start[pair]};
}

/* Scores the pairs first .. first + count - 1. */
static enum qkv_status score_batch(struct scoring *s, int64_t first, int64_t count,
                                   struct qkv_alignment_score *score, struct qkv_error *error)
{
    struct qkv_attention_pair pairs[BATCH];
    struct qkv_attention_report reports[BATCH];
    struct qkv_attention_words words[BATCH];
    qkv_arena_reset(&s->arena);
    for (int64_t i = 0; i < count; i++) {
        int64_t pair = first + i;
        if (find_words(s, pair, false, &words[i].source, error) ||
            find_words(s, pair, true, &words[i].target, error))
            return QKV_INVALID;
        pairs[i] = (struct qkv_attention_pair){.source = ids_of(&s->corpus->source, pair),
                                               .target = ids_of(&s->corpus->target, pair)};
        if (find_texts(s, &s->run->source, pairs[i].source, &pairs[i].source_tokens, error) ||
            find_texts(s, &s->run->target, pairs[i].target, &pairs[i].target_tokens, error))
            return QKV_INVALID;
    }
    if (qkv_attention_collect(s->collector, count, pairs, 1u << QKV_ATTENTION_CROSS, reports, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_alignment *gold = &s->gold.sentences[s->corpus->line[first + i] - 1];
        if (qkv_alignment_score_add(score, &reports[i], words[i], gold, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status evaluate(struct scoring *s, const char *links, int from,
                                struct qkv_alignment_score *score, struct qkv_error *error)
{
    if (!s->corpus->encoded) return qkv_error_set(error, "alignment scores need an encoded corpus");
    if (read_links(s, links, from, error)) return QKV_INVALID;
    s->collector = qkv_attention_collector_new(s->run->model, error);
    if (!s->collector) return QKV_INVALID;
    for (int64_t first = 0; first < s->corpus->count; first += BATCH) {
        int64_t left = s->corpus->count - first;
        if (score_batch(s, first, left < BATCH ? left : BATCH, score, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

enum qkv_status qkv_alignment_evaluate(const struct qkv_run *run, const struct qkv_corpus *corpus,
                                       const char *links, int from, struct qkv_alignment_score *score,
                                       struct qkv_error *error)
{
    struct scoring scoring = {.run = run, .corpus = corpus};
    enum qkv_status status = evaluate(&scoring, links, from, score, error);
    qkv_alignments_release(&scoring.gold);
    qkv_attention_collector_free(scoring.collector);
    qkv_tokens_release(&scoring.tokens);
    qkv_arena_release(&scoring.arena);
    return status;
}
