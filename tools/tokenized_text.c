#include "tokenized_text.h"

#include "error_messages.h"

#include "qkv/tokenizer.h"

#include <stdio.h>

void tokenized_text_add(struct tokenized_text *text, const char *line)
{
    text->lines++;
    text->tokenized += qkv_looks_tokenized(line);
}

void tokenized_text_note(const struct tokenized_text *references, const struct qkv_scorer *scorer,
                         bool joined)
{
    enum qkv_bleu_tokenizer tokenizer = scorer->options.tokenizer;
    char count[80];
    snprintf(count, sizeof count, "note: %lld of %lld references look tokenized",
             (long long)references->tokenized, (long long)references->lines);
    if (2 * references->tokenized < references->lines || !references->tokenized) return;
    if (joined)
        print_error("%s, but translations are joined to plain text: only BLEU with 13a or intl compares them "
                    "rightly. "
                    "Evaluate on plain text, or train with data.trg.split_punctuation: false",
                    count);
    else if (qkv_scorer_computes(scorer, QKV_METRIC_BLEU) &&
             (tokenizer == QKV_BLEU_13A || tokenizer == QKV_BLEU_INTL))
        print_error(
            "%s. BLEU with the tokenizer %s is made for plain text: compare it only with scores of the same "
            "tokenized text; --tokenize none takes the tokens as they are",
            count, qkv_bleu_tokenizer_name(tokenizer));
}
