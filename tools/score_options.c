#include "score_options.h"

#include "complain.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

enum { SIGNATURE_SIZE = 128 };

static const enum qkv_bleu_tokenizer KNOWN[] = {QKV_BLEU_13A, QKV_BLEU_NONE, QKV_BLEU_CHAR};

enum { KNOWN_COUNT = sizeof KNOWN / sizeof KNOWN[0] };

const char *score_tokenizer_name(const void *context, int64_t index)
{
    (void)context;
    return index < KNOWN_COUNT ? qkv_bleu_tokenizer_name(KNOWN[index]) : NULL;
}

enum qkv_status texts_score_init(struct texts_score *score, const struct score_options *options)
{
    *score = (struct texts_score){.bleu.lowercase = options->lowercase, .chrf.lowercase = options->lowercase};
    for (int i = 0; i < KNOWN_COUNT; i++) {
        score->bleu.tokenizer = KNOWN[i];
        if (!strcmp(options->tokenizer, qkv_bleu_tokenizer_name(KNOWN[i]))) return QKV_OK;
    }
    complain_of_name("--tokenize", options->tokenizer, score_tokenizer_name, NULL);
    return QKV_INVALID;
}

enum qkv_status texts_score_add(struct texts_score *score, const char *output, const char *const *references,
                                int64_t count, struct qkv_error *error)
{
    if (qkv_bleu_add(&score->bleu, output, references, count, error)) return QKV_INVALID;
    return qkv_chrf_add(&score->chrf, output, references, count, error);
}

void texts_score_print(const struct texts_score *score)
{
    char signature[SIGNATURE_SIZE];
    qkv_bleu_signature(&score->bleu, signature, sizeof signature);
    printf("BLEU               %.2f  (%s)\n", qkv_bleu_score(&score->bleu), signature);
    qkv_chrf_signature(&score->chrf, signature, sizeof signature);
    printf("chrF               %.2f  (%s)\n", qkv_chrf_score(&score->chrf), signature);
}

void texts_score_json(const struct texts_score *score, struct cJSON *object)
{
    char signature[SIGNATURE_SIZE];
    qkv_bleu_signature(&score->bleu, signature, sizeof signature);
    cJSON_AddNumberToObject(object, "bleu", qkv_bleu_score(&score->bleu));
    cJSON_AddStringToObject(object, "bleu_signature", signature);
    qkv_chrf_signature(&score->chrf, signature, sizeof signature);
    cJSON_AddNumberToObject(object, "chrf", qkv_chrf_score(&score->chrf));
    cJSON_AddStringToObject(object, "chrf_signature", signature);
}

void texts_score_release(struct texts_score *score)
{
    qkv_bleu_release(&score->bleu);
    qkv_chrf_release(&score->chrf);
}
