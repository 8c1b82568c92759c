/* training.guided_alignment, through the command line. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* A folder with the tiny task, whose words translate one by one, and its links: train.align. */
static const char *task_with_links(const char *name)
{
    const char *folder = tiny_task(name);
    run_ok("cd '%s' && awk -F '\t' '{n = split($1, w, \" \"); s = \"\"; for (i = 0; i < n; i++) s = s i "
           "\"-\" i \" \"; print s}' train.tsv > train.align && awk -F '\t' '{n = split($1, w, \" \"); s = "
           "\"\"; for (i = 0; i < n; i++) s = s i \"-\" i \" \"; print s}' dev.tsv > dev.align",
           folder);
    return folder;
}

#define GUIDED "-s data.train_links=train.align -s training.guided_alignment=1"
#define DROPOUT                                                                                              \
    "-s model.encoder.dropout=0.2 -s model.decoder.dropout=0.2 -s model.decoder.attention.dropout=0.1 "      \
    "-s training.shards=3"

/* The end of a checkpoint: parameters and moments. */
static const char *numbers_of(const char *folder, const char *run_folder)
{
    return run_ok("tail -c 30000 '%s/%s/last.safetensors' | cksum", folder, run_folder);
}

static void train(const char *folder, const char *run_folder, const char *options)
{
    run_ok("cd '%s' && qkv train c.yaml -q -s training.model_dir=%s %s", folder, run_folder, options);
}

static double error_rate(const char *folder, const char *run_folder, const char *reading)
{
    const char *scores = run_ok(
        "cd '%s' && qkv align %s dev.tsv --layer 1 --head 2 --reading %s --links dev.align -o %s.links 2>&1",
        folder, run_folder, reading, run_folder);
    cr_assert_eq(strncmp(scores, "AER ", 4), 0, "%s", scores);
    return atof(scores + 4);
}

Test(guided_alignment, the_head_learns_the_links)
{
    const char *folder = task_with_links("learns");
    train(folder, "plain", "-s training.updates=100");
    train(folder, "guided", "-s training.updates=100 -s training.guided_alignment_head=2 " GUIDED);
    double plain = error_rate(folder, "plain", "predicted"),
           guided = error_rate(folder, "guided", "predicted");
    cr_expect_lt(guided, 18, "%g", guided);
    cr_expect_gt(plain, guided + 15, "%g, %g", plain, guided);
}

Test(guided_alignment, the_head_learns_the_links_of_the_word_that_it_reads)
{
    const char *folder = task_with_links("reads");
    train(folder, "guided",
          "-s training.updates=100 -s training.guided_alignment_head=2 -s "
          "training.guided_alignment_reading=read " GUIDED);
    double read = error_rate(folder, "guided", "read"), predicted = error_rate(folder, "guided", "predicted");
    cr_expect_lt(read, 18, "%g", read);
    cr_expect_gt(predicted, read + 15, "%g, %g", predicted, read);
}

Test(guided_alignment, weight_0_changes_no_bit)
{
    const char *folder = task_with_links("off");
    train(folder, "plain", DROPOUT);
    train(folder, "off", DROPOUT " " GUIDED " -s training.guided_alignment=0");
    train(folder, "on", DROPOUT " " GUIDED);
    cr_expect_str_eq(numbers_of(folder, "off"), numbers_of(folder, "plain"));
    cr_expect_str_neq(numbers_of(folder, "on"), numbers_of(folder, "plain"));
}

Test(guided_alignment, threads_and_resuming_change_no_bit)
{
    static const char *const more[] = {"", " -s training.r_drop=1 -s training.logging_freq=7"};
    for (int i = 0; i < 2; i++) {
        const char *folder = task_with_links(i ? "r_drop" : "threads"),
                   *options = format(DROPOUT " " GUIDED "%s", more[i]);
        train(folder, "one", format("-j 1 %s", options));
        train(folder, "three", format("-j 3 %s", options));
        train(folder, "stopped", format("-j 2 %s -s training.updates=9", options));
        train(folder, "stopped", format("-j 3 %s --resume", options));
        cr_expect_str_eq(numbers_of(folder, "three"), numbers_of(folder, "one"));
        cr_expect_str_eq(numbers_of(folder, "stopped"), numbers_of(folder, "one"));
        const char *alignment = "cd '%s' && grep -o '\"alignment\":[^,]*' %s/metrics.jsonl";
        cr_expect_str_eq(run_ok(alignment, folder, "three"), run_ok(alignment, folder, "one"));
    }
}

Test(guided_alignment, other_links_are_refused_on_resuming)
{
    const char *folder = enter(task_with_links("other"));
    train(folder, "run", GUIDED);
    run_ok("sed -i '1s/^[^ ]* //' train.align");
    struct outcome outcome = run("qkv train c.yaml -q --resume -s training.updates=30 " GUIDED);
    cr_expect(fails(outcome, 2, "was trained with data.train_links"));
}

Test(guided_alignment, training_prints_the_loss)
{
    enter(task_with_links("printed"));
    const char *printed = run_ok("qkv train c.yaml " GUIDED " 2>&1");
    cr_expect(shows(printed, " (cross-entropy "));
    cr_expect(shows(printed, ", alignment "));
}

/* loss = cross-entropy + weight * alignment, where no label is smoothed. */
Test(guided_alignment, the_loss_is_the_sum_of_its_parts)
{
    const char *folder = enter(task_with_links("parts"));
    train(folder, "run", DROPOUT " " GUIDED " -s training.guided_alignment=0.5");
    run_ok("cd run && sed -n "
           "'s/.*\"loss\":\\([^,]*\\),\"cross_entropy\":\\([^,]*\\),\"alignment\":\\([^,]*\\),.*/\\1 \\2 "
           "\\3/p' metrics.jsonl | awk '{d = $1 - $2 - 0.5 * $3; if (d > 1e-5 || d < -1e-5 || $3 < 0.01) bad "
           "= 1} END {exit bad || NR < 4}'");
}

Test(guided_alignment, derivatives_are_right)
{
    enter(task_with_links("gradcheck"));
    const char *const settings[] = {
        "",
        DROPOUT
        " -s training.r_drop=2 -s training.guided_alignment_head=2 -s training.guided_alignment_reading=read",
        ("-s data.src.level=char -s data.trg.level=char -s data.src.max_length=30 -s data.trg.max_length=30 "
         "-s model.decoder.attention.key_value_heads=1")};
    for (int i = 0; i < 3; i++)
        run_ok("qkv gradcheck c.yaml --sample 2 --sentences 2 " GUIDED " %s", settings[i]);
}

Test(guided_alignment, links_may_be_the_third_column_of_the_pairs)
{
    const char *folder = enter(task_with_links("third"));
    run_ok("sed -i s/c/cc/ train.tsv && paste train.tsv train.align > three.tsv");
    const char *levels[] = {"", "-s data.src.level=bpe -s data.src.num_merges=1"};
    for (int i = 0; i < 2; i++) {
        train(folder, format("two%d", i), format(GUIDED " %s", levels[i]));
        train(folder, format("one%d", i),
              format(GUIDED " -s data.train=three.tsv -s data.train_links=three.tsv %s", levels[i]));
        cr_expect_str_eq(numbers_of(folder, format("one%d", i)), numbers_of(folder, format("two%d", i)));
    }
    train(folder, "off",
          "-s data.train=three.tsv -s data.train_links=three.tsv -s training.guided_alignment=0");
    train(folder, "none", "");
    cr_expect_str_eq(numbers_of(folder, "off"), numbers_of(folder, "none"));
    run_ok("qkv gradcheck c.yaml --sample 1 --sentences 1 " GUIDED
           " -s data.train=three.tsv -s data.train_links=three.tsv");
    cr_expect(refused(run("qkv train c.yaml -s data.train=three.tsv -s training.model_dir=x"),
                      "qkv: three.tsv:1:4: the line has a second tab; a line is source<TAB>target (cut -f1,2 "
                      "takes two columns)"));
}

Test(guided_alignment, what_cannot_be_is_refused)
{
    static const struct {
        const char *options, *message;
    } wrong[] = {
        {"-s data.train_links=", "training.guided_alignment is 1, but needs data.train_links"},
        {"-s data.train_links=none", "data.train_links: "},
        {"-s data.train_links=dev.align", "dev.align: has 8 lines, but the corpus has 80 pairs"},
        {"-s data.train_links=far", "far:2:1: link 0-50 has no target word 50"},
        {"-s data.train_links=doubtful", "doubtful: words may count from 0 or from 1"},
        {"-s data.train_links_from=1", "train.align:1:1: here is word 0, but --links-from 1"},
        {"-s data.train=c.prepared", "a prepared corpus does not say which words its tokens are part of"},
        {"-s training.guided_alignment_layer=2",
         "training.guided_alignment_layer is 2, but must not exceed model.decoder.num_layers (1)"},
        {"-s training.guided_alignment_head=3",
         "training.guided_alignment_head is 3, but must not exceed model.decoder.num_heads (2)"},
        {"-s data.src.level=bpe -s data.trg.level=bpe -s data.trg.bpe_dropout=0.1",
         "training.guided_alignment needs the same pieces of words in each epoch"},
    };
    enter(task_with_links("wrong"));
    run_ok("sed '2s/^/0-50 /' train.align > far && awk '{print /2-2/ ? \"1-1\" : \"\"}' train.align > "
           "doubtful && qkv prepare c.yaml -o c.prepared");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct outcome outcome = run("qkv train c.yaml -q " GUIDED " %s", wrong[i].options);
        cr_expect(fails(outcome, 2, wrong[i].message), "%s", wrong[i].options);
    }
    struct outcome outcome =
        run("sed 's/num_heads: 2, //; s/ff_size: 32, //; s/{num_layers/{type: recurrent, num_layers/; "
            "s/attention: {dropout: 0}, //' c.yaml > r.yaml && qkv train r.yaml -q " GUIDED);
    cr_expect(fails(outcome, 2, "training.guided_alignment is 1, but needs model.decoder.type transformer"));
}
