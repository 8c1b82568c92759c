#define _DEFAULT_SOURCE /* DT_DIR */
#include "fault_runs.h"

#include "../faults/inject/report.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <wordexp.h>

/* ---- the commands ---- */

/* They run in a copy of the folder that `prepare` makes. */
struct command {
    enum fault_commands which;
    const char *arguments;
    bool opens_run; /* as the first translate does, whose allocations need not fail again */
};

/* Seconds; a command needs one at most, or many on a busy machine. */
enum { HANGS_AFTER = 300 };

/* Fewer than the allocations of opening the run, which are about 2100. */
enum { ALLOCATIONS_OF_OPENING = 1900 };

#define SCENE             "'" QKV_SOURCE_DIR "/configs/seeds/simple_attention.yaml'"
#define LEXICON           "'" QKV_SOURCE_DIR "/datasets/en_es/lexicon.txt'"
#define ATTENTION(format) LIST(FAULT_OTHERS, "attention run 'a b c' -q --layer 1 -o out." format, true)
#define EXPLAIN(format)   LIST(FAULT_OTHERS, "explain " SCENE " -o out." format)

static const struct command COMMANDS[] = {
    {FAULT_TRAINING, "train c.yaml -q -j 1 -s training.model_dir=made/new -s training.ema=0.5 "
                     "-s training.keep_last_ckpts=1 -s testing.average=2"},
    {FAULT_TRAINING,
     "train c.yaml -q -j 2 -s training.model_dir=half --resume -s training.learning_rate=0.003"},
    {FAULT_TRAINING, "train c.yaml -q -j 1 -s data.train=half.prepared -s training.model_dir=half --resume"},
    {FAULT_TRAINING, "train c.yaml -q -j 1 -s training.from=run -s training.model_dir=made/new"},
    {FAULT_TRAINING, "train c.yaml -q -j 1 --overwrite"},
    {FAULT_READING, "compare one.json"},
    {FAULT_READING, "plot run"},
    {FAULT_OTHERS, "prepare c.yaml -o out.prepared --overwrite"},
    {FAULT_OTHERS, "prepare c.yaml -o new.prepared -s data.train=words.tsv -s data.src.level=bpe -s "
                   "data.src.num_merges=3 -s data.src.bpe_min_freq=2"},
    {FAULT_OTHERS, "translate run in.txt -q -j 1"},
    {FAULT_OTHERS, "translate run in.txt -q -j 2 --beam 2 -n 2 --scores", true},
    {FAULT_OTHERS,
     "translate run dev.tsv -q -j 1 --with run --sample -n 2 --prefix --replace-unk --alignment", true},
    {FAULT_OTHERS, "translate run dev.tsv -q -j 1 --no-repeat-ngram 2"},
    {FAULT_OTHERS, "evaluate run dev.tsv.gz -j 1 --links dev.links --by-length 2", true},
    {FAULT_OTHERS, "evaluate run dev.tsv -j 1 --json", true},
    {FAULT_OTHERS, "evaluate run dev.tsv -j 1 --with run", true},
    {FAULT_OTHERS,
     "align run dev.tsv.gz -j 2 --head best --measure norms --links dev.links --json -o out.links", true},
    {FAULT_OTHERS, "align run dev.tsv -j 1 --drawing union", true},
    {FAULT_OTHERS, "attention run 'a b c' -q --words", true},
    {FAULT_OTHERS, "attention run 'a b c' -q --without cross.1.1 --measure norms --head best --versus random",
     true},
    {FAULT_OTHERS, "heads run dev.tsv -j 1 --no-translation --links dev.links -o out.json", true},
    {FAULT_OTHERS, "heads run dev.tsv -j 2 --sort loss", true},
    {FAULT_OTHERS, "attention run - -q", true},
    ATTENTION("json"),
    ATTENTION("csv"),
    ATTENTION("npz"),
    ATTENTION("html"),
    ATTENTION("svg"),
    ATTENTION("png"),
    ATTENTION("txt"),
    {FAULT_OTHERS, "explain run 'a b' -q --words", true},
    {FAULT_OTHERS, "explain " SCENE},
    EXPLAIN("json"),
    EXPLAIN("csv"),
    EXPLAIN("npz"),
    EXPLAIN("html"),
    EXPLAIN("svg"),
    EXPLAIN("png"),
    {FAULT_OTHERS, "gradcheck c.yaml --sentences 1 -n 1"},
    {FAULT_OTHERS, "gradcheck run --sentences 1 -n 1", true},
    {FAULT_OTHERS, "gradcheck --op softmax -n 1"},
    {FAULT_OTHERS, "gradcheck --layer dense -n 1 --json"},
    {FAULT_OTHERS, "score in.txt reference.txt"},
    {FAULT_OTHERS, "score in.txt reference.txt --json"},
    {FAULT_OTHERS, "compare one.json two.json"},
    {FAULT_OTHERS, "compare one.json two.json -o out.svg -o out.md -o out.tsv -o out.json"},
    {FAULT_OTHERS, "compare one.json two.json -o out.png"},
    {FAULT_OTHERS, "compare run half", true},
    {FAULT_OTHERS, "inspect run", true},
    {FAULT_OTHERS, "inspect half --json", true},
    {FAULT_OTHERS, "config c.yaml --full"},
    {FAULT_OTHERS, "config extending.yaml"},
    {FAULT_OTHERS, "average run --best 2", true},
    {FAULT_OTHERS, "quantize run -o made/int8", true},
    {FAULT_OTHERS, "plot run half"},
    {FAULT_OTHERS, "plot run half -o out.svg"},
    {FAULT_OTHERS, "plot run -o out.png"},
    {FAULT_OTHERS, "film run 'a b' -q -o out.png", true},
    {FAULT_OTHERS, "tokenize run in.txt", true},
    {FAULT_OTHERS, "evaluate run dev.tsv -j 1 --log-probs probabilities.tsv", true},
    {FAULT_OTHERS, "evaluate run dev.tsv -j 1 --log-probs probabilities.json", true},
    {FAULT_OTHERS, "page run --sentence 'a b' -o out.html", true},
    {FAULT_OTHERS, "page run -o out.html", true},
    {FAULT_OTHERS, "page run -j 1 --pairs dev.tsv --links dev.links -o out.html", true},
    {FAULT_OTHERS, "page -o out.html"},
    {FAULT_OTHERS, "generate sort -o made --train 4 --dev 2 --test 2"},
    {FAULT_OTHERS, "generate en_es -o made --train 4 --dev 2 --test 2 --lexicon " LEXICON},
    {FAULT_OTHERS, "init train.tsv -o made/new.yaml --updates 3"},
    {FAULT_OTHERS, "help --format man"},
};

/* A task, a trained run, one that is to be resumed, texts, evaluations, and files that outputs replace. */
static const char *prepare(const char *name)
{
    const char *folder = tiny_task(name), *padding = format("%08192d", 0); /* more than a buffer of stdio */
    run_ok(
        "cd '%s' && sed -i 's/updates: 20/updates: 6/; s/validation_freq: 10/validation_freq: 3/; "
        "s/logging_freq: 5/logging_freq: 2/' c.yaml && qkv train c.yaml -q -j 1 -s training.snapshots=2 && "
        "qkv train c.yaml -q -j 1 -s training.model_dir=half -s training.updates=4 && cut -f 1 dev.tsv "
        ">in.txt && cut -f 2 dev.tsv >reference.txt && gzip -n <dev.tsv >dev.tsv.gz && sed 's/.*/0-0/' "
        "dev.tsv >dev.links && echo 'extends: c.yaml' >extending.yaml && qkv prepare c.yaml -o half.prepared "
        "&& tr -d ' ' <train.tsv >words.tsv && qkv evaluate run dev.tsv --by-length 2 --json >one.json && "
        "for kind in json csv npz html svg png txt md tsv prepared; do echo old >out.$kind; done",
        folder);
    run_ok("cd '%s' && echo '{\"kind\": \"%s\"}' >>run/metrics.jsonl && sed -i '1 a \"padding\": \"%s\",' "
           "one.json && sed 's/tiny/half/; s|run/best|half/best|' one.json >two.json",
           folder, padding, padding);
    return folder;
}

/* ---- what a folder holds ---- */

struct snapshot {
    int count;
    struct {
        char *path, *bytes;
        size_t size;
    } file[64];
};

/* Removes measured times and speeds, the only things that differ between two runs of a command. */
static void remove_times(char *text)
{
    static const char *const BEFORE[] = {"\"tokens_per_second\":", "\"seconds\":", "seed 1,"};
    for (size_t i = 0; i < sizeof BEFORE / sizeof *BEFORE; i++)
        for (char *at = text; (at = strstr(at, BEFORE[i]));) {
            at += strlen(BEFORE[i]);
            char *end = at + strspn(at, " \t0123456789.e+-");
            memmove(at, end, strlen(end) + 1);
        }
}

static void add_files(struct snapshot *snapshot, const char *root, const char *folder)
{
    DIR *opened = opendir(format("%s%s", root, folder));
    cr_assert(opened != NULL, "%s%s", root, folder);
    for (struct dirent *entry; (entry = readdir(opened));) {
        char *path = format("%s/%s", folder, entry->d_name), *full = format("%s%s", root, path);
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (entry->d_type == DT_DIR) {
            add_files(snapshot, root, path);
            continue;
        }
        cr_assert_lt(snapshot->count, 64);
        size_t size = 0;
        char *bytes = read_file(full, &size);
        cr_assert(bytes != NULL, "%s", full);
        if (!strcmp(entry->d_name, "metrics.jsonl")) {
            remove_times(bytes);
            size = strlen(bytes);
        }
        snapshot->file[snapshot->count].path = path;
        snapshot->file[snapshot->count].bytes = bytes;
        snapshot->file[snapshot->count++].size = size;
    }
    closedir(opened);
}

static struct snapshot *snapshot_of(const char *folder)
{
    struct snapshot *snapshot = remember(calloc(1, sizeof *snapshot));
    add_files(snapshot, folder, "");
    return snapshot;
}

/* Returns whether a snapshot has file `i` of the other one, with the same bytes. */
static bool has_file(const struct snapshot *snapshot, const struct snapshot *other, int i)
{
    for (int k = 0; k < snapshot->count; k++)
        if (!strcmp(snapshot->file[k].path, other->file[i].path))
            return snapshot->file[k].size == other->file[i].size &&
                   !memcmp(snapshot->file[k].bytes, other->file[i].bytes, other->file[i].size);
    return false;
}

/* Returns a file of `one` that `other` lacks or has with other bytes; NULL if there is none. */
static const char *first_difference(const struct snapshot *one, const struct snapshot *other)
{
    for (int i = 0; i < one->count; i++)
        if (!has_file(other, one, i)) return one->file[i].path;
    return NULL;
}

/* ---- one run ---- */

/* A command and the fault that is injected into it. */
struct sweep {
    const struct command *command;
    struct fault fault;
    const char *base, *work; /* folders: the prepared one and its copy */
    const char *report;      /* path */
    struct snapshot *before, *expected;
    struct outcome without;     /* the fault */
    struct fault_report counts; /* without the fault */
};

static bool is_signal(const struct fault *fault)
{
    return !strcmp(fault->kind, "kill") || !strcmp(fault->kind, "signal");
}

static const char *name_code(const struct fault *fault)
{
    return !fault->code ? "" : is_signal(fault) ? strsignal(fault->code) : strerror(fault->code);
}

/* In the child: becomes qkv, which SIGALRM ends if it hangs. No shell runs it, as faults would be injected into the shell,
 * too. */
static _Noreturn void become_qkv(const struct sweep *sweep, const char *fault)
{
    wordexp_t words = {.we_offs = 1};
    const char *output = format("%s.out", sweep->work), *messages = format("%s.err", sweep->work);
    bool ready = !wordexp(sweep->command->arguments, &words, WRDE_DOOFFS | WRDE_NOCMD) &&
                 freopen(format("%s/in.txt", sweep->work), "r", stdin) && freopen(output, "w", stdout) &&
                 freopen(messages, "w", stderr) && !chdir(sweep->work) && !setenv("QKV_FAULT", fault, 1) &&
                 !setenv("QKV_FAULT_REPORT", sweep->report, 1) && !setenv("LD_PRELOAD", QKV_INJECT, 1);
    if (!ready) _exit(99);
    words.we_wordv[0] = format("qkv");
    alarm(HANGS_AFTER);
    execv(QKV_BINARY, words.we_wordv);
    _exit(99);
}

static struct outcome run_with(const struct sweep *sweep, long first, long last, struct fault_report *report)
{
    FILE *file = fopen(sweep->report, "wb");
    *report = (struct fault_report){0};
    cr_assert(file && fwrite(report, sizeof *report, 1, file) == 1 && !fclose(file));
    const char *kind = last ? sweep->fault.kind : "count";
    const char *fault = format("%s %ld %ld %d", kind, first, last, sweep->fault.code);
    int status = 0;
    pid_t child = fork();
    if (child == 0) become_qkv(sweep, fault);
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    struct outcome outcome = {
        .exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
        .output = read_file(format("%s.out", sweep->work), NULL),
        .error = read_file(format("%s.err", sweep->work), NULL),
    };
    cr_assert(outcome.output && outcome.error && outcome.exit_code != 99, "qkv %s, %s: exit code %d, %s",
              sweep->command->arguments, fault, outcome.exit_code, outcome.error ? outcome.error : "");
    file = fopen(sweep->report, "rb");
    cr_assert(file && fread(report, sizeof *report, 1, file) == 1 && !fclose(file));
    remove_times(outcome.output);
    return outcome;
}

/* Makes the copy of the folder as it was, where it has changed. */
static void restore_work(const struct sweep *sweep, const struct snapshot *now)
{
    if (now && !first_difference(now, sweep->before) && !first_difference(sweep->before, now)) return;
    run_ok("rm -rf '%s' && cp -a '%s' '%s'", sweep->work, sweep->base, sweep->work);
}

/* Does what the messages of training advise; returns what is wrong afterwards, or NULL. */
static const char *repair(const struct sweep *sweep)
{
    const char *arguments = sweep->command->arguments;
    const char *resume = strstr(arguments, "--resume") ? "" : "--resume";
    char *overwrite = strstr(arguments, " --overwrite");
    int size = overwrite ? (int)(overwrite - arguments) : (int)strlen(arguments);
    struct outcome outcome = run("cd '%s' && qkv %.*s %s", sweep->work, size, arguments, resume);
    /* The old run goes on, or the new one does, or nothing is there that a command could take for a run. */
    if (overwrite && (!outcome.exit_code || strstr(outcome.error, "nothing to resume")))
        outcome = run("cd '%s' && qkv %s", sweep->work, arguments);
    if (outcome.exit_code && *resume && strstr(outcome.error, "start without --resume"))
        outcome = run("cd '%s' && qkv %s", sweep->work, arguments);
    else if (outcome.exit_code && *resume && strstr(outcome.error, "start again with --overwrite"))
        outcome = run("cd '%s' && qkv %s --overwrite", sweep->work, arguments);
    if (outcome.exit_code) return format("then: exit code %d, %s", outcome.exit_code, outcome.error);
    const struct snapshot *after = snapshot_of(sweep->work);
    const char *path = first_difference(sweep->expected, after);
    if (!path) path = first_difference(after, sweep->expected);
    return path ? format("then %s differs", path) : NULL;
}

/* What a run printed behind the notes that a run without a fault prints, too. */
static const char *after_notes(const char *messages, const char *notes)
{
    for (const char *end; (end = strchr(notes, '\n')); notes = end + 1) {
        size_t size = (size_t)(end + 1 - notes);
        if (strncmp(messages, notes, size) != 0) break;
        messages += size;
    }
    return messages;
}

/* Returns what is wrong with the exit code and the messages of a run that did not succeed, or NULL. */
static const char *check_failure(const struct sweep *sweep, const struct outcome *outcome)
{
    if (is_signal(&sweep->fault))
        return outcome->exit_code == 128 + sweep->fault.code ? NULL : "is not ended by the signal";
    if (outcome->exit_code == 128 + SIGALRM) return "hangs";
    if (outcome->exit_code > 128) return "is ended by a signal";
    if (outcome->exit_code != 2) return "ends with another exit code than 0 and 2";
    const char *rest = strchr(after_notes(outcome->error, sweep->without.error), '\n');
    bool one_line = rest && (!rest[1] || !strncmp(rest + 1, "the last checkpoint is complete", 31));
    if (!one_line) return "prints more or less than a sentence";
    if (!strcmp(sweep->fault.kind, "memory"))
        return strstr(outcome->error, "out of memory") || strstr(outcome->error, strerror(ENOMEM))
                   ? NULL
                   : "does not say that memory ran out";
    bool named =
        strstr(outcome->error, strerror(sweep->fault.code)) || strstr(outcome->error, "a write failed");
    return named ? NULL : "does not name the reason";
}

/* Returns what is wrong with the files after a run, or NULL. */
static const char *check_files(const struct sweep *sweep, const struct snapshot *after, const char *where)
{
    bool trains = sweep->command->which == FAULT_TRAINING, is_kill = sweep->fault.code == SIGKILL;
    for (int i = 0; i < after->count; i++) {
        const char *path = after->file[i].path, *end = strrchr(path, '.');
        bool is_temporary = end && !strcmp(end, ".tmp");
        bool removable = !is_kill && (!sweep->fault.lasting || is_signal(&sweep->fault)) &&
                         strncmp(where, "unlink", 6) != 0;
        if (is_temporary && removable) return format("leaves %s", path);
        if (is_temporary || has_file(sweep->before, after, i) || has_file(sweep->expected, after, i))
            continue;
        if (!trains) return format("leaves a part of %s", path);
    }
    for (int i = 0; i < sweep->before->count && !trains; i++)
        if (!has_file(after, sweep->before, i) && has_file(sweep->expected, sweep->before, i))
            return format("damages %s", sweep->before->file[i].path);
    return trains ? repair(sweep) : NULL;
}

static void check_run(struct sweep *sweep, long n)
{
    struct fault_report report;
    struct outcome outcome = run_with(sweep, n, sweep->fault.lasting ? 1L << 40 : n, &report);
    const struct snapshot *after = snapshot_of(sweep->work);
    const char *wrong = NULL, *path;
    if (outcome.exit_code != sweep->without.exit_code)
        wrong = check_failure(sweep, &outcome);
    else if (strcmp(outcome.output, sweep->without.output) != 0)
        wrong = "succeeds with another output";
    else if ((path = first_difference(sweep->expected, after)))
        wrong = format("succeeds without %s, or with another one", path);
    else if (sweep->fault.code && !is_signal(&sweep->fault) && !strncmp(report.where, "fsync", 5))
        wrong = "succeeds with files that may not be on the disk";
    if (!wrong) wrong = check_files(sweep, after, report.where);
    cr_expect(wrong == NULL, "qkv %s: %s %ld%s (%s; %s) %s; exit code %d, %s", sweep->command->arguments,
              sweep->fault.kind, n, sweep->fault.lasting ? " and all after it" : "", name_code(&sweep->fault),
              report.where, wrong, outcome.exit_code, outcome.error);
    restore_work(sweep, sweep->command->which == FAULT_TRAINING ? NULL : after);
}

/* Runs the command without a fault. Returns false where system calls cannot be intercepted. */
static bool begin(struct sweep *sweep)
{
    sweep->before = snapshot_of(sweep->work);
    sweep->without = run_with(sweep, 0, 0, &sweep->counts);
    cr_assert_eq(sweep->without.exit_code, 0, "qkv %s: %s", sweep->command->arguments, sweep->without.error);
    if (sweep->counts.refused) return false;
    cr_assert(sweep->counts.allocations > 0 && sweep->counts.calls > 0, "nothing was counted");
    sweep->expected = snapshot_of(sweep->work);
    restore_work(sweep, sweep->expected);
    return true;
}

void fault_runs(enum fault_commands which, int fault_count, const struct fault *faults, int samples)
{
    if (!*QKV_INJECT) cr_skip_test("faults cannot be injected into a program with sanitizers");
    const char *share = getenv("QKV_FAULTS"), *only = getenv("QKV_FAULTS_COMMAND"),
               *folder = prepare("prepared");
    run_ok("rm -rf '%s.work' && cp -a '%s' '%s.work'", folder, folder, folder);
    long runs[16] = {0}, one_in = share ? strtol(share, NULL, 10) : 0;
    for (size_t c = 0; c < sizeof COMMANDS / sizeof *COMMANDS; c++) {
        if (COMMANDS[c].which != which || (only && !strstr(COMMANDS[c].arguments, only))) continue;
        if (!strncmp(COMMANDS[c].arguments, "page ", 5) && !has_page()) continue;
        struct sweep sweep = {
            .command = &COMMANDS[c],
            .base = folder,
            .work = format("%s.work", folder),
            .report = format("%s.report", folder),
        };
        if (!begin(&sweep)) cr_skip_test("the system forbids to intercept system calls");
        for (int f = 0; f < fault_count; f++) {
            sweep.fault = faults[f];
            bool of_memory = !strcmp(faults[f].kind, "memory");
            long skipped = of_memory && COMMANDS[c].opens_run ? ALLOCATIONS_OF_OPENING : 0;
            long points = (of_memory ? sweep.counts.allocations : sweep.counts.calls) - skipped;
            long rarer =
                of_memory && faults[f].lasting ? 8 : 1; /* fails where the other fault does, nearly always */
            long count = one_in > 0 ? (points + one_in * rarer - 1) / (one_in * rarer) : samples;
            if (count > points) count = points;
            for (long i = 0; i < count; i++) { /* in the middle of `count` equal parts */
                const char *last = format("what the next run does not need is behind this");
                check_run(&sweep, skipped + 1 + (2 * i + 1) * points / (2 * count));
                forget_all_but(last);
            }
            runs[f] += count;
        }
    }
    for (int f = 0; f < fault_count; f++)
        fprintf(stderr, "  %s%s%s%s: %ld runs\n", faults[f].kind, faults[f].code ? " " : "",
                name_code(&faults[f]), faults[f].lasting ? ", lasting" : "", runs[f]);
}
