/* Configs that a program fills in: what qkv_config_finish derives and refuses. Wrong ones are written and refused, and never
 * index a table out of its bounds. */

#include "config_text.h"
#include "framework/translator/config/config_keys.h"

static struct qkv_arena arena;
static struct qkv_config config;
static struct qkv_messages messages;

static void set_defaults(void)
{
    cr_assert_eq(qkv_config_default(&config, &arena, "wide"), QKV_OK);
}

static void release(void)
{
    qkv_arena_release(&arena);
}

TestSuite(config_finish, .init = set_defaults, .fini = release);

static void finish(void)
{
    enum qkv_status status = qkv_config_finish(&config, &arena, &messages);
    cr_assert_eq(status, QKV_OK, "%s", messages.text[0]);
}

static void finish_is_refused(const char *sentence)
{
    cr_expect_eq(qkv_config_finish(&config, &arena, &messages), QKV_INVALID, "accepted: %s", sentence);
    if (messages.count) cr_expect_str_eq(messages.text[0], sentence);
}

/* A program sets hidden_size; what follows from it must not stay that of the default. */
Test(config_finish, derives_what_follows_from_other_fields)
{
    config.model.encoder.hidden_size = config.model.decoder.hidden_size = 96;
    finish();
    cr_expect_eq(config.model.encoder.attention.key_width, 24);
    cr_expect_eq(config.model.decoder.attention.value_width, 24);
    cr_expect_eq(config.model.encoder.embeddings.embedding_dim, 96);
    cr_expect_eq(config.model.decoder.attention.key_value_heads, 4);
    cr_expect_str_eq(config.training.model_dir, "runs/wide");
    config.model.encoder.hidden_size = config.model.decoder.hidden_size = 64;
    finish_is_refused("config: model.encoder.embeddings.embedding_dim is 96, but must be 0 or "
                      "model.encoder.hidden_size (64)");
}

/* Dropout inside the feed-forward layers is that of the stack unless the config says otherwise; 0 says so. */
Test(config_finish, activation_dropout_is_dropout_unless_given)
{
    cr_expect_eq(config.model.encoder.activation_dropout, QKV_SAME_AS_DROPOUT);
    config.model.encoder.dropout = 0.3;
    config.model.decoder.activation_dropout = 0;
    finish();
    cr_expect_eq(config.model.encoder.activation_dropout, 0.3);
    cr_expect_eq(config.model.decoder.activation_dropout, 0);
    config.model.encoder.activation_dropout = -0.5;
    finish_is_refused("config: model.encoder.activation_dropout is -0.5, but must be at least 0, or "
                      "-1 for the value of model.encoder.dropout");
}

static void no_dropout(struct qkv_stack_config *stack)
{
    stack->dropout = stack->attention.dropout = stack->embeddings.dropout = 0;
}

/* Without dropout, the two passes of R-Drop are equal. What a network does not drop does not count. */
Test(config_finish, r_drop_needs_dropout)
{
    for (int network = 0; network < 2; network++) {
        set_defaults();
        struct qkv_stack_config *encoder = &config.model.encoder, *decoder = &config.model.decoder;
        config.training.r_drop = 1;
        no_dropout(encoder);
        no_dropout(decoder);
        if (network) {
            encoder->type = decoder->type = QKV_NETWORK_RECURRENT;
            encoder->attention.dropout = -1; /* the default, without effect */
        }
        const struct qkv_config none = config;
        finish_is_refused("config: training.r_drop is 1, but needs model.encoder.dropout above 0, or "
                          "another dropout: without, both passes are equal");
        config = none;
        config.training.r_drop = 0;
        config.training.simcut = 3;
        finish();
        config.training.simcut_rate = 0;
        finish_is_refused("config: training.simcut is 3, but needs training.simcut_rate above 0, "
                          "or some dropout: without, both passes are equal");
        config = none;
        decoder->embeddings.word_dropout = 0.1;
        finish();
        config = none;
        *(network ? &decoder->hidden_dropout : &encoder->activation_dropout) = 0.1;
        finish();
    }
}

/* A batch has one second pass. */
Test(config_finish, r_drop_and_simcut_exclude_each_other)
{
    config.training.simcut = 3;
    finish();
    config.training.r_drop = 1;
    finish_is_refused("config: training.simcut and training.r_drop are both above 0, but a "
                      "batch has one second pass: set one of them to 0");
}

/* qkv_model_new derives the widths of the heads itself, in its own copy. */
Test(config_finish, a_model_needs_no_finished_config)
{
    config.model.encoder.hidden_size = config.model.decoder.hidden_size = 96;
    struct qkv_model *model = made(qkv_model_new(&config.model, 9, 9, QKV_FLOAT32, &error));
    cr_expect_eq(model->config.decoder.attention.key_width, 24);
    cr_expect_eq(model->config.encoder.embeddings.embedding_dim, 96);
    cr_expect_eq(config.model.encoder.attention.key_width, 0, "the config of the caller stays as it is");
    qkv_model_free(model);
    config.model.encoder.num_heads = 7;
    expect_refusal(STATUS_OF(qkv_model_new(&config.model, 9, 9, QKV_FLOAT32, &error)),
                   "config: model.encoder.num_heads is 7, but must divide model.encoder.hidden_size (96)");
}

Test(config_finish, refuses_what_a_file_could_not_say)
{
    struct qkv_model_config *model = &config.model;
    model->encoder.num_heads = 0;
    finish_is_refused("config: model.encoder.num_heads is 0, but must be between 1 and 1024");
    set_defaults();
    model->decoder.num_heads = 3;
    finish_is_refused("config: model.decoder.num_heads is 3, but must divide model.decoder.hidden_size (64)");
    set_defaults();
    config.training.learning_rate = (double)NAN;
    finish_is_refused("config: training.learning_rate is not a finite number");
    set_defaults();
    config.data.dev = NULL;
    finish_is_refused("config: data.dev is NULL, but must be a text");
    set_defaults();
    config.training.optimizer = (enum qkv_optimizer_kind)77;
    finish_is_refused("config: training.optimizer is 'unknown', but must be one of adam, adamw, sgd");
    set_defaults();
    model->initializer = QKV_INITIALIZER_FORGET;
    finish_is_refused("config: model.initializer is 'forget', but must be one of xavier_uniform, "
                      "xavier_normal, uniform, normal, zeros");
    set_defaults();
    config.training.scheduling = QKV_SCHEDULE_NOAM;
    finish_is_refused("config: training.scheduling is noam, but needs training.learning_rate_warmup above 0");
}

Test(config_finish, texts_that_the_header_lets_be_null_are_empty)
{
    config.model.network = config.model.settings = config.training.parameter_rates = NULL;
    finish();
    cr_expect_str_eq(config.model.network, "");
    cr_expect_str_eq(config.model.settings, "");
    cr_expect_str_eq(config.training.parameter_rates, "");
}

/* ---- wrong in every field ---- */

static bool count_keys(void *context, const char *path, const char *value)
{
    ++*(int *)context;
    return path && value;
}

/* Everything that reads a config. */
static void read_everywhere(const struct qkv_config *given)
{
    FILE *file = fopen("/dev/null", "w");
    struct qkv_config copy = *given;
    struct qkv_train_result result;
    int keys = 0;
    cr_assert_not_null(file);
    qkv_config_write(given, file, true);
    qkv_config_write(given, file, false);
    qkv_config_write_run(given, file, "/tmp");
    for (int selection = 0; selection < 3; selection++)
        qkv_config_each(given, (enum qkv_config_selection)selection, count_keys, &keys);
    cr_expect_gt(keys, 0);
    cr_expect_eq(qkv_config_finish(&copy, &arena, &messages), QKV_INVALID);
    cr_expect_eq(qkv_train(given, &(struct qkv_train_options){0}, &result, &error), QKV_INVALID);
    fclose(file);
}

Test(config_finish, a_config_of_zeros_is_read_everywhere)
{
    const struct qkv_config zeros = {0};
    read_everywhere(&zeros);
    cr_expect_null(qkv_model_new(&zeros.model, 5, 5, QKV_FLOAT32, &error));
}

Test(config_finish, choices_that_do_not_exist_are_read_everywhere)
{
    static const int wrong[] = {-1, 1000, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        struct qkv_config odd = config;
        odd.model.encoder.type = (enum qkv_network)wrong[i];
        read_everywhere(&odd);
        odd = config;
        odd.training.scheduling = (enum qkv_schedule_kind)wrong[i];
        read_everywhere(&odd);
        odd = config;
        odd.training.early_stopping_metric = (enum qkv_metric)wrong[i];
        read_everywhere(&odd);
    }
}

Test(config_finish, odd_values_are_written)
{
    config = (struct qkv_config){0};
    cr_expect(shows(config_text(&config, true), "name: \"\"\n"));
    config.training.learning_rate = (double)NAN;
    config.training.weight_decay = (double)INFINITY;
    config.model.encoder.type = (enum qkv_network)77;
    config.data.train = "a\xFF";
    const char *text = config_text(&config, true);
    cr_expect(strstr(text, "learning_rate: .nan\n") && strstr(text, "weight_decay: .inf\n"), "%s", text);
    cr_expect(strstr(text, "type: unknown\n") && strstr(text, "train: \"a?\"\n"), "%s", text);
}
