/* Hints for those who come from other programs, or with a file that is no config. */
#include "wrong_config.h"

Test(config_hints, names_what_other_programs_call_a_key)
{
    static const char *const cases[][2] = {
        {"Learn-Rate: 3", "4:1: unknown key Learn-Rate; did you mean training.learning_rate"},
        {"beam-size: 3", "4:1: unknown key beam-size; did you mean testing.beam_size"},
        {"label-smoothing: 3", "4:1: unknown key label-smoothing; did you mean training.label_smoothing"},
        {"transformer-heads: 3", "4:1: unknown key transformer-heads; did you mean model.encoder.num_heads "
                                 "or model.decoder.num_heads"},
        {"model: {decoder: {nhead: 3}}",
         "4:19: unknown key model.decoder.nhead; did you mean model.decoder.num_heads"},
        {"model: {encoder: {attention_dropout: 3}}",
         "4:19: unknown key model.encoder.attention_dropout; did you mean model.encoder.attention.dropout"},
        {"-s training.lr=3",
         "-s training.lr=3: unknown key training.lr; did you mean training.learning_rate"},
        {"-s data.trg.bpe_threshold=50", "-s data.trg.bpe_threshold=50: unknown key data.trg.bpe_threshold; "
                                         "did you mean data.trg.bpe_min_freq"},
        {"-s testing.ema=1", "-s testing.ema=1: unknown key testing.ema; did you mean training.ema"},
        {"-s training.num_workers=2", "-s training.num_workers=2: unknown key training.num_workers; did you "
                                      "mean the option --threads of qkv train"},
        {"-s testing.max_length=5",
         "-s testing.max_length=5: unknown key testing.max_length; did you mean testing.max_output_length"},
        {"-s training.shuffle=true",
         "-s training.shuffle=true: unknown key training.shuffle: leave it out, qkv always does so"},
        {"use_cuda: true", "4:1: unknown key use_cuda: leave it out, qkv has nothing like it"},
        {"-s training.overwrite=true", "-s training.overwrite=true: unknown key training.overwrite; did you "
                                       "mean the option --overwrite of qkv train"},
        /* Of six letters, "name" differs in three. */
        {"-s testing.ramble=1", "-s testing.ramble=1: unknown key testing.ramble"},
        {"-s testing.lerning_rate=3",
         "-s testing.lerning_rate=3: unknown key testing.lerning_rate; did you mean training.learning_rate"},
        {"-s dim-vocabs=1",
         "-s dim-vocabs=1: unknown key dim-vocabs; did you mean data.src.voc_limit or data.trg.voc_limit"},
        {"-s data.tgt.lang=1", "-s data.tgt.lang=1: unknown key data.tgt.lang; did you mean data.trg.lang"},
        {"-s data.Target=1", "-s data.Target=1: unknown key data.Target; did you mean data.trg"},
        {"-s data.source.levle=1",
         "-s data.source.levle=1: unknown key data.source.levle; did you mean data.src.level"},
        {"-s data.target.min_freq=1",
         "-s data.target.min_freq=1: unknown key data.target.min_freq; did you mean data.trg.voc_min_freq"},
    };
    enter(scratch("others"));
    EXPECT_WRONG(CONFIG_BASE, cases);
}

#define POSITIONS                                                                                            \
    "model.encoder.positions.type, model.encoder.positions.base, model.encoder.positions.max_length, "       \
    "model.encoder.positions.buckets, model.encoder.positions.max_distance"

Test(config_hints, names_the_keys_of_a_section)
{
    static const char *const cases[][2] = {
        {"model: {encoder: {positions: 3}}",
         "4:19: model.encoder.positions must be a section of keys: " POSITIONS},
        {"-s model.encoder.positions=3", "-s model.encoder.positions=3: model.encoder.positions is a "
                                         "section; set one of its keys: " POSITIONS},
        {"-s testing=3",
         "-s testing=3: testing is a section; set one of its keys: testing.batch_size, testing.beam_size, "
         "testing.length_penalty, testing.beam_alpha, testing.n_best, testing.max_output_length, "
         "testing.min_output_length, testing.no_repeat_ngram and 4 more"},
    };
    enter(scratch("section"));
    EXPECT_WRONG(CONFIG_BASE, cases);
    /* Keys whose names begin alike do not make a section. */
    static const char *const alike[][2] = {
        {"training: {guided_alignment: {weight: 1, layer: 2}, updates: 1}",
         "3:12: training.guided_alignment is one value, not a section; keys beside it are "
         "training.guided_alignment_layer, training.guided_alignment_head, "
         "training.guided_alignment_reading"},
    };
    EXPECT_WRONG("name: x\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\n", alike);
}

static const struct {
    const char *key;
    const char *const *names;
} OTHER_NAMES[] = {
#define OTHER_NAMES(key, ...) {key, (const char *const[]){__VA_ARGS__, NULL}},
#include "../../framework/translator/config/other_names.def"
#undef OTHER_NAMES
};
enum { ROW_COUNT = sizeof OTHER_NAMES / sizeof *OTHER_NAMES };

/* "the option --NAME of qkv COMMAND": whether the help of the command has it. */
static bool is_option_of_command(const char *text)
{
    char option[64], command[64];
    return sscanf(text, "the option %63s of qkv %63s", option, command) == 2 &&
           strstr(run_ok("qkv %s --help", command), option);
}

/* Each key of a row is one of ours, or an option; its names are none of ours. */
Test(config_hints, other_names_lead_to_keys)
{
    const char *reference = run_ok("qkv config --reference");
    for (int i = 0; i < ROW_COUNT; i++) {
        const char *key = OTHER_NAMES[i].key, *star = strchr(key, '*');
        int before = star ? (int)(star - key) : (int)strlen(key);
        const char *part = !star ? "" : *key == 'm' ? "decoder" : "trg";
        cr_expect(strstr(reference, format(" `%.*s%s%s` |", before, key, part, star ? star + 1 : "")) ||
                      is_option_of_command(key) || !strncmp(key, "leave it out, ", 14),
                  "there is no key %s", key);
        for (const char *const *name = OTHER_NAMES[i].names; *name; name++) {
            cr_expect(lacks(reference, format(".%s` |", *name)), "%s is a key of ours", *name);
            cr_expect_null(strchr(*name, '-'), "%s: underscores stand for hyphens, too", *name);
        }
        for (int k = 0; k < i; k++) cr_expect_str_neq(key, OTHER_NAMES[k].key, "%s has two rows", key);
    }
}

#define TEXT(file)                                                                                           \
    "qkv: " file ": holds text, but a config is a YAML file; to train on sentence pairs, make a config "     \
    "with `qkv init " file "`"

/* Configs and runs are found by their names alone; sentences and prepared corpora are no configs. */
Test(config_hints, say_what_a_file_is_and_where_a_config_may_be)
{
    static const char *const cases[][2] = {
        {"train mine", "mine: cannot be read: No such file or directory; did you mean mine.yaml"},
        {"train mine.yml", "mine.yml: cannot be read: No such file or directory; did you mean mine.yaml"},
        {"train other", "other: cannot be read: No such file or directory"},
        {"translate mine", "qkv: mine: there is no such run; did you mean runs/mine"},
        {"translate other", "qkv: other: there is no such run"},
        {"train x.prepared", "qkv: x.prepared: is a prepared corpus, not a config: name the config, and -s "
                             "data.train=x.prepared"},
        {"train pairs.tsv", TEXT("pairs.tsv")},
        {"config pairs.tsv", TEXT("pairs.tsv")},
        {"train anki.txt", TEXT("anki.txt")},
        {"train lines.en", TEXT("lines.en")},
        {"train pairs.yaml", TEXT("pairs.yaml")},
        {"train pairs.tsv.gz", TEXT("pairs.tsv.gz")},
        {"config colons.gz", TEXT("colons.gz")},
        {"train lines", "qkv: lines: there is no such config; to train on the lines of two files, make one "
                        "with `qkv init lines.de lines.en`"},
        {"train lines.en lines.de", "qkv: unexpected operand 'lines.de'; to train on the lines of two files, "
                                    "make a config with `qkv init` (usage: qkv train CONFIG [options])"},
    };
    enter(scratch("files"));
    run_ok("mkdir -p runs/mine && echo 'name: x' >mine.yaml && echo qkv >x.prepared");
    write_text(".", "pairs.tsv", "Go: now.\tVe: ahora.\nRun!\tCorre.\n");
    write_text(".", "anki.txt", "Go.\tVe.\tCC-BY: x\n");
    write_text(".", "lines.en", "Go.\nRun!\n");
    write_text(".", "lines.de", "Geh.\nLauf!\n");
    write_text(".", "pairs.yaml", "Go.\tVe.\nRun!\tCorre.\n");
    write_text(".", "colons", "He says: go.\nShe says: run.\n");
    run_ok("gzip -k pairs.tsv colons");
    EXPECT_REFUSALS("qkv", cases);
}

/* Tabs are white space in YAML, and its name does not make a config. */
Test(config_hints, a_config_may_have_tabs_and_any_name)
{
    enter(scratch("tabs"));
    write_text(".", "some.txt",
               "# a config\nname:\tx\t# first\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\n"
               "training:\t{updates: 1}\t# last\n");
    write_text(".", "all.txt",
               "name:\tx\ndata:\t{train: t.tsv, src: {lang: a}, trg: {lang: b}}\n"
               "training:\t{updates: 1}\n");
    run_ok("qkv config some.txt && qkv config all.txt");
}
