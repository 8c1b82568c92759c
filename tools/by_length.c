#include "by_length.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

enum qkv_status by_length_init(struct by_length *table, int64_t step, int64_t longest,
                               const struct score_options *options, struct qkv_error *error)
{
    table->step = step;
    table->class = calloc((size_t)((longest + step - 1) / step), sizeof *table->class);
    if (!table->class) return qkv_error_set(error, "out of memory for scores by length");
    table->count = (longest + step - 1) / step;
    for (int64_t i = 0; i < table->count; i++)
        if (texts_score_init(&table->class[i].texts, options))
            return qkv_error_set(error, "there is no such tokenizer");
    return QKV_OK;
}

enum qkv_status by_length_add(struct by_length *table, const struct qkv_sentence_score *score,
                              const char *translation, const char *reference, struct qkv_error *error)
{
    struct length_class *class = &table->class[(score->source_tokens - 1) / table->step];
    class->sentences++;
    class->tokens += score->tokens;
    class->correct += score->correct;
    class->right += score->right;
    return texts_score_add(&class->texts, translation, &reference, 1, error);
}

static double token_accuracy(const struct length_class *class)
{
    return class->correct / (double)class->tokens;
}

static double sequence_accuracy(const struct length_class *class)
{
    return (double)class->right / (double)class->sentences;
}

void by_length_print(const struct by_length *table)
{
    printf("%-18s %9s %10s %13s %7s\n", "source tokens", "sentences", "tokens, %", "sequences, %", "BLEU");
    for (int64_t i = 0; i < table->count; i++) {
        const struct length_class *class = &table->class[i];
        char range[48];
        if (!class->sentences) continue;
        snprintf(range, sizeof range, table->step == 1 ? "%lld" : "%lld to %lld",
                 (long long)(i * table->step + 1), (long long)((i + 1) * table->step));
        printf("%-18s %9lld %10.2f %13.2f %7.2f\n", range, (long long)class->sentences,
               100 * token_accuracy(class), 100 * sequence_accuracy(class),
               qkv_bleu_score(&class->texts.bleu));
    }
}

cJSON *by_length_json(const struct by_length *table)
{
    cJSON *array = cJSON_CreateArray();
    for (int64_t i = 0; i < table->count; i++) {
        const struct length_class *class = &table->class[i];
        if (!class->sentences) continue;
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "from", (double)(i * table->step + 1));
        cJSON_AddNumberToObject(object, "to", (double)((i + 1) * table->step));
        cJSON_AddNumberToObject(object, "sentences", (double)class->sentences);
        cJSON_AddNumberToObject(object, "tokens", (double)class->tokens);
        cJSON_AddNumberToObject(object, "token_accuracy", token_accuracy(class));
        cJSON_AddNumberToObject(object, "sequence_accuracy", sequence_accuracy(class));
        cJSON_AddNumberToObject(object, "bleu", qkv_bleu_score(&class->texts.bleu));
        cJSON_AddItemToArray(array, object);
    }
    return array;
}

void by_length_release(struct by_length *table)
{
    for (int64_t i = 0; i < table->count; i++) texts_score_release(&table->class[i].texts);
    free(table->class);
    *table = (struct by_length){0};
}
