#include "tokenized_text.h"

#include "complain.h"

#include <string.h>

void tokenized_text_add(struct tokenized_text *text, const char *line)
{
    static const char *const marks[] = {" @-@ ", "&apos;", "&quot;", "&#91;", "&#93;", "&#124;"};
    size_t length = strlen(line);
    while (length && line[length - 1] == ' ') length--;
    bool tokenized = length > 2 && line[length - 1] == '.' && line[length - 2] == ' ';
    for (size_t i = 0; !tokenized && i < sizeof marks / sizeof *marks; i++)
        tokenized = strstr(line, marks[i]);
    text->lines++;
    text->tokenized += tokenized;
}

void tokenized_text_note(const struct tokenized_text *text, const char *what, const struct qkv_scorer *scorer)
{
    enum qkv_bleu_tokenizer tokenizer = scorer->options.tokenizer;
    if (2 * text->tokenized < text->lines || !text->tokenized) return;
    if (!qkv_scorer_computes(scorer, QKV_METRIC_BLEU)) return;
    if (tokenizer != QKV_BLEU_13A && tokenizer != QKV_BLEU_INTL) return;
    complain("note: %lld of %lld %s look tokenized. BLEU with the tokenizer %s is made for plain text: "
             "compare it only "
             "with scores of the same tokenized text; --tokenize none takes the tokens as they are",
             (long long)text->tokenized, (long long)text->lines, what, qkv_bleu_tokenizer_name(tokenizer));
}
