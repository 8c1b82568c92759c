/* qkv help: pages, documentation, man pages and shell completions of every command. */
#include "support.h"

static const char *const COMMANDS[] = {
#define COMMAND(name) #name,
#include "../../tools/command/commands.def"
#undef COMMAND
};

enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

Test(help, every_command_has_a_page)
{
    const char *overview = run_ok("qkv help");
    cr_expect(shows(overview, "\nExit status:\n  0          success\n  1 "));
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const char *page = run_ok("qkv help %s", COMMANDS[i]), *usage = format("Usage: qkv %s", COMMANDS[i]);
        cr_expect_str_eq(page, run("qkv %s --help", COMMANDS[i]).output);
        cr_expect(begins(page, usage));
        cr_expect(shows(overview, format("\n  %s ", COMMANDS[i])));
    }
}

Test(help, fits_into_80_columns)
{
    for (int i = -1; i < COMMAND_COUNT; i++) {
        const char *command = i < 0 ? "" : COMMANDS[i];
        for (char *line = strtok(run_ok("qkv help %s", command), "\n"); line; line = strtok(NULL, "\n"))
            cr_expect(!strncmp(line, "Usage:", 6) || strlen(line) <= 80, "%s, %zu columns: %s", command,
                      strlen(line), line);
    }
}

Test(help, scripts_print_what_they_begin_with)
{
    static const char *const scripts[][2] = {
        {"tools/demo.sh", "Shows everything with one command: "},
        {"tools/test.sh", "Installs missing packages, builds, and runs the tests: "},
        {"tools/nightly.sh", "The checks that are too long for .ci/run, "},
        {"tools/bench/multi30k_rows.sh", "What subwords, dropout, consistency losses, averages and "},
        {"tools/check_structure.sh", "Checks that the source keeps the structure "},
        {".ci/run", "What must pass before a change is merged; "},
    };
    /* Copies: a script that does its work instead finds nothing to build. */
    const char *folder = scratch("scripts");
    run_ok("cd '" QKV_SOURCE_DIR "' && cp -r .ci tools '%s'", folder);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        const char *page = run_ok("'%s/%s' --help", folder, scripts[i][0]);
        cr_expect(begins(page, scripts[i][1]));
        cr_expect(lacks(page, "set -eu"));
    }
}

Test(help, documentation_is_what_the_program_prints)
{
    char *page = read_file(QKV_SOURCE_DIR "/docs/commands.md", NULL);
    cr_assert_not_null(page);
    cr_assert(!strcmp(page, run("qkv help --format markdown").output),
              "docs/commands.md is out of date; run: qkv help --format markdown >docs/commands.md");
}

Test(help, man_pages_have_no_warnings)
{
    skip_without_program("man");
    const char *folder = scratch("man");
    for (int i = -1; i < COMMAND_COUNT; i++) {
        const char *command = i < 0 ? "" : COMMANDS[i];
        run("qkv help %s --format man >'%s/page.1'", command, folder);
        struct outcome page = run("MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l '%s/page.1'", folder);
        cr_expect_eq(page.exit_code, 0);
        cr_expect_str_empty(page.error, "%s: %s", command, page.error);
        cr_expect(shows(page.output, format("qkv%s%s - ", i < 0 ? "" : "-", command)));
        cr_expect(shows(page.output, "EXIT STATUS"), "%s", command);
    }
}

/* ---- completions ---- */

/* Writes the completions of a shell, in which the shell finds no mistake, to a file; returns its path. */
static const char *script_of(const char *shell)
{
    const char *path = format("%s/completion", scratch(shell));
    skip_without_program(shell);
    run_ok("qkv help --format %s >'%s'", shell, path);
    cr_expect_str_empty(run_ok("%s -n '%s' 2>&1", shell, path));
    return path;
}

/* Words of a command line, the last of which is to be completed, and what is offered, sorted. bash cuts words
 * at each `=`; fish offers other files after those with the extension. */
static const struct {
    const char *bash_words, *line, *offered;
} COMPLETIONS[] = {
    {"tr", "tr", "train translate "},
    {"train sub/", NULL, "sub/a.yaml sub/folder/ "},
    {"train -s x=1 sub/a", "train -s x=1 sub/a", "sub/a.yaml "},
    {"train -s x = 1 sub/a", NULL, "sub/a.yaml "},
    {"train -s training.upd", "train -s training.upd", "training.updates= "},
    {"train --set = model.tied_s", "train --set=model.tied_s", "model.tied_softmax= "},
    {"train -s training.updates =", NULL, ""},
    {"train -s training.updates = 5", "train -s training.updates=5", ""},
    {"config -s data.src.lev", "config -s data.src.lev", "data.src.level= "},
    {"train --res", "train --res", "--resume "},
    {"attention --kind d", "attention --kind d", "decoder "},
    {"attention --format = np", "attention --format=np", "npz "},
    {"attention sub/", "attention sub/", "sub/folder/ "},
    {"generate rev", "generate rev", "reverse "},
    {"gradcheck x.yaml y.yaml sub/a", "gradcheck x.yaml y.yaml sub/a", "sub/a.yaml "},
    {"evaluate -k 5 run sub/b", "evaluate -k 5 run sub/b", "sub/b.tsv "},
    {"help in", "help in", "init inspect "},
};

/* Completes the lines with a command that sees $1, the script, and what follows. */
static void expect_completions(const char *shell, const char *command, bool in_words)
{
    const char *script = script_of(shell);
    enter(scratch(format("offer_%s", shell)));
    run_ok("mkdir -p sub/folder && touch sub/a.yaml sub/b.tsv");
    write_text(".", "ask.sh", command);
    for (size_t i = 0; i < sizeof COMPLETIONS / sizeof COMPLETIONS[0]; i++) {
        const char *line = in_words ? COMPLETIONS[i].bash_words : COMPLETIONS[i].line;
        if (!line) continue;
        struct outcome outcome =
            run("PATH=\"$(dirname '%s'):$PATH\" bash ask.sh '%s' %s", QKV_BINARY, script, line);
        cr_expect_str_eq(outcome.output, COMPLETIONS[i].offered, "%s offers %s", line, outcome.output);
        cr_expect(!in_words || !*outcome.error, "%s", outcome.error);
    }
}

Test(help, bash_completes_commands_options_and_operands)
{
    expect_completions("bash",
                       "source \"$1\"; shift; COMP_WORDS=(qkv \"$@\"); COMP_CWORD=$#; _qkv\n"
                       "for word in \"${COMPREPLY[@]}\"; do if [ -d \"$word\" ]; then word=$word/; fi; echo "
                       "\"$word\"; done | sort | tr '\\n' ' '\n",
                       true);
}

Test(help, fish_completes_commands_options_and_operands)
{
    expect_completions("fish",
                       "script=$1; shift\n"
                       "HOME=$PWD fish --no-config -c \"source '$script'; complete -C 'qkv $*'\" | cut -f1 | "
                       "sed 's/^--[a-z]*=//' | sort | tr '\\n' ' '\n",
                       false);
}

/* The functions that offer words and files are those of a test, because those of zsh need a terminal. */
Test(help, zsh_completes_commands_options_and_operands)
{
    expect_completions(
        "zsh",
        "zsh -fc 'compdef() :; compset() :; compadd() { for word in ${@[4,-1]}; print -- $word; }\n"
        "_describe() print -l -- ${${(P)2}%%:*}\n"
        "_files() case $1 in\n"
        "    -/) print -l -- $PREFIX*(N/) ;;\n"
        "    -g) print -l -- $PREFIX${~2}(N) ;;\n"
        "    *) print -l -- $PREFIX*(N) ;;\n"
        "esac\n"
        "script=$1; shift; source $script\n"
        "words=(qkv $@); CURRENT=$#words; PREFIX=$words[-1]; _qkv' - \"$@\" |\n"
        "    sed 's/^--[a-z]*=//; s,folder$,&/,' | sort | tr '\\n' ' '\n",
        false);
}

/* ---- the version and the kernels ---- */

static bool processor_has(const char *flag)
{
    return run("grep -qw '%s' /proc/cpuinfo", flag).exit_code == 0;
}

Test(help, version_names_the_kernels_in_use)
{
    const char *portable = run_ok("QKV_KERNELS=portable OPENBLAS_CORETYPE=Nehalem qkv --version");
    cr_expect_str_eq(portable, format("qkv %s\nkernels: portable for float32, portable for float64\n"
                                      "instructions: none for bfloat16, none for int8\n%s",
                                      QKV_VERSION, strstr(portable, "OpenBLAS: ")));
    cr_expect(shows(portable, "\nOpenBLAS: kernels for "));
    const char *fastest = run("qkv --version").output;
    cr_expect(shows(fastest, "\nkernels: "));
    cr_expect_str_eq(run("QKV_KERNELS= qkv --version").output, fastest);
    const char *blas = run("QKV_KERNELS=blas qkv --version").output;
    const bool is_fastest = strstr(fastest, "kernels: avx512 for float32");
    bool has_amx = is_fastest && processor_has("amx_bf16");
    cr_expect_eq(strstr(fastest, "amx for bfloat16, amx and vpdpbusd for int8") != NULL, has_amx);
    cr_expect_eq(strstr(fastest, "vdpbf16ps for bfloat16, ") != NULL,
                 is_fastest && !has_amx && processor_has("avx512_bf16") && processor_has("AuthenticAMD"));
    cr_expect(shows(run("QKV_BFLOAT16=float32 qkv --version").output, "none for bfloat16, "));
    cr_expect_eq(strstr(fastest, "vpdpbusd for int8") != NULL, is_fastest && processor_has("avx512_vnni"));
    size_t kernels = (size_t)(strstr(fastest, "\nOpenBLAS: ") - fastest);
    cr_expect_eq(strncmp(blas, fastest, kernels), 0, "%s%s", blas, fastest);
    cr_expect(shows(fastest, ", for large products in float64 ("));
    cr_expect(shows(blas, ", for large products in float32 and float64 ("));
}

Test(help, unknown_kernels_are_refused_with_the_known_ones)
{
    static const char *const commands[] = {"--version", "train x.yaml", "config --reference",
                                           "generate copy"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        cr_expect(refused(run("QKV_KERNELS=avx1024 qkv %s", commands[i]),
                          "qkv: the environment variable QKV_KERNELS is 'avx1024', but must be one of "
                          "avx512, avx2, portable, blas"),
                  "%s", commands[i]);
    cr_expect_eq(run("QKV_KERNELS=avx1024 qkv --help").exit_code, 0);
    cr_expect(refused(
        run("QKV_BFLOAT16=fast qkv --version"),
        "qkv: the environment variable QKV_BFLOAT16 is 'fast', but must be one of float32, vdpbf16ps, amx"));
}

/* ---- examples ---- */

/* The commands below "Examples:" of a page, one a line. */
static char *examples_of(const char *command)
{
    char *page = run("qkv help %s", command).output, *examples = strstr(page, "\nExamples:\n");
    cr_assert_not_null(examples, "%s has no examples", command);
    return examples + strlen("\nExamples:\n");
}

/* A folder where the examples find what they name: narrow models, and a run of two updates under each name. */
static void enter_examples(void)
{
    enter(scratch("examples"));
    run_ok("cp -r '%s/configs' configs && find configs -name '*.yaml' -exec sed -i -E "
           "'s/(hidden_size|embedding_dim): .*/\\1: 16/; s/ff_size: .*/ff_size: 32/' {} + && mkdir datasets "
           "&& cp -r '%s/datasets/en_es' datasets && for split in train dev test; do head -n 64 "
           "'%s'/datasets/en_es/$split.tsv >datasets/en_es/$split.tsv; done && head -n 64 "
           "'%s/datasets/en_es/test.align' >datasets/en_es/test.align && for name in toy_en_es a b; do qkv "
           "train configs/toy_en_es.yaml -q -s training.updates=2 -s training.validation_freq=1 -s "
           "training.keep_best_ckpts=2 -s training.keep_last_ckpts=2 -s training.snapshots=2 -s "
           "training.model_dir=runs/$name -s name=$name || exit; done && head -n 3 datasets/en_es/test.tsv | "
           "tee lines.tsv | cut -f1 | tee lines.en >lines.txt && cut -f2 lines.tsv >lines.es && mkdir -p "
           ".config/fish/completions && cp datasets/en_es/train.tsv spa.txt && cut -f1 spa.txt >train.en && "
           "cut -f2 spa.txt >train.de && gzip <spa.txt >pairs.tsv.gz && echo once >start.txt && qkv train "
           "configs/characters.yaml -q -s training.updates=2 -s data.train=spa.txt -s "
           "training.model_dir=runs/characters && qkv train configs/induction.yaml -q -s training.updates=2 "
           "-s training.snapshots=2 -s data.train=lines.txt -s data.dev=lines.txt -s "
           "training.model_dir=runs/induction",
           QKV_SOURCE_DIR, QKV_SOURCE_DIR, QKV_SOURCE_DIR, QKV_SOURCE_DIR);
}

Test(help, examples_run)
{
    enter_examples();
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (is_left_out(i)) continue;
        /* Other tests train and check gradients; here two updates and one op are enough. */
        const char *page = has_page() ? "command qkv \"$@\"" : "true";
        char *function =
            format("qkv() { case $1 in sweep) command qkv \"$@\" -q -s training.updates=2 ;; train) command "
                   "qkv \"$@\" -q -s training.updates=2 -s training.validation_freq=1 -s "
                   "training.keep_best_ckpts=2 -s training.keep_last_ckpts=2 -s training.snapshots=2 "
                   "--overwrite ;; gradcheck) command qkv gradcheck --op add ;; init) command qkv \"$@\" "
                   "--updates 2 ;; page) %s ;; *) command qkv \"$@\" ;; esac; }",
                   page);
        write_text(".", "examples.sh", format("set -e; %s\n%s", function, examples_of(COMMANDS[i])));
        run_ok("PATH=$(dirname '%s'):$PATH && HOME=$PWD bash ./examples.sh", QKV_BINARY);
    }
}
