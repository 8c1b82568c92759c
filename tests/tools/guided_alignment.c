/* training.guided_alignment, through the command line. */
#include "support.h"

/* Enters a tiny task, whose words translate one by one, with its links: train.align and dev.align. */
static void enter_links(void)
{
    enter_tiny_task();
    write_links("train.tsv", "train.align");
    write_links("dev.tsv", "dev.align");
}

TestSuite(guided_alignment, .init = enter_links);

#define GUIDED "-s data.train_links=train.align -s training.guided_alignment=1"
#define DROPOUT                                                                                              \
    "-s model.encoder.dropout=0.2 -s model.decoder.dropout=0.2 -s model.decoder.attention.dropout=0.1 "      \
    "-s training.shards=3"

static void train(const char *run_folder, const char *options)
{
    run_ok("qkv train c.yaml -q -s training.model_dir=%s %s", run_folder, options);
}

static double error_rate(const char *run_folder, const char *reading)
{
    const char *scores =
        run_ok("qkv align %s dev.tsv --layer 1 --head 2 --reading %s --links dev.align -o links 2>&1",
               run_folder, reading);
    cr_assert(begins(scores, "AER "));
    return atof(scores + 4);
}

/* A head that learns the links of the token that it reads does not have those of the predicted one. */
Test(guided_alignment, the_head_learns_the_links)
{
    static const char *const readings[] = {"predicted", "read"};
    for (int i = 0; i < 2; i++) {
        train(readings[i], format("-s training.updates=100 -s training.guided_alignment_head=2 -s "
                                  "training.guided_alignment_reading=%s " GUIDED,
                                  readings[i]));
        double right = error_rate(readings[i], readings[i]), other = error_rate(readings[i], readings[!i]);
        cr_expect_lt(right, 18, "%s: %g", readings[i], right);
        cr_expect_gt(other, right + 15, "%s: %g, %g", readings[i], other, right);
    }
}

Test(guided_alignment, weight_0_changes_no_bit)
{
    train("plain", DROPOUT);
    train("off", DROPOUT " " GUIDED " -s training.guided_alignment=0");
    train("on", DROPOUT " " GUIDED);
    cr_expect_str_eq(checksum_of_run("off"), checksum_of_run("plain"));
    cr_expect_str_neq(checksum_of_run("on"), checksum_of_run("plain"));
}

Test(guided_alignment, threads_and_resuming_change_no_bit)
{
    static const char *const more[] = {"", " -s training.r_drop=1 -s training.logging_freq=7"};
    for (int i = 0; i < 2; i++) {
        enter_links();
        expect_equal_bits(format("c.yaml " DROPOUT " " GUIDED "%s", more[i]), "", 20);
        const char *losses = "grep -o '\"alignment\":[^,]*' %s/metrics.jsonl";
        cr_expect_str_eq(run_ok(losses, "three"), run_ok(losses, "one"));
    }
}

Test(guided_alignment, training_prints_the_loss_and_resumes_with_the_same_links)
{
    const char *printed = run_ok("qkv train c.yaml " GUIDED " 2>&1");
    cr_expect(shows(printed, " (cross-entropy ") && shows(printed, ", alignment "));
    run_ok("sed -i '1s/^[^ ]* //' train.align");
    cr_expect(fails(run("qkv train c.yaml -q --resume -s training.updates=30 " GUIDED), 2,
                    "was trained with data.train_links"));
}

/* loss = cross-entropy + weight * alignment, where no label is smoothed. */
Test(guided_alignment, the_loss_is_the_sum_of_its_parts)
{
    train("run", DROPOUT " " GUIDED " -s training.guided_alignment=0.5");
    run_ok("cd run && sed -n "
           "'s/.*\"loss\":\\([^,]*\\),\"cross_entropy\":\\([^,]*\\),\"alignment\":\\([^,]*\\),.*/\\1 \\2 "
           "\\3/p' metrics.jsonl | awk '{d = $1 - $2 - 0.5 * $3; if (d > 1e-5 || d < -1e-5 || $3 < 0.01) bad "
           "= 1} END {exit bad || NR < 4}'");
}

Test(guided_alignment, derivatives_are_right)
{
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
    run_ok("sed -i s/c/cc/ train.tsv && paste train.tsv train.align > three.tsv");
    const char *levels[] = {"", "-s data.src.level=bpe -s data.src.num_merges=1"};
    for (int i = 0; i < 2; i++) {
        train(format("two%d", i), format(GUIDED " %s", levels[i]));
        train(format("one%d", i),
              format(GUIDED " -s data.train=three.tsv -s data.train_links=three.tsv %s", levels[i]));
        cr_expect_str_eq(checksum_of_run(format("one%d", i)), checksum_of_run(format("two%d", i)));
    }
    train("off", "-s data.train=three.tsv -s data.train_links=three.tsv -s training.guided_alignment=0");
    train("none", "");
    cr_expect_str_eq(checksum_of_run("off"), checksum_of_run("none"));
    run_ok("qkv gradcheck c.yaml --sample 1 --sentences 1 " GUIDED
           " -s data.train=three.tsv -s data.train_links=three.tsv");
    cr_expect(refused(run("qkv train c.yaml -s data.train=three.tsv -s training.model_dir=x"),
                      "qkv: three.tsv:1:4: the line has a second tab; a line is source<TAB>target (cut -f1,2 "
                      "takes two columns)"));
}

Test(guided_alignment, what_cannot_be_is_refused)
{
    static const char *const wrong[][2] = {
        {"-s data.train_links=", "training.guided_alignment is 1, but needs data.train_links"},
        {"-s data.train_links=none", "data.train_links: "},
        {"-s data.train_links=far", "far:2:1: link 0-50 has no target word 50"},
        {"-s data.train_links_from=1", "train.align:1:1: here is word 0, but --links-from 1"},
        {"-s data.train=c.prepared", "a prepared corpus does not say which words its tokens are part of"},
        {"-s training.guided_alignment_layer=2",
         "training.guided_alignment_layer is 2, but must not exceed model.decoder.num_layers (1)"},
        {"-s training.guided_alignment_head=3",
         "training.guided_alignment_head is 3, but must not exceed model.decoder.num_heads (2)"},
        {"-s data.src.level=bpe -s data.trg.level=bpe -s data.trg.bpe_dropout=0.1",
         "training.guided_alignment needs the same pieces of words in each epoch"},
    };
    run_ok("sed '2s/^/0-50 /' train.align > far && qkv prepare c.yaml -o c.prepared");
    EXPECT_FAILURES("qkv train c.yaml -q " GUIDED, wrong);
    struct outcome outcome =
        run("sed 's/num_heads: 2, //; s/ff_size: 32, //; s/{num_layers/{type: recurrent, num_layers/; "
            "s/attention: {dropout: 0}, //' c.yaml > r.yaml && qkv train r.yaml -q " GUIDED);
    cr_expect(fails(outcome, 2, "training.guided_alignment is 1, but needs model.decoder.type transformer"));
}
