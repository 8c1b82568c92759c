/* qkv prepare, and training from the file that it writes. */
#include "support.h"
#include "training.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Whether a command was refused with this sentence. */
static bool is_told(struct outcome outcome, const char *sentence)
{
    return refused(outcome, format("qkv: %s", sentence));
}

/* The same as tiny_task, with words of two letters. */
static const char *words_task(const char *name)
{
    const char *folder = tiny_task(name);
    run_ok("cd '%s' && sed -i -E 's/([a-z]) ([a-z])/\\1\\2/g; s/([A-Z]) ([A-Z])/\\1\\2/g' train.tsv dev.tsv",
           folder);
    return folder;
}

/* ---- the same bits ---- */

#define BPE(options)                                                                                         \
    "-s data.src.level=bpe -s data.trg.level=bpe -s data.src.num_merges=8 -s data.trg.num_merges=8 " options

static const char *const SETTINGS[] = {
    "",
    "-s data.src.level=char -s data.trg.split_punctuation=true -s data.src.lowercase=true",
    "-s data.src.max_length=3 -s data.trg.voc_limit=5 -s data.src.voc_min_freq=20",
    "-s data.joint_vocabulary=true -s training.batch_type=token -s training.batch_size=40",
    BPE("-s data.joint_vocabulary=true -s data.src.bpe_min_freq=2 -s data.trg.bpe_min_freq=2"),
    BPE("-s data.trg.bpe_min_freq=3"),
    "-s data.train=pairs -s training.batch_size=7",
    "-s data.train=train.tsv.gz",
};

/* The numbers of a checkpoint: what follows its header. */
static const char *numbers_of(const char *folder, const char *run, size_t *size)
{
    const char *bytes = read_file(format("%s/%s/last.safetensors", folder, run), size);
    uint64_t header;
    cr_assert_not_null(bytes);
    memcpy(&header, bytes, sizeof header);
    *size -= sizeof header + header;
    return bytes + sizeof header + header;
}

/* metrics.jsonl without measured times. */
static const char *losses_of(const char *folder, const char *run)
{
    return run_ok("cd '%s' && sed 's/\"seconds\".*//' %s/metrics.jsonl", folder, run);
}

static void expect_same_run(const char *folder, const char *run, const char *other)
{
    size_t size, other_size;
    const char *numbers = numbers_of(folder, run, &size), *others = numbers_of(folder, other, &other_size);
    cr_assert_eq(size, other_size);
    cr_expect(!memcmp(numbers, others, size), "%s and %s have other parameters", run, other);
    static const char *const FILES[] = {"source.vocabulary", "target.vocabulary", "source.codes",
                                        "target.codes",      "source.pieces",     "target.pieces"};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        if (training_has(format("%s/%s", folder, run), FILES[i]))
            training_expect_same_file(format("%s/%s", folder, run), format("%s/%s", folder, other), FILES[i]);
    cr_expect_str_eq(losses_of(folder, run), losses_of(folder, other));
}

Test(prepare, training_gives_the_same_bits_as_from_the_text)
{
    const char *folder = enter(words_task("bits"));
    run_ok("cut -f 1 train.tsv >pairs.a && cut -f 2 train.tsv | gzip >pairs.b.gz && gzip -k train.tsv");
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i += is_slow_build() ? 4 : 1) {
        const char *settings = SETTINGS[i];
        run_ok(
            "qkv train c.yaml -q %s -s training.model_dir=text%zu && qkv prepare c.yaml %s -o x%zu.prepared "
            "&& qkv train c.yaml -q -j 2 %s -s data.train=x%zu.prepared -s training.model_dir=prepared%zu",
            settings, i, settings, i, settings, i, i);
        expect_same_run(folder, format("text%zu", i), format("prepared%zu", i));
    }
}

Test(prepare, a_gradient_check_reads_the_same_pairs)
{
    enter(tiny_task("gradients"));
    const char *check = "gradcheck c.yaml --sentences 2 -n 1 | sed 's/[0-9.]* s$//'";
    const char *text = run_ok("qkv %s", check);
    run_ok("qkv prepare c.yaml -o x.prepared && sed -i 's/train.tsv/x.prepared/' c.yaml");
    cr_expect_str_eq(run_ok("qkv %s", check), text);
}

Test(prepare, a_run_goes_on_from_text_or_file_whichever_began_it)
{
    const char *folder = enter(tiny_task("resume")), *file = "-s data.train=x.prepared";
    run_ok("qkv prepare c.yaml -o x.prepared && qkv train c.yaml -q");
    for (int i = 0; i < 2; i++) {
        const char *run = format("run%d", i);
        run_ok("qkv train c.yaml -q %s -s training.model_dir=%s -s training.updates=10 && qkv train c.yaml "
               "-q %s -s training.model_dir=%s --resume",
               i ? "" : file, run, i ? file : "", run);
        expect_same_run(folder, "run", run);
    }
    run_ok("tac train.tsv >other.tsv && qkv prepare c.yaml -o y.prepared -s data.train=other.tsv");
    cr_expect(fails(run("qkv train c.yaml -q --resume -s data.train=y.prepared -s training.updates=30"), 2,
                    "but now y.prepared holds other text"));
}

Test(prepare, fine_tuning_takes_a_file_of_the_same_vocabulary_only)
{
    enter(tiny_task("from"));
    run_ok("qkv train c.yaml -q && qkv prepare c.yaml -o x.prepared && qkv train c.yaml -q --from run -s "
           "data.train=x.prepared -s training.model_dir=more && head -n 3 train.tsv >few.tsv && qkv prepare "
           "c.yaml -o few.prepared -s data.train=few.tsv");
    struct outcome outcome =
        run("qkv train c.yaml -q --from run -s data.train=few.prepared -s training.model_dir=less");
    cr_expect(fails(outcome, 2, "few.prepared: was prepared with another source vocabulary"));
    run_ok(
        "tr a 1 <train.tsv >other.tsv && qkv prepare c.yaml -o other.prepared -s data.train=other.tsv"); /* as many words */
    cr_expect(
        fails(run("qkv train c.yaml -q --from run -s data.train=other.prepared -s training.model_dir=less"),
              2, "other.prepared: was prepared with another source vocabulary"));
}

/* ---- vocabularies of another run ---- */

/* New text for fine-tuning, with words that the old one does not have. */
static void write_new_text(const char *folder)
{
    run_ok("cd '%s' && tac train.tsv | sed '1~7s/a/q/g; 1~5s/B/Q/' >new.tsv", folder);
}

static const char *const FROM_SETTINGS[] = {
    "",
    "-s data.joint_vocabulary=true -s data.src.level=char -s data.trg.level=char",
    "-s data.src.voc_limit=6",
    BPE("-s data.joint_vocabulary=true -s data.src.bpe_min_freq=2 -s data.trg.bpe_min_freq=2"),
    BPE("-s data.trg.bpe_min_freq=3"),
};

Test(prepare, from_a_run_gives_the_same_bits_as_training_from_it)
{
    const char *folder = enter(words_task("from_bits"));
    write_new_text(folder);
    for (size_t i = 0; i < sizeof FROM_SETTINGS / sizeof *FROM_SETTINGS; i++) {
        const char *settings = FROM_SETTINGS[i];
        run_ok("qkv train c.yaml -q %s -s training.model_dir=old%zu && qkv train c.yaml -q %s --from old%zu "
               "-s data.train=new.tsv -s training.model_dir=text%zu && qkv prepare c.yaml %s --from old%zu "
               "-s data.train=new.tsv -o x%zu.prepared && qkv train c.yaml -q %s --from old%zu -s "
               "data.train=x%zu.prepared -s training.model_dir=prepared%zu",
               settings, i, settings, i, i, settings, i, i, settings, i, i, i);
        expect_same_run(folder, format("text%zu", i), format("prepared%zu", i));
    }
}

Test(prepare, a_config_that_names_a_run_needs_no_option)
{
    const char *folder = enter(words_task("from_key")), *from = "-s training.from=old -s data.train=new.tsv";
    write_new_text(folder);
    run_ok("qkv train c.yaml -q -s training.model_dir=old && qkv prepare c.yaml %s -o old.prepared && qkv "
           "prepare c.yaml --from old/last.safetensors -s data.train=new.tsv -o file.prepared && qkv prepare "
           "c.yaml %s -s training.from_vocabulary=new -o new.prepared && qkv prepare c.yaml -s "
           "data.train=new.tsv -o own.prepared && cmp old.prepared file.prepared && cmp new.prepared "
           "own.prepared && ! cmp -s old.prepared own.prepared",
           from, from);
}

Test(prepare, a_run_that_training_refuses_is_refused_and_leaves_no_file)
{
    static const char *const REFUSED[][2] = {
        {"--from none", "training.from: none: there is no such run or file"},
        {"--from cut", "training.from: cut/config.yaml: the file is empty"},
        {"--from run -s data.src.level=char",
         "data.src.level is char, but in run, whose vocabulary is used, it is word: set it to word, or "
         "training.from_vocabulary to new"},
    };
    const char *folder = enter(tiny_task("from_refused"));
    run_ok("qkv train c.yaml -q && cp -r run cut && : >cut/config.yaml");
    const char *before = fingerprint(folder);
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
        cr_expect(is_told(run("qkv prepare c.yaml -o x.prepared %s", REFUSED[i][0]), REFUSED[i][1]));
    cr_expect_str_eq(fingerprint(folder), before);
}

/* ---- what it prints and refuses ---- */

Test(prepare, it_says_what_it_has_written)
{
    const char *folder = enter(tiny_task("said"));
    write_text(folder, "four.tsv", "a b\tA\na b c\tA B\na\tA\nd e f g h\tA\n");
    cr_expect_str_eq(run_ok("qkv prepare c.yaml -o x.prepared -s data.train=four.tsv -s "
                            "data.src.max_length=3 -s data.trg.voc_min_freq=2"),
                     "4 pairs, of which 1 are left out because a side is longer than its max_length\n"
                     "source: 6 tokens, 0.00% of them <unk>; a vocabulary of 6\n"
                     "target: 4 tokens, 25.00% of them <unk>; a vocabulary of 4\n"
                     "x.prepared: 0.0 MB; train from it with -s data.train=x.prepared\n");
}

Test(prepare, other_settings_are_refused_by_their_key)
{
    static const char *const OTHERS[][3] = {
        {"data.src.lang", "a", "fr"},
        {"data.src.level", "word", "char"},
        {"data.trg.lowercase", "false", "true"},
        {"data.src.split_punctuation", "false", "true"},
        {"data.trg.max_length", "10", "9"},
        {"data.src.voc_limit", "0", "7"},
        {"data.trg.voc_min_freq", "1", "2"},
        {"data.joint_vocabulary", "false", "true"},
    };
    enter(words_task("settings"));
    run_ok("qkv prepare c.yaml -o x.prepared");
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        cr_expect(
            is_told(run("qkv train c.yaml -q -s data.train=x.prepared -s %s=%s", OTHERS[i][0], OTHERS[i][2]),
                    format("x.prepared: was prepared with %s %s, but the config has %s: put it back, or "
                           "prepare the text again",
                           OTHERS[i][0], OTHERS[i][1], OTHERS[i][2])));
    run_ok("qkv prepare c.yaml -o bpe.prepared %s && qkv train c.yaml -q -s training.updates=1 %s", BPE(""),
           BPE(""));
    cr_expect(is_told(run("qkv train c.yaml -q -s data.train=bpe.prepared -s training.model_dir=new " BPE(
                          "-s data.trg.num_merges=7")),
                      "bpe.prepared: was prepared with data.trg.num_merges 8, but the config has 7: put it "
                      "back, or prepare the text again"));
}

Test(prepare, other_merges_are_refused)
{
    const char *folder = enter(words_task("merges")),
               *codes = "-s data.src.level=bpe -s data.src.bpe_codes=codes";
    write_text(folder, "codes", "#version: 0.2\na b</w>\nb c</w>\n");
    run_ok("qkv prepare c.yaml -o x.prepared %s -s data.src.bpe_min_freq=2 && qkv train c.yaml -q %s -s "
           "data.src.bpe_min_freq=2 -s data.train=x.prepared",
           codes, codes);
    write_text(folder, "codes", "#version: 0.2\na b</w>\nb d</w>\n");
    cr_expect(
        is_told(run("qkv train c.yaml -q %s -s data.src.bpe_min_freq=2 -s data.train=x.prepared -s "
                    "training.model_dir=new",
                    codes),
                "x.prepared: was prepared with other merges than those of codes: prepare the text again"));
    run_ok("qkv train c.yaml -q %s -s data.src.bpe_min_freq=2 -s training.model_dir=old", codes);
    cr_expect(is_told(run("qkv train c.yaml -q %s -s data.src.bpe_min_freq=2 -s data.train=x.prepared --from "
                          "old -s training.model_dir=new",
                          codes),
                      "x.prepared: was prepared with other source merges than those of the run: prepare it "
                      "with `qkv prepare --from RUN`"));
}

Test(prepare, what_cannot_be_prepared_is_refused_and_leaves_no_file)
{
    static const char *const REFUSED[][2] = {
        {"-o x", "x: the name of a prepared corpus must end in .prepared"},
        {"-o .prepared", ".prepared: the name of a prepared corpus must end in .prepared"},
        {"-o made/x.prepared", "made/x.prepared: cannot be written: there is no folder made"},
        {"-o x.prepared -s data.train=-", "-: the text is read twice: data.train must be a file"},
        {"-o x.prepared -s data.train=missing.tsv",
         "missing.tsv: there is no such text: set data.train to its path"},
        {"-o x.prepared -s data.train=bad.tsv",
         "bad.tsv:2:4: the line has no tab; a line is source<TAB>target"},
        {"-o x.prepared -s data.train=old.prepared",
         "old.prepared: is prepared already: data.train must be the text"},
        {"-o old.prepared", "old.prepared: exists already; --overwrite replaces it"},
        {"-o x.prepared -s data.src.level=bpe -s data.src.num_merges=4 -s data.src.bpe_dropout=0.1",
         "x.prepared: a prepared corpus has the same pieces in each epoch, so that data.src.bpe_dropout "
         "(0.1) must be 0: leave it out, or train from the text"},
        {"-o x.prepared -s training.guided_alignment=1 -s data.train_links=links",
         "x.prepared: a prepared corpus does not say which words its tokens are part of, which "
         "training.guided_alignment needs: train from the text, or set it to 0"},
    };
    const char *folder = enter(tiny_task("refused"));
    write_text(folder, "bad.tsv", "a\tb\nabc\n");
    write_text(folder, "old.prepared", "old");
    const char *before = fingerprint(folder);
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++)
        cr_expect(is_told(run("qkv prepare c.yaml %s", REFUSED[i][0]), REFUSED[i][1]));
    cr_expect_str_eq(fingerprint(folder), before);
    run_ok("qkv prepare c.yaml -o old.prepared --overwrite");
}

Test(prepare, a_file_is_a_training_text_only)
{
    enter(words_task("only"));
    const char *sentence = "x.prepared: is a prepared corpus, which only data.train can be: give the text";
    run_ok("qkv prepare c.yaml -o x.prepared && qkv train c.yaml -q");
    static const char *const texts[] = {"evaluate run x.prepared", "heads run x.prepared",
                                        "align run x.prepared", "init x.prepared",
                                        "train c.yaml -q --overwrite -s data.dev=x.prepared"};
    for (int i = 0; i < 5; i++) cr_expect(is_told(run("qkv %s", texts[i]), sentence));
    struct outcome outcome =
        run("qkv train c.yaml -q -s training.model_dir=new -s data.train=x.prepared " BPE(
            "-s data.trg.bpe_dropout=0.2"));
    cr_expect(is_told(outcome, "x.prepared: a prepared corpus has the same pieces in each epoch, so that "
                               "data.trg.bpe_dropout (0.2) must be 0: leave it out, or train from the text"));
}

/* ---- damaged files ---- */

/* The header of a file, as framework/translator/data/prepared.h has it. */
enum { LINES = 7, STARTS = 8, IDS = 10, SECTIONS = 12 };
struct header {
    char magic[16];
    uint64_t byte_order, checksum;
    int64_t count, read, long_sources, long_targets;
    uint64_t corpus_checksum;
    struct {
        int64_t tokens, longest, unknown, vocabulary_size;
        uint64_t merges_checksum;
    } side[2];
    struct {
        uint64_t offset, size, checksum;
    } section[SECTIONS];
};

static struct header *header;

/* Writes the bytes to x.prepared, trains from it, and returns whether it is refused with this sentence. */
static bool is_refused(const char *folder, const char *bytes, size_t size, const char *sentence)
{
    write_bytes(folder, "x.prepared", bytes, size);
    return is_told(run("cd '%s' && qkv train c.yaml -q -s data.train=x.prepared", folder),
                   format("x.prepared: %s", sentence));
}

/* Makes all checksums right. */
static void correct(char *bytes)
{
    memcpy(header, bytes, sizeof *header);
    for (int i = 0; i < SECTIONS; i++)
        header->section[i].checksum =
            crc32(0, (const Bytef *)bytes + header->section[i].offset, (uInt)header->section[i].size);
    header->checksum = 0;
    header->checksum = crc32(0, (const Bytef *)header, sizeof *header);
    memcpy(bytes, header, sizeof *header);
}

static char *prepared_bytes(const char *folder, size_t *size)
{
    run_ok("cd '%s' && qkv prepare c.yaml -o good.prepared", folder);
    char *bytes = read_file(format("%s/good.prepared", folder), size);
    header = remember(malloc(sizeof *header));
    memcpy(header, bytes, sizeof *header);
    return bytes;
}

Test(prepare, a_file_that_was_cut_short_or_goes_on_is_refused)
{
    const char *folder = tiny_task("cut");
    size_t size;
    char *bytes = prepared_bytes(folder, &size);
    cr_expect(is_refused(folder, bytes, 0, "the file is empty"));
    cr_expect(is_refused(folder, bytes, 7, "is not a prepared corpus, which `qkv prepare` makes"));
    cr_expect(is_refused(folder, "a\tb\na\tb\na\tb\na\tb\n", 16,
                         "is not a prepared corpus, which `qkv prepare` makes"));
    for (size_t i = 16; i < sizeof *header; i += 31)
        cr_expect(is_refused(folder, bytes, i,
                             format("has only %zu bytes: it was cut short; prepare the text again", i)));
    for (size_t i = sizeof *header; i < size; i += 701)
        cr_expect(is_refused(
            folder, bytes, i,
            format("has %zu bytes instead of %zu: it was cut short; prepare the text again", i, size)));
    cr_expect(is_refused(
        folder, bytes, size + 1,
        format("has %zu bytes instead of %zu: something was appended to it; prepare the text again", size + 1,
               size)));
}

Test(prepare, any_damaged_byte_is_found)
{
    const char *folder = tiny_task("damaged");
    size_t size;
    char *bytes = prepared_bytes(folder, &size);
    bytes[13] = '2';
    cr_expect(
        is_refused(folder, bytes, size, "was prepared by another version of qkv: prepare the text again"));
    bytes[13] = '1';
    for (size_t i = 24; i < sizeof *header; i += 29) {
        bytes[i] ^= 1;
        cr_expect(is_refused(folder, bytes, size,
                             "is damaged: the checksum of its header is wrong; prepare the text again"));
        bytes[i] ^= 1;
    }
    for (int i = 0; i < SECTIONS; i++) {
        size_t begin = header->section[i].offset, end = begin + header->section[i].size;
        if (begin == end) continue;
        bytes[end - 1] ^= 64;
        cr_expect(is_refused(
            folder, bytes, size,
            format("is damaged between bytes %zu and %zu, whose checksum is wrong; prepare the text again",
                   begin, end)));
        bytes[end - 1] ^= 64;
    }
    for (int i = 0; i < 4; i++) { /* of 8 bytes, so that the other byte order is another number */
        char kept = bytes[16 + i];
        bytes[16 + i] = bytes[23 - i];
        bytes[23 - i] = kept;
    }
    cr_expect(is_refused(folder, bytes, size,
                         "was prepared on a machine of another byte order: prepare the text again"));
}

/* Puts a number into a file that is right otherwise. */
static bool is_refused_with(const char *folder, const char *bytes, size_t size, size_t at, const void *number,
                            size_t element_size, const char *sentence)
{
    char *copy = remember(malloc(size));
    memcpy(copy, bytes, size);
    memcpy(copy + at, number, element_size);
    correct(copy);
    return is_refused(folder, copy, size, sentence);
}

Test(prepare, numbers_that_would_lead_out_of_the_file_are_refused)
{
    const char *folder = tiny_task("outside");
    size_t size;
    char *bytes = prepared_bytes(folder, &size);
    for (int side = 0; side < 2; side++) {
        size_t start = header->section[STARTS + side].offset, ids = header->section[IDS + side].offset;
        size_t last = start + 8 * (size_t)header->count;
        const char *sentence = format("is damaged: its %s sentences are invalid", side ? "target" : "source");
        const int64_t starts[] = {-1, 0, 1000000, INT64_MAX, INT64_MIN};
        for (int i = 0; i < 5; i++) {
            cr_expect(is_refused_with(folder, bytes, size, start + 8 * 3, &starts[i], 8, sentence));
            cr_expect(is_refused_with(folder, bytes, size, last, &starts[i], 8, sentence));
        }
        for (int step = -1; step <= 1;
             step += 2) { /* so that all lengths are possible, for one of the steps */
            const int64_t first = step, end = header->side[side].tokens + step;
            cr_expect(is_refused_with(folder, bytes, size, start, &first, 8, sentence));
            cr_expect(is_refused_with(folder, bytes, size, last, &end, 8, sentence));
        }
        const int64_t *begin = (const int64_t *)(const void *)(bytes + start);
        int64_t two = 1; /* sentences that are together as long as one may be */
        while (begin[two + 1] - begin[two - 1] > header->side[side].longest) two++;
        cr_expect(
            is_refused_with(folder, bytes, size, start + 8 * (size_t)two, &begin[two - 1], 8, sentence));
        const int32_t wrong[] = {-1, (int32_t)header->side[side].vocabulary_size, INT32_MAX, INT32_MIN};
        for (int i = 0; i < 4; i++)
            cr_expect(is_refused_with(folder, bytes, size, ids + 4 * 5, &wrong[i], 4, sentence));
        size_t longest = (size_t)((char *)&header->side[side].longest - (char *)header);
        cr_expect(is_refused_with(folder, bytes, size, longest, &(int64_t){11}, 8, sentence),
                  "above max_length");
        cr_expect(is_refused_with(folder, bytes, size, longest, &(int64_t){1}, 8, sentence),
                  "below a length");
    }
}

Test(prepare, a_header_that_contradicts_itself_is_refused)
{
    const char *folder = tiny_task("header");
    size_t size;
    char *bytes = prepared_bytes(folder, &size);
    const char *sentence = "is damaged: the numbers of its header contradict each other";
    const int64_t counts[] = {0, -1, 79, 81, INT64_MAX, (int64_t)1 << 61};
    size_t count = offsetof(struct header, count);
    for (int i = 0; i < 6; i++) {
        cr_expect(is_refused_with(folder, bytes, size, count, &counts[i], 8, sentence));
        cr_expect(
            is_refused_with(folder, bytes, size, offsetof(struct header, side), &counts[i], 8, sentence));
    }
    /* `correct` would read outside a section that is moved, so that only its checksum is left wrong. */
    memcpy(header, bytes, sizeof *header);
    header->section[IDS].offset += 8;
    header->checksum = 0;
    header->checksum = crc32(0, (const Bytef *)header, sizeof *header);
    memcpy(bytes, header, sizeof *header);
    cr_expect(is_refused(folder, bytes, size, sentence));
}
