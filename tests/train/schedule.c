#include "support.h"

#include "config/config_keys.h"
#include "framework/engine/optimize/optimize.h"

/* The peak of noam with a factor of 2: 2 / sqrt(512 4000) */
#define NOAM 0.001397542485937369

static struct qkv_schedule schedule_of(struct qkv_training_config config)
{
    return qkv_schedule_from_config(&config, 512);
}

static void expect_rate_of(const char *what, const struct qkv_schedule *schedule, int64_t update,
                           int64_t epoch, double right)
{
    double found = qkv_schedule_rate(schedule, update, epoch);
    cr_assert_float_eq(found, right, 1e-14 * fabs(right) + 1e-18, "%s, update %lld: %.17g, not %.17g", what,
                       (long long)update, found, right);
}

/* The rate of a plateau during the first epoch. */
static void expect_rate(const struct qkv_schedule *schedule, int64_t update, double right)
{
    expect_rate_of("plateau", schedule, update, 0, right);
}

/* Noam is the Transformer paper's base model: D = 512, warm-up of 4000; its peak is 512^-0.5 4000^-0.5. A run that ends within
 * or with its warm-up never divides by zero. */
Test(schedule, rates_follow_their_formulas)
{
    static const struct {
        const char *what;
        enum qkv_schedule_kind scheduling;
        double learning_rate, learning_rate_min;
        int64_t learning_rate_warmup, updates;
        int64_t update[6];
        double rate[6]; /* 0: no more */
    } CASES[] = {
        {"constant", QKV_SCHEDULE_CONSTANT, 0.5, 0, 0, 0, LIST(1, 1000000), LIST(0.5, 0.5)},
        {"warm-up", QKV_SCHEDULE_CONSTANT, 0.5, 0, 10, 0, LIST(1, 5, 10, 11), LIST(0.05, 0.25, 0.5, 0.5)},
        {"noam", QKV_SCHEDULE_NOAM, 99, 0, 4000, 0, LIST(1, 1000, 4000, 16000),
         LIST(NOAM / 4000, NOAM / 4, NOAM, NOAM / 2)},
        {"inverse square root", QKV_SCHEDULE_INVERSE_SQRT, 0.25, 0, 100, 0, LIST(1, 50, 100, 400, 10000),
         LIST(0.0025, 0.125, 0.25, 0.125, 0.025)},
        {"linear", QKV_SCHEDULE_LINEAR, 1, 0.2, 0, 101, LIST(1, 51, 101, 500), LIST(1, 0.6, 0.2, 0.2)},
        {"linear, warm-up", QKV_SCHEDULE_LINEAR, 1, 0.2, 21, 101, LIST(7, 21, 61, 101),
         LIST(1.0 / 3, 1, 0.6, 0.2)},
        /* cos(pi / 3) = 1/2 */
        {"cosine", QKV_SCHEDULE_COSINE, 1, 0.2, 20, 140, LIST(10, 20, 60, 80, 140, 141),
         LIST(0.5, 1, 0.8, 0.6, 0.2, 0.2)},
        {"linear of one", QKV_SCHEDULE_LINEAR, 1, 0, 0, 1, LIST(1), LIST(1)},
        {"linear of warm-up", QKV_SCHEDULE_LINEAR, 1, 0, 10, 10, LIST(10), LIST(1)},
        {"linear in warm-up", QKV_SCHEDULE_LINEAR, 1, 0, 10, 5, LIST(5), LIST(0.5)},
        {"cosine of one", QKV_SCHEDULE_COSINE, 1, 0, 0, 1, LIST(1), LIST(1)},
        {"cosine of warm-up", QKV_SCHEDULE_COSINE, 1, 0, 10, 10, LIST(10), LIST(1)},
        {"cosine in warm-up", QKV_SCHEDULE_COSINE, 1, 0, 10, 5, LIST(5), LIST(0.5)},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct qkv_schedule schedule =
            schedule_of((struct qkv_training_config){.scheduling = CASES[i].scheduling,
                                                     .learning_rate = CASES[i].learning_rate,
                                                     .learning_rate_min = CASES[i].learning_rate_min,
                                                     .learning_rate_factor = 2,
                                                     .learning_rate_warmup = CASES[i].learning_rate_warmup,
                                                     .updates = CASES[i].updates});
        for (int k = 0; k < 6 && CASES[i].rate[k] > 0; k++)
            expect_rate_of(CASES[i].what, &schedule, CASES[i].update[k], 0, CASES[i].rate[k]);
    }
    const struct qkv_schedule exponential =
        schedule_of((struct qkv_training_config){.scheduling = QKV_SCHEDULE_EXPONENTIAL,
                                                 .learning_rate = 1,
                                                 .learning_rate_min = 0.2,
                                                 .decrease_factor = 0.5,
                                                 .learning_rate_warmup = 4});
    static const double BY_EPOCH[] = {1, 0.5, 0.25, 0.2};
    expect_rate_of("exponential", &exponential, 1, 0, 0.25);
    expect_rate_of("exponential", &exponential, 9, 100000, 0.2);
    for (int epoch = 0; epoch < 4; epoch++)
        expect_rate_of("exponential", &exponential, 9, epoch, BY_EPOCH[epoch]);
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
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    qkv_schedule_save(&schedule, &state);
    cr_assert_eq(qkv_schedule_restore(&restored, &state, NULL), QKV_OK);
    cr_assert_eq(restored.plateau.best, 0.1 + 0.2);
    expect_rate(&restored, 5, 0.5);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(qkv_schedule_record_validation(&schedule, 1, false),
                     qkv_schedule_record_validation(&restored, 1, false));
    expect_rate(&restored, 5, 0.25);
}

Test(schedule, plateau_refuses_a_state_without_it)
{
    struct qkv_schedule schedule = plateau(2);
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    expect_refusal(qkv_schedule_restore(&schedule, &state, &error), "schedule.plateau.seen is missing");
    qkv_schedule_save(&schedule, &state);
    qkv_state_set(&state, "schedule.plateau.waited", "1.5");
    expect_refusal(qkv_schedule_restore(&schedule, &state, &error),
                   "schedule.plateau.waited is \"1.5\", but must be a whole number");
    cr_assert_not(schedule.plateau.has_best);
}
