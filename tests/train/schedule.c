#include "qkv/schedule.h"

#include <criterion/criterion.h>
#include <math.h>

static struct qkv_schedule schedule_of(struct qkv_training_config config)
{
    return qkv_schedule_from_config(&config, 512);
}

/* The rate during the first epoch. */
static void expect_rate(const struct qkv_schedule *schedule, int64_t update, double right)
{
    double found = qkv_schedule_rate(schedule, update, 0);
    cr_assert_float_eq(found, right, 1e-14 * fabs(right) + 1e-18, "kind %d, update %lld: %.17g, not %.17g",
                       (int)schedule->kind, (long long)update, found, right);
}

Test(schedule, constant)
{
    struct qkv_schedule schedule = schedule_of((struct qkv_training_config){.learning_rate = 0.5});
    expect_rate(&schedule, 1, 0.5);
    expect_rate(&schedule, 1000000, 0.5);
}

Test(schedule, constant_with_warm_up)
{
    struct qkv_schedule schedule =
        schedule_of((struct qkv_training_config){.learning_rate = 0.5, .learning_rate_warmup = 10});
    expect_rate(&schedule, 1, 0.05);
    expect_rate(&schedule, 5, 0.25);
    expect_rate(&schedule, 10, 0.5);
    expect_rate(&schedule, 11, 0.5);
}

/* The Transformer paper's base model: D = 512, warm-up of 4000; its peak is 512^-0.5 4000^-0.5. */
Test(schedule, noam)
{
    struct qkv_schedule schedule = schedule_of((struct qkv_training_config){.scheduling = QKV_SCHEDULE_NOAM,
                                                                            .learning_rate = 99,
                                                                            .learning_rate_factor = 2,
                                                                            .learning_rate_warmup = 4000});
    double peak = 2 / sqrt(512.0 * 4000.0);
    expect_rate(&schedule, 1, peak / 4000);
    expect_rate(&schedule, 1000, peak / 4);
    expect_rate(&schedule, 4000, peak);
    expect_rate(&schedule, 16000, peak / 2);
}

Test(schedule, inverse_square_root)
{
    struct qkv_schedule schedule = schedule_of((struct qkv_training_config){
        .scheduling = QKV_SCHEDULE_INVERSE_SQRT, .learning_rate = 0.25, .learning_rate_warmup = 100});
    expect_rate(&schedule, 1, 0.0025);
    expect_rate(&schedule, 50, 0.125);
    expect_rate(&schedule, 100, 0.25);
    expect_rate(&schedule, 400, 0.125);
    expect_rate(&schedule, 10000, 0.025);
}

Test(schedule, linear)
{
    struct qkv_training_config config = {
        .scheduling = QKV_SCHEDULE_LINEAR, .learning_rate = 1, .learning_rate_min = 0.2, .updates = 101};
    struct qkv_schedule schedule = schedule_of(config);
    expect_rate(&schedule, 1, 1);
    expect_rate(&schedule, 51, 0.6);
    expect_rate(&schedule, 101, 0.2);
    expect_rate(&schedule, 500, 0.2);
    config.learning_rate_warmup = 21;
    schedule = schedule_of(config);
    expect_rate(&schedule, 7, 1.0 / 3);
    expect_rate(&schedule, 21, 1);
    expect_rate(&schedule, 61, 0.6);
    expect_rate(&schedule, 101, 0.2);
}

Test(schedule, cosine)
{
    struct qkv_training_config config = {.scheduling = QKV_SCHEDULE_COSINE,
                                         .learning_rate = 1,
                                         .learning_rate_min = 0.2,
                                         .learning_rate_warmup = 20,
                                         .updates = 140};
    struct qkv_schedule schedule = schedule_of(config);
    expect_rate(&schedule, 10, 0.5);
    expect_rate(&schedule, 20, 1);
    expect_rate(&schedule, 60, 0.8); /* cos(pi / 3) = 1/2 */
    expect_rate(&schedule, 80, 0.6);
    expect_rate(&schedule, 140, 0.2);
    expect_rate(&schedule, 141, 0.2);
}

/* A run that ends within or with its warm-up never divides by zero. */
Test(schedule, ends_that_meet_the_warm_up)
{
    for (int kind = QKV_SCHEDULE_LINEAR; kind <= QKV_SCHEDULE_COSINE; kind++) {
        struct qkv_training_config config = {.scheduling = (enum qkv_schedule_kind)kind, .learning_rate = 1};
        config.updates = 1;
        struct qkv_schedule schedule = schedule_of(config);
        expect_rate(&schedule, 1, 1);
        config.learning_rate_warmup = 10;
        config.updates = 10;
        schedule = schedule_of(config);
        expect_rate(&schedule, 10, 1);
        config.updates = 5;
        schedule = schedule_of(config);
        expect_rate(&schedule, 5, 0.5);
    }
}

Test(schedule, exponential)
{
    struct qkv_schedule schedule =
        schedule_of((struct qkv_training_config){.scheduling = QKV_SCHEDULE_EXPONENTIAL,
                                                 .learning_rate = 1,
                                                 .learning_rate_min = 0.2,
                                                 .decrease_factor = 0.5,
                                                 .learning_rate_warmup = 4});
    cr_assert_eq(qkv_schedule_rate(&schedule, 1, 0), 0.25);
    cr_assert_eq(qkv_schedule_rate(&schedule, 9, 0), 1);
    cr_assert_eq(qkv_schedule_rate(&schedule, 9, 1), 0.5);
    cr_assert_eq(qkv_schedule_rate(&schedule, 9, 2), 0.25);
    cr_assert_eq(qkv_schedule_rate(&schedule, 9, 3), 0.2);
    cr_assert_eq(qkv_schedule_rate(&schedule, 9, 100000), 0.2);
}

static struct qkv_schedule plateau(int64_t patience)
{
    return schedule_of((struct qkv_training_config){.scheduling = QKV_SCHEDULE_PLATEAU,
                                                    .learning_rate = 1,
                                                    .learning_rate_min = 0.2,
                                                    .decrease_factor = 0.5,
                                                    .learning_rate_patience = patience});
}

Test(schedule, plateau_decreases_after_more_than_its_patience)
{
    struct qkv_schedule schedule = plateau(1);
    cr_assert_not(qkv_schedule_record_validation(&schedule, 3.0, false));
    cr_assert_not(qkv_schedule_record_validation(&schedule, 3.0, false)); /* the same is no progress */
    cr_assert_not(qkv_schedule_record_validation(&schedule, 2.0, false)); /* but this is */
    cr_assert_not(qkv_schedule_record_validation(&schedule, 2.5, false));
    expect_rate(&schedule, 7, 1);
    cr_assert(qkv_schedule_record_validation(&schedule, (double)NAN, false));
    expect_rate(&schedule, 7, 0.5);
    cr_assert_not(qkv_schedule_record_validation(&schedule, 2.1, false));
    cr_assert(qkv_schedule_record_validation(&schedule, 2.0, false));
    expect_rate(&schedule, 7, 0.25);
    cr_assert_not(qkv_schedule_record_validation(&schedule, 2.1, false));
    cr_assert(qkv_schedule_record_validation(&schedule, 2.0, false));
    expect_rate(&schedule, 7, 0.2);
}

Test(schedule, plateau_knows_scores_that_grow)
{
    struct qkv_schedule schedule = plateau(0);
    cr_assert_not(qkv_schedule_record_validation(&schedule, -5, true));
    cr_assert_not(qkv_schedule_record_validation(&schedule, 10, true));
    cr_assert(qkv_schedule_record_validation(&schedule, 9, true));
    cr_assert_not(qkv_schedule_record_validation(&schedule, 11, true));
}

Test(schedule, others_do_not_listen_to_validations)
{
    struct qkv_schedule schedule = schedule_of((struct qkv_training_config){.learning_rate = 0.5});
    for (int i = 0; i < 20; i++) cr_assert_not(qkv_schedule_record_validation(&schedule, 1, false));
    struct qkv_state state = {0};
    qkv_schedule_save(&schedule, &state);
    cr_assert_eq(state.count, 0);
    cr_assert_eq(qkv_schedule_restore(&schedule, &state, NULL), QKV_OK);
}

Test(schedule, plateau_goes_on_where_it_was_saved)
{
    struct qkv_schedule schedule = plateau(2), restored = plateau(2);
    double scores[] = {0.1 + 0.2, 5, 4, 3, 2};
    for (int i = 0; i < 5; i++) qkv_schedule_record_validation(&schedule, scores[i], false);
    struct qkv_state state = {0};
    qkv_schedule_save(&schedule, &state);
    cr_assert_eq(qkv_schedule_restore(&restored, &state, NULL), QKV_OK);
    cr_assert_eq(restored.plateau.best, 0.1 + 0.2);
    expect_rate(&restored, 5, 0.5);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(qkv_schedule_record_validation(&schedule, 1, false),
                     qkv_schedule_record_validation(&restored, 1, false));
    expect_rate(&restored, 5, 0.25);
    qkv_state_release(&state);
}

Test(schedule, plateau_refuses_a_state_without_it)
{
    struct qkv_schedule schedule = plateau(2);
    struct qkv_state state = {0};
    struct qkv_error error;
    cr_assert_eq(qkv_schedule_restore(&schedule, &state, &error), QKV_INVALID);
    cr_assert_str_eq(error.message, "schedule.plateau.seen is missing");
    qkv_schedule_save(&schedule, &state);
    qkv_state_set(&state, "schedule.plateau.waited", "1.5");
    cr_assert_eq(qkv_schedule_restore(&schedule, &state, &error), QKV_INVALID);
    cr_assert_str_eq(error.message, "schedule.plateau.waited is \"1.5\", but must be a whole number");
    cr_assert_not(schedule.plateau.has_best);
    qkv_state_release(&state);
}
