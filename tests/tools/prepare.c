/* qkv prepare, and training from the file that it writes. */
#include "data/prepared.h"

#include "support.h"

#include <zlib.h>

/* Enters a tiny task with words of two letters, and new.tsv with words that train.tsv does not have. */
static void enter_words_task(const char *name)
{
    enter(tiny_task(name));
    run_ok("sed -i -E 's/([a-z]) ([a-z])/\\1\\2/g; s/([A-Z]) ([A-Z])/\\1\\2/g' train.tsv dev.tsv && "
           "tac train.tsv | sed '1~7s/a/q/g; 1~5s/B/Q/' >new.tsv");
}

/* ---- the same bits ---- */

#define BPE(options)                                                                                         \
    "-s data.src.level=bpe -s data.trg.level=bpe -s data.src.num_merges=8 -s data.trg.num_merges=8 " options

/* Parameters, moments, vocabularies, merges and losses of a run. */
static const char *content_of(const char *run_name)
{
    return run_ok("cd %s && tail -c 30000 last.safetensors | cksum && cat *.vocabulary && { cat *.codes "
                  "*.pieces 2>/dev/null; sed 's/\"seconds\".*//' metrics.jsonl; }",
                  run_name);
}

Test(prepare, training_gives_the_same_bits_as_from_the_text)
{
    static const char *const settings[] = {
        "",
        "-s data.src.level=char -s data.trg.split_punctuation=true -s data.src.lowercase=true",
        "-s data.src.max_length=3 -s data.trg.voc_limit=5 -s data.src.voc_min_freq=20",
        "-s data.joint_vocabulary=true -s training.batch_type=token -s training.batch_size=40",
        BPE("-s data.joint_vocabulary=true -s data.src.bpe_min_freq=2 -s data.trg.bpe_min_freq=2"),
        BPE("-s data.trg.bpe_min_freq=3"),
        "-s data.train=pairs -s training.batch_size=7",
        "-s data.train=train.tsv.gz",
    };
    enter_words_task("bits");
    run_ok("cut -f 1 train.tsv >pairs.a && cut -f 2 train.tsv | gzip >pairs.b.gz && gzip -k train.tsv");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += is_slow_build() ? 4 : 1) {
        run_ok("train() { qkv train c.yaml -q --overwrite %s \"$@\"; }; train -s training.model_dir=text && "
               "qkv prepare c.yaml %s -o x.prepared --overwrite && "
               "train -j 2 -s data.train=x.prepared -s training.model_dir=prepared",
               settings[i], settings[i]);
        cr_expect_str_eq(content_of("prepared"), content_of("text"), "%s", settings[i]);
    }
}

Test(prepare, from_a_run_gives_the_same_bits_as_training_from_it)
{
    static const char *const settings[] = {
        "",
        "-s data.joint_vocabulary=true -s data.src.level=char -s data.trg.level=char",
        "-s data.src.voc_limit=6",
        BPE("-s data.joint_vocabulary=true -s data.src.bpe_min_freq=2 -s data.trg.bpe_min_freq=2"),
        BPE("-s data.trg.bpe_min_freq=3"),
    };
    enter_words_task("from_bits");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        run_ok("train() { qkv train c.yaml -q --overwrite %s \"$@\"; }; train -s training.model_dir=old && "
               "train --from old -s data.train=new.tsv -s training.model_dir=text && "
               "qkv prepare c.yaml %s --from old -s data.train=new.tsv -o x.prepared --overwrite && "
               "train --from old -s data.train=x.prepared -s training.model_dir=prepared",
               settings[i], settings[i]);
        cr_expect_str_eq(content_of("prepared"), content_of("text"), "%s", settings[i]);
    }
    /* A config that names the run needs no option. */
    const char *from = "-s training.from=old -s data.train=new.tsv";
    run_ok("qkv train c.yaml -q --overwrite -s training.model_dir=old && qkv prepare c.yaml %s -o "
           "old.prepared && qkv prepare c.yaml --from old/last.safetensors -s data.train=new.tsv -o "
           "file.prepared && qkv prepare c.yaml %s -s training.from_vocabulary=new -o new.prepared && qkv "
           "prepare c.yaml -s data.train=new.tsv -o own.prepared && cmp old.prepared file.prepared && cmp "
           "new.prepared own.prepared && ! cmp -s old.prepared own.prepared",
           from, from);
}

Test(prepare, a_gradient_check_reads_the_same_pairs)
{
    enter(tiny_task("gradients"));
    const char *check = "gradcheck c.yaml --sentences 2 -n 1 | sed 's/[0-9.]* s$//'";
    const char *text = run_ok("qkv %s", check);
    run_ok("qkv prepare c.yaml -o x.prepared && sed -i 's/train.tsv/x.prepared/' c.yaml");
    cr_expect_str_eq(run_ok("qkv %s", check), text);
}

/* ---- what it prints and refuses ---- */

Test(prepare, it_says_what_it_has_written)
{
    enter(tiny_task("said"));
    write_text(".", "four.tsv", "a b\tA\na b c\tA B\na\tA\nd e f g h\tA\n");
    cr_expect_str_eq(run_ok("qkv prepare c.yaml -o x.prepared -s data.train=four.tsv -s "
                            "data.src.max_length=3 -s data.trg.voc_min_freq=2"),
                     "4 pairs, of which 1 are left out because a side is longer than its max_length\n"
                     "source: 6 tokens, 0.00% of them <unk>; a vocabulary of 6\n"
                     "target: 4 tokens, 25.00% of them <unk>; a vocabulary of 4\n"
                     "x.prepared: 0.0 MB; train from it with -s data.train=x.prepared\n");
}

Test(prepare, what_cannot_be_prepared_is_refused_and_leaves_no_file)
{
    static const char *const cases[][2] = {
        {"x", "qkv: x: the name of a prepared corpus must end in .prepared"},
        {".prepared", "qkv: .prepared: the name of a prepared corpus must end in .prepared"},
        {"made/x.prepared", "qkv: made/x.prepared: cannot be written: there is no folder made"},
        {"x.prepared -s data.train=-", "qkv: -: the text is read twice: data.train must be a file"},
        {"x.prepared -s data.train=no.tsv", "qkv: no.tsv: there is no such text: set data.train to its path"},
        {"x.prepared -s data.train=bad.tsv",
         "qkv: bad.tsv:2:4: the line has no tab; a line is source<TAB>target"},
        {"x.prepared -s data.train=old.prepared",
         "qkv: old.prepared: is prepared already: data.train must be the text"},
        {"old.prepared", "qkv: old.prepared: exists already; --overwrite replaces it"},
        {"x.prepared -s data.src.level=bpe -s data.src.num_merges=4 -s data.src.bpe_dropout=0.1",
         "qkv: x.prepared: a prepared corpus has the same pieces in each epoch, so that data.src.bpe_dropout "
         "(0.1) must be 0: leave it out, or train from the text"},
        {"x.prepared -s training.guided_alignment=1 -s data.train_links=links",
         "qkv: x.prepared: a prepared corpus does not say which words its tokens are part of, which "
         "training.guided_alignment needs: train from the text, or set it to 0"},
        {"x.prepared --from none", "qkv: training.from: none: there is no such run or file"},
        {"x.prepared --from run -s data.src.level=char",
         "qkv: data.src.level is char, but in run, whose vocabulary is used, it is word: set it to word, or "
         "training.from_vocabulary to new"},
    };
    enter(tiny_run("refused", 1));
    write_text(".", "bad.tsv", "a\tb\nabc\n");
    write_text(".", "old.prepared", "old");
    EXPECT_REFUSALS("qkv prepare c.yaml -o", cases);
    run_ok("qkv prepare c.yaml -o old.prepared --overwrite");
}

#define TRAIN(file) "train c.yaml -q -s training.model_dir=new -s data.train=" file ".prepared "
#define OTHER(key, was, now)                                                                                 \
    LIST(TRAIN("x") "-s " key "=" now,                                                                       \
         "qkv: x.prepared: was prepared with " key " " was ", but the config has " now                       \
         ": put it back, or prepare the text again")
#define TEXT "qkv: x.prepared: is a prepared corpus, which only data.train can be: give the text"

Test(prepare, a_file_is_refused_where_it_does_not_fit)
{
    static const char *const cases[][2] = {
        OTHER("data.src.lang", "a", "fr"),
        OTHER("data.src.level", "word", "char"),
        OTHER("data.trg.lowercase", "false", "true"),
        OTHER("data.src.split_punctuation", "false", "true"),
        OTHER("data.trg.max_length", "10", "9"),
        OTHER("data.src.voc_limit", "0", "7"),
        OTHER("data.trg.voc_min_freq", "1", "2"),
        OTHER("data.joint_vocabulary", "false", "true"),
        {TRAIN("bpe") BPE("-s data.trg.num_merges=7"),
         "qkv: bpe.prepared: was prepared with data.trg.num_merges 8, but the config has 7: put it back, or "
         "prepare the text again"},
        {TRAIN("x") BPE("-s data.trg.bpe_dropout=0.2"),
         "qkv: x.prepared: a prepared corpus has the same pieces in each epoch, so that data.trg.bpe_dropout "
         "(0.2) must be 0: leave it out, or train from the text"},
        {"evaluate run x.prepared", TEXT},
        {"heads run x.prepared", TEXT},
        {"align run x.prepared", TEXT},
        {"init x.prepared", TEXT},
        {"train c.yaml -q --overwrite -s data.dev=x.prepared", TEXT},
    };
    enter_words_task("settings");
    run_ok("qkv prepare c.yaml -o x.prepared && qkv prepare c.yaml -o bpe.prepared " BPE(
        "") "&& qkv train c.yaml -q -s data.train=x.prepared");
    EXPECT_REFUSALS("qkv", cases);
    /* Other text; another vocabulary than that of the run, also of as many words. */
    run_ok("tac train.tsv >y.tsv && head -n 3 train.tsv >few.tsv && tr a 1 <train.tsv >words.tsv && "
           "for text in y few words; do qkv prepare c.yaml -o $text.prepared -s data.train=$text.tsv; done");
    cr_expect(fails(run("qkv train c.yaml -q --resume -s data.train=y.prepared -s training.updates=30"), 2,
                    "but now y.prepared holds other text"));
    cr_expect(fails(run("qkv " TRAIN("few") "--from run"), 2,
                    "few.prepared: was prepared with another source vocabulary"));
    cr_expect(fails(run("qkv " TRAIN("words") "--from run"), 2,
                    "words.prepared: was prepared with another source vocabulary"));
}

#define CODES "-s data.src.level=bpe -s data.src.bpe_codes=codes -s data.src.bpe_min_freq=2 "

Test(prepare, other_merges_are_refused)
{
    enter_words_task("merges");
    write_text(".", "codes", "#version: 0.2\na b</w>\nb c</w>\n");
    run_ok("qkv prepare c.yaml -o x.prepared " CODES
           "&& qkv train c.yaml -q -s data.train=x.prepared " CODES);
    write_text(".", "codes", "#version: 0.2\na b</w>\nb d</w>\n");
    cr_expect(refused(run("qkv " TRAIN("x") CODES), "qkv: x.prepared: was prepared with other merges than "
                                                    "those of codes: prepare the text again"));
    run_ok("qkv train c.yaml -q -s training.model_dir=old " CODES);
    cr_expect(refused(run("qkv " TRAIN("x") CODES "--from old"),
                      "qkv: x.prepared: was prepared with other source merges than those of the run: prepare "
                      "it with `qkv prepare --from RUN`"));
}

/* ---- damaged files ---- */

static char *good; /* the bytes of a file */
static size_t good_size;
static struct qkv_prepared_header header; /* its header */

static void enter_damaged(const char *name)
{
    enter(tiny_task(name));
    run_ok("qkv prepare c.yaml -o good.prepared");
    good = read_file("good.prepared", &good_size);
    memcpy(&header, good, sizeof header);
}

/* Writes the bytes to x.prepared, trains from it, and expects to be refused with this sentence. */
static void expect_damage(const char *bytes, size_t size, const char *sentence)
{
    write_bytes(".", "x.prepared", bytes, size);
    cr_expect(refused(run("qkv train c.yaml -q -s data.train=x.prepared"),
                      format("qkv: x.prepared: %s", sentence)));
}

/* Changes bytes of the good file, and puts them back. */
static void expect_changed(size_t at, const void *bytes, size_t count, const char *sentence)
{
    char kept[64];
    memcpy(kept, good + at, count);
    memcpy(good + at, bytes, count);
    expect_damage(good, good_size, sentence);
    memcpy(good + at, kept, count);
}

static void expect_flipped(size_t at, const char *sentence)
{
    expect_changed(at, &(char){(char)(good[at] ^ 64)}, 1, sentence);
}

/* Puts a number into a file that is right otherwise: its checksums are made right, too. */
static void expect_number(size_t at, int64_t number, size_t size, const char *sentence)
{
    char *copy = remember(malloc(good_size));
    struct qkv_prepared_header changed;
    memcpy(copy, good, good_size);
    memcpy(copy + at, &number, size);
    memcpy(&changed, copy, sizeof changed);
    for (int i = 0; i < QKV_PREPARED_SECTIONS; i++)
        changed.section[i].checksum =
            crc32(0, (const Bytef *)copy + header.section[i].offset, (uInt)header.section[i].size);
    changed.checksum = qkv_prepared_checksum(&changed);
    memcpy(copy, &changed, sizeof changed);
    expect_damage(copy, good_size, sentence);
}

Test(prepare, a_file_that_was_cut_short_or_goes_on_is_refused)
{
    enter_damaged("cut");
    expect_damage(good, 0, "the file is empty");
    expect_damage(good, 7, "is not a prepared corpus, which `qkv prepare` makes");
    expect_damage("a\tb\na\tb\na\tb\na\tb\n", 16, "is not a prepared corpus, which `qkv prepare` makes");
    for (size_t i = 16; i < sizeof header; i += 31)
        expect_damage(good, i, format("has only %zu bytes: it was cut short; prepare the text again", i));
    for (size_t i = sizeof header; i < good_size; i += 701)
        expect_damage(
            good, i,
            format("has %zu bytes instead of %zu: it was cut short; prepare the text again", i, good_size));
    expect_damage(good, good_size + 1,
                  format("has %zu bytes instead of %zu: something was appended to it; prepare the text again",
                         good_size + 1, good_size));
}

Test(prepare, any_damaged_byte_is_found)
{
    enter_damaged("damaged");
    expect_changed(13, "2", 1, "was prepared by another version of qkv: prepare the text again");
    for (size_t i = 24; i < sizeof header; i += 29)
        expect_flipped(i, "is damaged: the checksum of its header is wrong; prepare the text again");
    for (int i = 0; i < QKV_PREPARED_SECTIONS; i++) {
        size_t begin = header.section[i].offset, end = begin + header.section[i].size;
        if (begin < end)
            expect_flipped(end - 1, format("is damaged between bytes %zu and %zu, whose checksum is wrong; "
                                           "prepare the text again",
                                           begin, end));
    }
    const uint64_t swapped = __builtin_bswap64(header.byte_order);
    expect_changed(16, &swapped, 8,
                   "was prepared on a machine of another byte order: prepare the text again");
}

Test(prepare, numbers_that_would_lead_out_of_the_file_are_refused)
{
    enter_damaged("outside");
    for (int side = 0; side < 2; side++) {
        size_t start = header.section[QKV_PREPARED_STARTS + side].offset,
               ids = header.section[QKV_PREPARED_IDS + side].offset;
        size_t last = start + 8 * (size_t)header.count;
        const char *sentence = format("is damaged: its %s sentences are invalid", side ? "target" : "source");
        const int64_t starts[] = {-1, 0, 1000000, INT64_MAX, INT64_MIN};
        for (int i = 0; i < 5; i++) {
            expect_number(start + 8 * 3, starts[i], 8, sentence);
            expect_number(last, starts[i], 8, sentence);
        }
        for (int step = -1; step <= 1; step += 2) { /* all lengths are possible, for one of the steps */
            expect_number(start, step, 8, sentence);
            expect_number(last, header.side[side].tokens + step, 8, sentence);
        }
        const int64_t *begin = (const int64_t *)(const void *)(good + start);
        int64_t two = 1; /* sentences that are together as long as one may be */
        while (begin[two + 1] - begin[two - 1] > header.side[side].longest) two++;
        expect_number(start + 8 * (size_t)two, begin[two - 1], 8, sentence);
        const int64_t wrong[] = {-1, header.side[side].vocabulary_size, INT32_MAX, INT32_MIN};
        for (int i = 0; i < 4; i++) expect_number(ids + 4 * 5, wrong[i], 4, sentence);
        size_t longest = (size_t)((char *)&header.side[side].longest - (char *)&header);
        expect_number(longest, 11, 8, sentence); /* above max_length */
        expect_number(longest, 1, 8, sentence);  /* below a length */
    }
}

Test(prepare, a_header_that_contradicts_itself_is_refused)
{
    enter_damaged("header");
    const char *sentence = "is damaged: the numbers of its header contradict each other";
    const int64_t counts[] = {0, -1, 79, 81, INT64_MAX, (int64_t)1 << 61};
    for (int i = 0; i < 6; i++) {
        expect_number(offsetof(struct qkv_prepared_header, count), counts[i], 8, sentence);
        expect_number(offsetof(struct qkv_prepared_header, side), counts[i], 8, sentence);
    }
    header.section[QKV_PREPARED_IDS].offset += 8;
    header.checksum = qkv_prepared_checksum(&header);
    memcpy(good, &header, sizeof header);
    expect_damage(good, good_size, sentence);
}
