/* Configs that a program fills in: what qkv_config_finish derives and refuses. */
#include "qkv/config.h"
#include "qkv/model.h"

#include "refusal.h"

#include <criterion/criterion.h>
#include <math.h>

/* A program sets hidden_size; what follows from it must not stay that of the default. */
Test(config_finish, derives_what_follows_from_other_fields)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    cr_assert_eq(qkv_config_default(&config, &arena, "wide"), QKV_OK);
    config.model.encoder.hidden_size = config.model.decoder.hidden_size = 96;
    cr_assert_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
    cr_expect_eq(config.model.encoder.attention.key_width, 24);
    cr_expect_eq(config.model.decoder.attention.value_width, 24);
    cr_expect_eq(config.model.encoder.embeddings.embedding_dim, 96);
    cr_expect_eq(config.model.decoder.attention.rule.key_value_heads, 4);
    cr_expect_str_eq(config.training.model_dir, "runs/wide");
    config.model.encoder.hidden_size = config.model.decoder.hidden_size = 64;
    cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID, "what was derived is now given");
    cr_expect_str_eq(messages.text[0],
                     "config: model.encoder.embeddings.embedding_dim is 96, but must be 0 or "
                     "model.encoder.hidden_size (64)");
    qkv_arena_release(&arena);
}

/* Dropout inside the feed-forward layers is that of the stack unless the config says otherwise; 0 says so. */
Test(config_finish, activation_dropout_is_dropout_unless_given)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    cr_assert_eq(qkv_config_default(&config, &arena, "drops"), QKV_OK);
    cr_expect_eq(config.model.encoder.activation_dropout, QKV_SAME_AS_DROPOUT);
    config.model.encoder.dropout = 0.3;
    config.model.decoder.activation_dropout = 0;
    cr_assert_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
    cr_expect_eq(config.model.encoder.activation_dropout, 0.3);
    cr_expect_eq(config.model.decoder.activation_dropout, 0);
    config.model.encoder.activation_dropout = -0.5;
    cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID);
    cr_expect_str_eq(messages.text[0],
                     "config: model.encoder.activation_dropout is -0.5, but must be at least 0, or "
                     "-1 for the value of model.encoder.dropout");
    qkv_arena_release(&arena);
}

static void no_dropout(struct qkv_stack_config *stack)
{
    stack->dropout = stack->attention.rule.dropout = stack->embeddings.dropout = 0;
}

/* Without dropout, the two passes of R-Drop are equal. What a network does not drop does not count. */
Test(config_finish, r_drop_needs_dropout)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    for (int network = 0; network < 2; network++) {
        cr_assert_eq(qkv_config_default(&config, &arena, "drops"), QKV_OK);
        struct qkv_stack_config *encoder = &config.model.encoder, *decoder = &config.model.decoder;
        config.training.r_drop = 1;
        no_dropout(encoder);
        no_dropout(decoder);
        if (network) {
            encoder->type = decoder->type = QKV_NETWORK_RECURRENT;
            encoder->attention.rule.dropout = 0.1; /* the default, without effect */
        }
        const struct qkv_config none = config;
        cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID);
        cr_expect_str_eq(messages.text[0],
                         "config: training.r_drop is 1, but needs model.encoder.dropout above 0, or "
                         "another dropout: without, both passes are equal");
        config = none;
        config.training.r_drop = 0;
        config.training.simcut = 3;
        cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
        config.training.simcut_rate = 0;
        cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID);
        cr_expect_str_eq(messages.text[0],
                         "config: training.simcut is 3, but needs training.simcut_rate above 0, "
                         "or some dropout: without, both passes are equal");
        config = none;
        decoder->embeddings.word_dropout = 0.1;
        cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
        config = none;
        *(network ? &decoder->hidden_dropout : &encoder->activation_dropout) = 0.1;
        cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
    }
    qkv_arena_release(&arena);
}

/* A batch has one second pass. */
Test(config_finish, r_drop_and_simcut_exclude_each_other)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    cr_assert_eq(qkv_config_default(&config, &arena, "pair"), QKV_OK);
    config.training.simcut = 3;
    cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
    config.training.r_drop = 1;
    cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID);
    cr_expect_str_eq(messages.text[0], "config: training.simcut and training.r_drop are both above 0, but a "
                                       "batch has one second pass: set one of them to 0");
    qkv_arena_release(&arena);
}

/* qkv_model_new derives the widths of the heads itself, in its own copy. */
Test(config_finish, a_model_needs_no_finished_config)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_error error = {""};
    cr_assert_eq(qkv_config_default(&config, &arena, "wide"), QKV_OK);
    config.model.encoder.hidden_size = config.model.decoder.hidden_size = 96;
    struct qkv_model *model = qkv_model_new(&config.model, 9, 9, QKV_FLOAT32, &error);
    cr_assert_not_null(model, "%s", error.message);
    cr_expect_eq(model->config.decoder.attention.key_width, 24);
    cr_expect_eq(model->config.encoder.embeddings.embedding_dim, 96);
    cr_expect_eq(config.model.encoder.attention.key_width, 0, "the config of the caller stays as it is");
    qkv_model_free(model);
    config.model.encoder.num_heads = 7;
    expect_refusal(STATUS_OF(qkv_model_new(&config.model, 9, 9, QKV_FLOAT32, &error)), &error,
                   "config: model.encoder.num_heads is 7, but must divide model.encoder.hidden_size (96)");
    qkv_arena_release(&arena);
}

static void expect_unfinished(void (*spoil)(struct qkv_config *config), const char *sentence)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    cr_assert_eq(qkv_config_default(&config, &arena, "spoilt"), QKV_OK);
    spoil(&config);
    cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID, "%s", sentence);
    if (messages.count) cr_expect_str_eq(messages.text[0], sentence);
    qkv_arena_release(&arena);
}

static void no_heads(struct qkv_config *config)
{
    config->model.encoder.num_heads = 0;
}

static void three_heads(struct qkv_config *config)
{
    config->model.decoder.num_heads = 3;
}

static void no_number(struct qkv_config *config)
{
    config->training.learning_rate = (double)NAN;
}

static void no_text(struct qkv_config *config)
{
    config->data.dev = NULL;
}

static void no_optimizer(struct qkv_config *config)
{
    config->training.optimizer = (enum qkv_optimizer_kind)77;
}

static void internal_initializer(struct qkv_config *config)
{
    config->model.initializer = QKV_INITIALIZER_FORGET;
}

static void noam(struct qkv_config *config)
{
    config->training.scheduling = QKV_SCHEDULE_NOAM;
}

Test(config_finish, refuses_what_a_file_could_not_say)
{
    expect_unfinished(no_heads, "config: model.encoder.num_heads is 0, but must be between 1 and 1024");
    expect_unfinished(three_heads, "config: model.decoder.num_heads is 3, but must divide "
                                   "model.decoder.hidden_size (64)");
    expect_unfinished(no_number, "config: training.learning_rate is not a finite number");
    expect_unfinished(no_text, "config: data.dev is NULL, but must be a text");
    expect_unfinished(no_optimizer,
                      "config: training.optimizer is 'unknown', but must be one of adam, adamw, sgd");
    expect_unfinished(
        internal_initializer,
        "config: model.initializer is 'forget', but must be one of xavier_uniform, xavier_normal, "
        "uniform, normal, zeros");
    expect_unfinished(noam,
                      "config: training.scheduling is noam, but needs training.learning_rate_warmup above 0");
}

Test(config_finish, texts_that_the_header_lets_be_null_are_empty)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    cr_assert_eq(qkv_config_default(&config, &arena, "null"), QKV_OK);
    config.model.network = config.model.settings = config.training.parameter_rates = NULL;
    cr_assert_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK, "%s", messages.text[0]);
    cr_expect_str_eq(config.model.network, "");
    cr_expect_str_eq(config.model.settings, "");
    cr_expect_str_eq(config.training.parameter_rates, "");
    qkv_arena_release(&arena);
}
