/* Finds out whether the words of gold links count from 0 or from 1, and checks that each sentence pair has these words. */
#include "metrics/links.h"

#define IN_CONFIG " (in a config: data.train_links_from)"

static enum qkv_status refuse_word_0(const struct file_links *links, const struct file_link *link,
                                     struct qkv_error *error)
{
    return qkv_error_set(
        error,
        links->null_words
            ? "%s:%lld:%lld: the words of a .wa file count from 1, but here is word 0: if it "
              "means no word, --links-from 1 leaves such links out; if words count from 0, give "
              "--links-from 0" IN_CONFIG
            : "%s:%lld:%lld: here is word 0, but --links-from 1" IN_CONFIG " says that words count from 1",
        links->file, (long long)link->link.line, (long long)link->link.column);
}

/* Whether a word of the link does not exist in the sentence pair, if words count from 0. */
static bool is_outside(const struct qkv_alignment_link *link, struct qkv_word_counts words)
{
    return (words.source >= 0 && link->source >= words.source) ||
           (words.target >= 0 && link->target >= words.target);
}

enum qkv_status qkv_links_find_first_word(const struct file_links *links, enum qkv_links_from wanted,
                                          const struct qkv_word_counts *words, int64_t pairs, int *from,
                                          struct qkv_error *error)
{
    const struct file_link *word_0 = NULL;
    bool outside = false;
    for (int64_t i = 0; i < links->count; i++) {
        const struct file_link *link = &links->links[i];
        if (!word_0 && (!link->link.source || !link->link.target)) word_0 = link;
        if (words && link->sentence < pairs)
            outside = outside || is_outside(&link->link, words[link->sentence]);
    }
    bool detected = wanted == QKV_LINKS_FROM_DETECTED;
    *from = detected ? links->count && (!word_0 || links->null_words) : wanted == QKV_LINKS_FROM_1;
    if (word_0 && *from == 1 && (detected || !links->null_words)) return refuse_word_0(links, word_0, error);
    bool is_known = !detected || !*from || links->null_words || outside;
    if (is_known) return QKV_OK;
    return qkv_error_set(
        error,
        "%s: words may count from 0 or from 1: no link has a word 0, nor a word that only counting "
        "from 1 explains; say which with --links-from 0 or --links-from 1" IN_CONFIG,
        links->file);
}

/* The number of a word, which counts from 0, in a file whose words count from 1 if `from` is 1. */
static long long number_of(int64_t word, int from)
{
    return from == 1 && word < INT64_MAX ? word + 1 : word;
}

enum qkv_status qkv_alignment_check(const struct qkv_alignment *alignment, struct qkv_word_counts words,
                                    struct qkv_error *error)
{
    for (int64_t i = 0; i < alignment->count; i++) {
        const struct qkv_alignment_link *link = &alignment->links[i];
        bool source = link->source < 0 || (words.source >= 0 && link->source >= words.source);
        bool target = link->target < 0 || (words.target >= 0 && link->target >= words.target);
        if (!source && !target) continue;
        int from = alignment->from;
        return qkv_error_set(
            error, "%s:%lld:%lld: link %lld%c%lld has no %s word %lld: the sentence has %lld, from %d",
            alignment->file ? alignment->file : "links", (long long)link->line, (long long)link->column,
            number_of(link->source, from), link->sure ? '-' : 'p', number_of(link->target, from),
            source ? "source" : "target", number_of(source ? link->source : link->target, from),
            (long long)(source ? words.source : words.target), from);
    }
    return QKV_OK;
}
