/* What training notices of itself, with trainings that really show it, and with others that must be left in peace. */
#include "training.h"

enum { WORDS = 30 };

/* Writes pairs of two to six random words. The target is the source word by word; without `related`, other random words. */
static void write_pairs(const char *folder, const char *name, int pairs, uint32_t step, bool related)
{
    const struct qkv_random random = {.seed = 1, .stream = QKV_STREAM_GENERATE, .step = step};
    char *text RELEASED(free_memory) = malloc((size_t)pairs * 60 + 1), *end = text;
    uint64_t draw = 0;
    for (int i = 0; i < pairs; i++) {
        int words[6], length = 2 + (int)qkv_random_below(random, draw++, 5);
        for (int k = 0; k < length; k++) words[k] = (int)qkv_random_below(random, draw++, WORDS);
        for (int k = 0; k < length; k++) end += sprintf(end, "%sw%d", k ? " " : "", words[k]);
        *end++ = '\t';
        for (int k = 0; k < length; k++)
            end += sprintf(end, "%sv%d", k ? " " : "",
                           related ? words[k] : (int)qkv_random_below(random, draw++, WORDS));
        *end++ = '\n';
    }
    *end = '\0';
    write_text(folder, name, text);
}

/* A folder with c.yaml, train.tsv and dev.tsv, whose pairs are related or not. */
static const char *task(const char *name, bool related)
{
    const char *folder = scratch(name);
    write_pairs(folder, "train.tsv", related ? 400 : 60, 1, related);
    write_pairs(folder, "dev.tsv", 40, 2, related);
    write_text(folder, "c.yaml",
               "name: tiny\n"
               "data: {train: train.tsv, dev: dev.tsv, src: {lang: xx}, trg: {lang: yy}}\n"
               "model:\n"
               "  encoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, dropout: 0}\n"
               "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, dropout: 0}\n"
               "training: {model_dir: run, batch_size: 20, learning_rate: 0.01, validation_samples: 0}\n");
    return folder;
}

/* Trains and returns the notices, one a line. */
static char *notices(const char *folder, const char *settings)
{
    struct outcome outcome = run("cd '%s' && qkv train c.yaml --overwrite %s", folder, settings);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    char *found = format("%s", "");
    for (char *line = strtok(outcome.error, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, "notice: ", 8)) found = format("%s%s\n", found, line);
    return found;
}

/* Fails unless there is a notice, and all are of this kind. */
static void expect_only(const char *found, const char *kind)
{
    cr_expect(*found && occurrences(found, "\n") == occurrences(found, kind), "%s, but only: %s", found,
              kind);
}

static const char OVERFITS[] = ": the model overfits: since update ",
                  BY_HEART[] = ": the model learns its pairs by heart; more pairs help, ",
                  GUESSES[] = ", no better than guessing ", STILL_IMPROVES[] = ": the model still improves: ",
                  COLLAPSED[] = " translations of data.dev are the same sentence: ";

/* Trainings that show something. The mean loss of a short training since the beginning may be no better than guessing, but that
 * of its last updates must be. A loss far above that of equal probabilities needs no 1000 updates to be noticed. In a collapse,
 * the rate is so low that the source makes no difference yet: one so high that training collapses would give other translations
 * on processors without fused multiply-add. */
static const struct shown {
    const char *name;
    bool related;
    const char *settings;
    const char *kind; /* of every notice, but of one where it is COLLAPSED; NULL: there is none */
    const char *contains, *also, *lacks;
} SHOWN[] = {
    {"overfitting", false, "updates=650 -s training.validation_freq=50", OVERFITS,
     "raise model.encoder.dropout and model.decoder.dropout, stop early with training.patience, or make the "
     "model smaller\n"},
    {"patient", false, "updates=300 -s training.validation_freq=50 -s training.patience=4", OVERFITS,
     .lacks = "training.patience"},
    /* Patience ends the training before three validations show that it overfits. */
    {"by_heart", false, "updates=650 -s training.validation_freq=50 -s training.patience=2", BY_HEART,
     "higher model.encoder.dropout and model.decoder.dropout\n"},
    /* The loss of data.dev falls, BLEU stays. */
    {"related", true,
     "updates=650 -s training.validation_freq=50 -s training.patience=2 "
     "-s training.early_stopping_metric=bleu -s training.learning_rate=1e-4",
     STILL_IMPROVES,
     "raise training.patience and go on, as in qkv train CONFIG --resume -s training.patience=4\n"},
    {"guessing", true, "updates=1100 -s training.learning_rate=1e-9 -s data.dev=", GUESSES,
     "notice: update 1000: the cross-entropy is ", "training.learning_rate"},
    /* The warm-up has ended less than 1000 updates before. */
    {"warm", true,
     "updates=1100 -s training.learning_rate=1e-9 -s data.dev= -s training.learning_rate_warmup=101", GUESSES,
     .lacks = "update 1000: "},
    {"short", true, "updates=100 -s training.learning_rate=1e-9 -s data.dev=", GUESSES},
    {"short_but_good", true, "updates=100 -s training.learning_rate=0.003"},
    {"diverging", true, "updates=510 -s training.learning_rate=30 -s data.dev=", GUESSES,
     "notice: update 500: the cross-entropy is "},
    {"collapse", true, "updates=1000 -s training.validation_freq=500 -s training.learning_rate=5e-5",
     COLLAPSED, "lower training.learning_rate, or raise training.learning_rate_warmup\n"},
    /* Nothing follows that could show that a short training learns. */
    {"end", true, "updates=130 -s training.validation_freq=20 -s training.learning_rate=1e-9", GUESSES,
     "notice: update 130: ", "): train longer, try another "},
    {"collapsed_end", true, "updates=130 -s training.validation_freq=20 -s training.learning_rate=4e-4",
     COLLAPSED, "notice: update 130: ", ": train longer, lower training.learning_rate"},
};

static void expect_shown(size_t first)
{
    for (size_t i = first; i < sizeof SHOWN / sizeof *SHOWN; i += 2) {
        const struct shown *c = &SHOWN[i];
        const char *found = notices(task(c->name, c->related), format("-s training.%s", c->settings));
        if (!c->kind)
            cr_expect_str_eq(found, "", "%s", c->name);
        else if (!strcmp(c->kind, COLLAPSED))
            cr_expect_eq(occurrences(found, COLLAPSED), 1, "%s: %s", c->name, found);
        else
            expect_only(found, c->kind);
        cr_expect(strcmp(c->name, "overfitting") || occurrences(found, "\n") <= 2,
                  "the second after twice as many updates: %s", found);
        cr_expect(!c->contains || strstr(found, c->contains), "%s: %s", c->name, found);
        cr_expect(!c->also || strstr(found, c->also), "%s: %s", c->name, found);
        cr_expect(!c->lacks || !strstr(found, c->lacks), "%s: %s", c->name, found);
    }
}

Test(notices, of_what_trainings_show)
{
    expect_shown(0);
}

Test(notices, of_what_other_trainings_show)
{
    expect_shown(1);
}

/* The lowest loss of data.dev may be that of a part before. The notice comes once, in whichever part. */
Test(notices, of_overfitting_in_a_training_of_several_parts)
{
    const char *folder = task("parts", false),
               *settings = "-s training.validation_freq=50 -s training.logging_freq=50";
    const char *once = notices(folder, format("%s -s training.updates=500", settings));
    const char *from = strstr(once, "since update ");
    cr_assert_not_null(from, "%s", once);
    char *parts = format("%s", notices(folder, format("%s -s training.updates=100", settings)));
    for (int updates = 200; updates <= 500; updates += 100) {
        struct outcome outcome =
            run("cd '%s' && qkv train c.yaml --resume %s -s training.updates=%d", folder, settings, updates);
        cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
        parts = format("%s%s", parts, outcome.error);
    }
    cr_expect_eq(occurrences(parts, OVERFITS), occurrences(once, OVERFITS), "%s", parts);
    int size = (int)strcspn(from, ",");
    cr_expect(shows(parts, format("%.*s,", size, from)), "%s, but in parts: %s", once, parts);
}

/* Guessing has a loss that can be computed by hand: three equally frequent tokens, with </s>. */
Test(notices, the_loss_of_guessing)
{
    if (is_slow_build()) cr_skip_test("a long training, and others here are like it");
    const char *folder = task("by_hand", true);
    char text[60 * 8] = "";
    for (int i = 0; i < 60; i++) strcat(text, "a\tb c\n");
    write_text(folder, "train.tsv", text);
    const char *settings = "-s training.updates=1000 -s training.learning_rate=1e-9 -s data.dev=";
    const char *found = notices(folder, settings);
    cr_expect(shows(found, "by its frequency (1.10): "), "log 3 = 1.0986: %s", found);
    found = notices(folder, format("%s -s training.label_smoothing=0.4", settings));
    cr_expect(shows(found, "by its frequency (1.10): "), "cross-entropies without smoothing: %s", found);
    found = notices(folder, format("%s -s training.learning_rate=1.42e-5", settings));
    cr_expect(shows(found, ", hardly better than guessing "), "less than 2 %% below: %s", found);
}

/* ---- no false alarms ---- */

/* Also where the learning rate becomes too high, so that both losses rise. */
Test(notices, none_of_trainings_that_learn_or_begin)
{
    static const char *const SETTINGS[] = {
        "updates=60 -s training.validation_freq=2",
        "updates=99 -s training.validation_freq=9 -s training.learning_rate=1e-9",
        "updates=400 -s training.validation_freq=100",
        "updates=1000 -s training.validation_freq=20 -s training.learning_rate=0.3 "
        "-s training.learning_rate_warmup=2000",
        "updates=2000 -s training.validation_freq=100 -s training.learning_rate=0.003 "
        "-s model.encoder.dropout=0.1",
        /* Links that cannot be learned make the loss greater than that of guessing, but not the cross-entropy. */
        "updates=1500 -s training.validation_freq=500 -s training.learning_rate=0.003 "
        "-s data.train_links=train.align -s training.guided_alignment=40",
    };
    const char *folder = task("learns", true);
    run_ok("cd '%s' && awk '{ print NR %% 2 \"-0 \" (NR + 1) %% 2 \"-1\" }' train.tsv >train.align", folder);
    for (int i = 0; i < (is_slow_build() ? 1 : 6); i++) {
        const char *found = notices(folder, format("-s training.%s", SETTINGS[i]));
        bool still_improves = i == 2 || i == 5; /* the end comes early, of which there is a notice */
        cr_expect(still_improves ? strstr(found, STILL_IMPROVES) && strchr(found, '\n')[1] == '\0' : !*found,
                  "%s: %s", SETTINGS[i], found);
    }
}

/* The losses are those that metrics.jsonl has, and following the advice goes on. */
Test(notices, of_an_end_before_the_best)
{
    const char *folder = task("early", true);
    const char *found = notices(folder, "-s training.updates=200 -s training.validation_freq=40");
    const char *losses = run_ok("cd '%s' && grep '\"validation\"' run/metrics.jsonl | sed -n '3s/.*\"loss\": "
                                "*\\([0-9.]*\\).*/\\1/p; $s/.*\"loss\": *\\([0-9.]*\\).*/\\1/p'",
                                folder);
    double before, last;
    cr_assert_eq(sscanf(losses, "%lf %lf", &before, &last), 2, "%s", losses);
    cr_expect_str_eq(found, format("notice: update 200: the model still improves: loss of data.dev was %.2f "
                                   "at update 120, and is %.2f: raise training.updates and go on, as in qkv "
                                   "train CONFIG --resume -s training.updates=400\n",
                                   before, last));
    run_ok("cd '%s' && qkv train c.yaml -q --resume -s training.updates=400 -s training.validation_freq=40",
           folder);
    cr_expect(shows(notices(folder, "-s training.updates=200 -s training.validation_freq=40 -s "
                                    "training.scheduling=linear"),
                    ": train again with a higher training.updates\n"));
    cr_expect(
        shows(notices(folder, "-s training.epochs=10 -s training.validation_freq=40"),
              "raise training.epochs and go on, as in qkv train CONFIG --resume -s training.epochs=20\n"));
}

/* Without an end of sentence in the training text, translations run to the greatest length. */
Test(notices, of_repetition_without_end)
{
    const char *folder = task("endless", true);
    run_ok("cd '%s' && awk -F '\t' '{ t = $2; for (i = 0; i < 30; i++) t = t \" \" $2; print $1 \"\t\" t }' "
           "train.tsv >long && mv long train.tsv",
           folder);
    const char *found = notices(folder, "-s training.updates=250 -s training.validation_freq=250");
    cr_expect(
        shows(found, " translations of data.dev repeat the same words without end: train longer, lower "));
}

Test(notices, none_of_one_translation_where_there_is_one_reference)
{
    if (is_slow_build()) cr_skip_test("a long training, and others here are like it");
    const char *folder = task("same", true);
    char text[60 * 12] = "";
    for (int i = 0; i < 60; i++) sprintf(text + strlen(text), "a%d\tb c\n", i % 9);
    write_text(folder, "train.tsv", text);
    write_text(folder, "dev.tsv", text);
    cr_expect_str_eq(notices(folder, "-s training.updates=1200 -s training.validation_freq=400"), "");
}

/* The loss of training falls, and that of the dev set rises, but neither is better than guessing. */
Test(notices, a_diverged_training_is_not_said_to_overfit)
{
    if (is_slow_build()) cr_skip_test("a long training, and others here are like it");
    const char *folder = task("diverged", false);
    const char *found = notices(folder, "-s training.updates=1600 -s training.validation_freq=100 "
                                        "-s training.learning_rate=3");
    cr_expect_eq(occurrences(found, OVERFITS), 0, "%s", found);
    cr_expect_eq(occurrences(found, GUESSES), 2, "%s", found);
}

/* ---- to whom ---- */

Test(notices, are_no_errors_and_quiet_hides_them)
{
    const char *folder = task("quiet", false);
    struct outcome outcome =
        run("cd '%s' && qkv train c.yaml -q -s training.updates=300 -s training.validation_freq=50", folder);
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error, "");
}

static void hear(void *context, const char *sentence)
{
    int *heard = context;
    *heard += !!strstr(sentence, OVERFITS);
}

Test(notices, change_no_bits)
{
    const char *folder = task("bits", false);
    const char *config = format("%s/c.yaml", folder), *silent = format("%s/silent", folder),
               *loud = format("%s/loud", folder);
    struct training training = {
        .config = config, .run = silent, .settings = "updates=300 validation_freq=50"};
    training_run(training);
    int heard = 0;
    const struct qkv_train_listener listener = {.context = &heard, .notice = hear};
    training.run = loud;
    training.listener = &listener;
    training_run(training);
    cr_expect_eq(heard, 1);
    training_expect_same(silent, loud);
}

/* ---- keys without effect ---- */

Test(notices, of_keys_that_the_optimizer_or_schedule_does_not_read)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"-s training.adam_betas=[0.8,0.9] -s training.learning_rate_warmup=2 -s training.momentum=0.9", ""},
        {"-s training.momentum=0.5 -s training.nesterov=true",
         "notice: training.momentum is 0.5, but has an effect only when training.optimizer is sgd (it is "
         "adam)\n"
         "notice: training.nesterov is true, but has an effect only when training.optimizer is sgd (it is "
         "adam)\n"},
        {"-s training.optimizer=sgd -s training.momentum=0.5 -s training.adam_betas=[0.8,0.9]",
         "notice: training.adam_betas is [0.8, 0.9], but has an effect only when training.optimizer is adam "
         "or adamw (it is sgd)\n"},
        {"-s training.simcut_rate=0.2 -s training.guided_alignment_head=2",
         "notice: training.simcut_rate is 0.2, but has an effect only when training.simcut is above 0 (it is "
         "0)\n"
         "notice: training.guided_alignment_head is 2, but has an effect only when training.guided_alignment "
         "is above 0 (it is 0)\n"},
        {"-s training.scheduling=noam -s training.learning_rate_warmup=2 -s training.decrease_factor=0.5",
         "notice: training.learning_rate is 0.01, but has an effect only when training.scheduling is "
         "constant, inverse_sqrt, linear, cosine, exponential or plateau (it is noam)\n"
         "notice: training.decrease_factor is 0.5, but has an effect only when training.scheduling is "
         "exponential or plateau (it is noam)\n"},
    };
    const char *folder = task("unread", true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(notices(folder, format("-s training.updates=1 %s", cases[i][0])), cases[i][1]);
    /* Runs that have such keys can be resumed and opened. */
    struct outcome outcome = run("cd '%s' && qkv train c.yaml --resume -s training.updates=2 %s && "
                                 "echo w1 | qkv translate run -q",
                                 folder, cases[5][0]);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_eq(occurrences(outcome.error, "\nnotice: "), 2, "%s", outcome.error);
    outcome = run("cd '%s' && qkv train c.yaml -q --overwrite -s training.updates=1 -s training.momentum=0.5",
                  folder);
    cr_expect_str_empty(outcome.error);
}
