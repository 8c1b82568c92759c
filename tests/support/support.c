#include "support.h"

#include <errno.h>
#include <sys/wait.h>

static void require(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "test support: %s: %s\n", what, strerror(errno));
    abort();
}

static struct remembered {
    struct remembered *next;
    void *memory;
} * newest;

void *remember(void *memory)
{
    struct remembered *kept = malloc(sizeof *kept);
    require(kept != NULL, "malloc");
    *kept = (struct remembered){newest, memory};
    newest = kept;
    return memory;
}

void forget_all_but(const void *memory)
{
    while (newest && newest->memory != memory) {
        struct remembered *kept RELEASED(free_memory) = newest;
        newest = kept->next;
        free(kept->memory);
    }
}

char *vformat(const char *pattern, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, pattern, arguments);
    require(length >= 0, "format");
    char *text = malloc((size_t)length + 1);
    require(text != NULL, "malloc");
    vsnprintf(text, (size_t)length + 1, pattern, again);
    va_end(again);
    return remember(text);
}

char *format(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *text = vformat(pattern, arguments);
    va_end(arguments);
    return text;
}

char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t used = 0, capacity = 1 << 16;
    char *bytes = malloc(capacity);
    require(bytes != NULL, "malloc");
    for (size_t got; (got = fread(bytes + used, 1, capacity - used - 1, file)) > 0;) {
        used += got;
        if (capacity - used > 1) continue;
        bytes = realloc(bytes, capacity *= 2);
        require(bytes != NULL, "realloc");
    }
    fclose(file);
    bytes[used] = '\0';
    if (size) *size = used;
    return remember(bytes);
}

bool is_emulated(void)
{
#ifdef QKV_EMULATED
    return true;
#else
    return false;
#endif
}

bool is_sanitized(void)
{
    return strstr(QKV_INSTRUMENTATION, "-fsanitize") != NULL;
}

bool is_slow_build(void)
{
    return is_emulated() || is_sanitized();
}

bool is_left_out(int64_t i)
{
    return is_slow_build() && i % 10 != 0;
}

/* Returns the file name of the test program. Criterion renames its worker processes, so argv[0] is
 * something else. */
static const char *program(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    require(length > 0, "/proc/self/exe");
    return strrchr(path, '/') + 1;
}

const char *scratch(const char *name)
{
    const struct criterion_test *test = criterion_current_test; /* NULL before the tests */
    char *folder = format("%s/scratch/%s.%s%s%s", QKV_BUILD_DIR, program(), test ? test->name : "",
                          test ? "." : "", name);
    char *command RELEASED(free_memory) = format("rm -rf '%s' && mkdir -p '%s'", folder, folder);
    require(system(command) == 0, command);
    return folder;
}

const char *scratch_before_tests(const char *name)
{
    return format("%s/scratch/%s.%s", QKV_BUILD_DIR, program(), name);
}

const char *write_bytes(const char *folder, const char *name, const void *bytes, size_t size)
{
    char *path = format("%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    require(file != NULL, path);
    require(fwrite(bytes, 1, size, file) == size, path);
    require(fclose(file) == 0, path);
    return path;
}

const char *write_text(const char *folder, const char *name, const char *text)
{
    return write_bytes(folder, name, text, strlen(text));
}

static struct outcome run_command(const char *command)
{
    static int runs;
    const char *folder = format("%s/scratch", QKV_BUILD_DIR);
    char *base = format("%s/%s.%ld.%d", folder, program(), (long)getpid(), runs++);
    char *script = format("mkdir -p '%s'; qkv() { '%s' \"$@\"; }; exec </dev/null >'%s.out' 2>'%s.err'; %s",
                          folder, QKV_BINARY, base, base, command);
    int status = system(script);
    require(status != -1, "system");
    struct outcome outcome = {
        .exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
        .output = read_file(format("%s.out", base), NULL),
        .error = read_file(format("%s.err", base), NULL),
    };
    require(outcome.output && outcome.error, base);
    remove(format("%s.out", base));
    remove(format("%s.err", base));
    return outcome;
}

struct outcome run(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *command = vformat(pattern, arguments);
    va_end(arguments);
    return run_command(command);
}

char *run_ok(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *command = vformat(pattern, arguments);
    va_end(arguments);
    struct outcome outcome = run_command(command);
    cr_assert_eq(outcome.exit_code, 0, "%s\nexit code %d\n%s%s", command, outcome.exit_code, outcome.output,
                 outcome.error);
    return outcome.output;
}

const char *enter(const char *folder)
{
    require(chdir(folder) == 0, folder);
    return folder;
}

const char *without_paths(const char *output)
{
    const char *scores = strstr(output, "\nsentences ");
    cr_assert_not_null(scores, "%s", output);
    return scores;
}

const char *installed(const char *name)
{
    const char *folder = scratch(name);
    run_ok("'%s' --install '%s' --prefix '%s/first' && mv '%s/first' '%s/prefix'", QKV_CMAKE, QKV_BUILD_DIR,
           folder, folder, folder);
    return folder;
}

/* Adds a line of random letters (linear congruential generator of Numerical Recipes). */
static void add_pair(char *text, unsigned *state)
{
    char source[32] = "", target[32] = "";
    int count = 1 + (int)((*state = *state * 1664525u + 1013904223u) >> 24) % 5;
    for (int i = 0; i < count; i++) {
        char letter = (char)('a' + ((*state = *state * 1664525u + 1013904223u) >> 24) % 8);
        sprintf(source + strlen(source), "%s%c", i ? " " : "", letter);
        sprintf(target + strlen(target), "%s%c", i ? " " : "", letter - 'a' + 'A');
    }
    sprintf(text + strlen(text), "%s\t%s\n", source, target);
}

const char *tiny_task(const char *name)
{
    static const char *const stacks[] = {"encoder", "decoder"};
    const char *folder = scratch(name);
    char train[80 * 32] = "", dev[8 * 32] = "", model[1024] = "";
    unsigned state = 1;
    for (int i = 0; i < 80; i++) add_pair(train, &state);
    for (int i = 0; i < 8; i++) add_pair(dev, &state);
    write_text(folder, "train.tsv", train);
    write_text(folder, "dev.tsv", dev);
    for (int i = 0; i < 2; i++)
        sprintf(model + strlen(model),
                "  %s: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, dropout: 0,\n"
                "    attention: {dropout: 0}, embeddings: {dropout: 0}}\n",
                stacks[i]);
    write_text(
        folder, "c.yaml",
        format(
            "name: tiny\ndata:\n  train: train.tsv\n  dev: dev.tsv\n"
            "  src: {lang: a, max_length: 10}\n  trg: {lang: b, max_length: 10}\n"
            "model:\n%straining:\n  model_dir: run\n  batch_size: 16\n  learning_rate: 0.01\n  updates: 20\n"
            "  validation_freq: 10\n  logging_freq: 5\n  validation_samples: 1\n  keep_best_ckpts: 2\n",
            model));
    return folder;
}

void enter_tiny_task(void)
{
    enter(tiny_task("task"));
}

static const char *train_tiny(const char *name, int updates, const char *options)
{
    const char *folder = tiny_task(name);
    struct outcome outcome =
        run("cd '%s' && '%s' train c.yaml -q -s training.updates=%d -s training.validation_freq=%d %s",
            folder, QKV_FIXTURE_PROGRAM, updates, updates, options);
    require(outcome.exit_code == 0, outcome.error);
    return folder;
}

const char *tiny_run(const char *name, int updates)
{
    return train_tiny(name, updates, "");
}

const char *learned_run(const char *name)
{
    return train_tiny(name, 400, "-s training.scheduling=cosine");
}

const char *const ONE_TO_FIVE[2][5] = {{"one", "two", "three", "four", "five"},
                                       {"uno", "dos", "tres", "cuatro", "cinco"}};

char *word_pairs(int count, const char *const source[5], const char *const target[5])
{
    char *lines = format("%s", "");
    for (int i = 0; i < count; i++) {
        char *from = format("%s %s", source[i % 5], source[i * i / 3 % 5]);
        char *to = format("%s %s", target[i % 5], target[i * i / 3 % 5]);
        for (int more = i % 3; more > 0; more--) {
            from = format("%s %s", from, source[(i + 2 * more) % 5]);
            to = format("%s %s", to, target[(i + 2 * more) % 5]);
        }
        lines = format("%s%s\t%s\n", lines, from, to);
    }
    return lines;
}

void write_links(const char *pairs, const char *links)
{
    run_ok("awk -F'\t' '{ n = split($1, w, \" \"); for (i = 0; i < n; i++) printf \"%%d-%%d \", i, i; print "
           "\"\" "
           "}' %s >%s",
           pairs, links);
}

void write_config(const char *data, const char *encoder, const char *decoder, const char *training)
{
    write_text(".", "c.yaml",
               format("name: tiny\ndata: {%s}\nmodel:\n  encoder: {%s}\n  decoder: {%s}\n"
                      "training: {model_dir: run, %s}\n",
                      data, encoder, decoder ? decoder : encoder, training));
}

void train_recurrent(const char *run_name, const char *encoder, const char *decoder, int updates)
{
    write_text(".", "recurrent.yaml",
               format("name: recurrent\ndata: {train: train.tsv, src: {lang: a}, trg: {lang: b}}\nmodel:\n"
                      "  encoder: {type: recurrent, num_layers: 1, hidden_size: 16%s}\n"
                      "  decoder: {type: recurrent, num_layers: 1, hidden_size: 16%s}\n"
                      "training: {model_dir: %s, updates: %d, learning_rate: 0.01, batch_size: 16}\n",
                      encoder, decoder, run_name, updates));
    run_ok("qkv train recurrent.yaml -q");
}

const char *checksum_of_run(const char *run_folder)
{
    return run_ok("tail -c 20000 '%s/last.safetensors' | cksum", run_folder);
}

const char *expect_equal_bits(const char *options, const char *from, int updates)
{
    run_ok("train() { folder=$1 count=$2; shift 2; qkv train %s -q -s training.model_dir=$folder -s "
           "training.updates=$count \"$@\"; }; train one %d -j 1 %s && train three %d -j 3 %s && "
           "train stopped %d -j 2 %s && train stopped %d -j 3 --resume",
           options, updates, from, updates, from, updates * 2 / 5, from, updates);
    const char *expected = checksum_of_run("one");
    cr_expect_str_eq(checksum_of_run("three"), expected, "three threads");
    cr_expect_str_eq(checksum_of_run("stopped"), expected, "resumed");
    return expected;
}

char *fingerprint(const char *folder)
{
    return run("cd '%s' && find . -type f | sort | xargs -r -d '\n' cksum", folder).output;
}

bool has_page(void)
{
    return !strstr(run("qkv page nothing").error, "built without the page");
}

void skip_without_page(void)
{
    if (!has_page())
        cr_skip_test("this build has no page: it needs clang for WebAssembly and the source of utf8proc");
}

void skip_without_program(const char *name)
{
    if (run("command -v %s", name).exit_code) cr_skip_test("%s is not installed", name);
}

bool refused(struct outcome outcome, const char *sentence)
{
    char *line RELEASED(free_memory) = format("%s\n", sentence);
    bool right = outcome.exit_code == 2 && !*outcome.output && !strcmp(outcome.error, line);
    if (!right)
        fprintf(stderr, "exit code %d, stdout \"%s\", stderr\n%swanted\n%s", outcome.exit_code,
                outcome.output, outcome.error, line);
    return right;
}

bool fails(struct outcome outcome, int exit_code, const char *part)
{
    bool right = outcome.exit_code == exit_code && !*outcome.output && strstr(outcome.error, part);
    if (!right)
        fprintf(stderr, "exit code %d, stdout \"%s\", stderr\n%swanted %d and\n%s\n", outcome.exit_code,
                outcome.output, outcome.error, exit_code, part);
    return right;
}

bool shows(const char *text, const char *part)
{
    bool right = strstr(text, part) != NULL;
    if (!right) fprintf(stderr, "%s\nlacks %s\n", text, part);
    return right;
}

bool lacks(const char *text, const char *part)
{
    bool right = !strstr(text, part);
    if (!right) fprintf(stderr, "%s\nshows %s\n", text, part);
    return right;
}

bool begins(const char *text, const char *part)
{
    bool right = !strncmp(text, part, strlen(part));
    if (!right) fprintf(stderr, "%s\ndoes not begin with %s\n", text, part);
    return right;
}

int occurrences(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

double number_after(const char *text, const char *part)
{
    char *at = strstr(text, part), *end;
    cr_assert_not_null(at, "%s\nlacks %s", text, part);
    at += strlen(part);
    double number = strtod(at, &end);
    cr_assert_gt(end, at, "%s\nno number follows %s", text, part);
    return number;
}

void expect_failures(const char *command, const char *const cases[][2], size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_expect(fails(run("%s %s", command, cases[i][0]), 2, cases[i][1]), "%s %s", command, cases[i][0]);
}

void expect_refusals(const char *command, const char *const cases[][2], size_t count)
{
    char folder[4096];
    bool is_here = strstr(getcwd(folder, sizeof folder), "/scratch/"); /* else the test has entered none */
    const char *before = is_here ? fingerprint(".") : NULL;
    for (size_t i = 0; i < count; i++)
        cr_expect(refused(run("%s %s", command, cases[i][0]), cases[i][1]), "%s %s", command, cases[i][0]);
    if (is_here) cr_expect_str_eq(fingerprint("."), before, "%s changes a file", command);
}
