/* Configs that a program fills in wrongly are written and refused, and never index a table out of its bounds. */
#include "framework/translator/config/config_keys.h"
#include "qkv/config.h"
#include "qkv/model.h"
#include "qkv/trainer.h"

#include "config_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool count_keys(void *context, const char *path, const char *value)
{
    ++*(int *)context;
    return path && value;
}

/* Everything that reads a config. */
static void read_config(const struct qkv_config *config)
{
    FILE *file = fopen("/dev/null", "w");
    struct qkv_arena arena = {0};
    struct qkv_messages messages = {0};
    struct qkv_config copy = *config;
    struct qkv_train_result result;
    struct qkv_error error;
    int keys = 0;
    cr_assert_not_null(file);
    qkv_config_write(config, file, true);
    qkv_config_write(config, file, false);
    qkv_config_write_run(config, file, "/tmp");
    for (int selection = 0; selection < 3; selection++)
        qkv_config_each(config, (enum qkv_config_selection)selection, count_keys, &keys);
    cr_expect_gt(keys, 0);
    cr_expect_eq(qkv_config_finish(&copy, &arena, &messages), QKV_INVALID);
    cr_expect_eq(qkv_train(config, &(struct qkv_train_options){0}, &result, &error), QKV_INVALID);
    qkv_arena_release(&arena);
    fclose(file);
}

Test(misuse, a_config_of_zeros_is_read_everywhere)
{
    const struct qkv_config zeros = {0};
    struct qkv_error error;
    read_config(&zeros);
    cr_expect_null(qkv_model_new(&zeros.model, 5, 5, QKV_FLOAT32, &error));
}

Test(misuse, choices_that_do_not_exist_are_read_everywhere)
{
    static const int wrong[] = {-1, 1000, INT32_MAX, INT32_MIN};
    struct qkv_arena arena = {0};
    struct qkv_config config;
    cr_assert_eq(qkv_config_default(&config, &arena, "x"), QKV_OK);
    for (int i = 0; i < 4; i++) {
        struct qkv_config odd = config;
        odd.model.encoder.type = (enum qkv_network)wrong[i];
        read_config(&odd);
        odd = config;
        odd.training.scheduling = (enum qkv_schedule_kind)wrong[i];
        read_config(&odd);
        odd = config;
        odd.training.early_stopping_metric = (enum qkv_metric)wrong[i];
        read_config(&odd);
    }
    qkv_arena_release(&arena);
}

Test(misuse, odd_values_are_written)
{
    struct qkv_config config = {0};
    cr_expect(strstr(config_text(&config, true), "name: \"\"\n"));
    config.training.learning_rate = (double)NAN;
    config.training.weight_decay = (double)INFINITY;
    config.model.encoder.type = (enum qkv_network)77;
    config.data.train = "a\xFF";
    const char *text = config_text(&config, true);
    cr_expect(strstr(text, "learning_rate: .nan\n") && strstr(text, "weight_decay: .inf\n"), "%s", text);
    cr_expect(strstr(text, "type: unknown\n") && strstr(text, "train: \"a?\"\n"), "%s", text);
}
