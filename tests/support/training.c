#include "training.h"

#include <cjson/cJSON.h>
#include <dirent.h>

enum { WORDS = 10, LONGEST = 7 };

/* Writes lines of random words, and the same words in reverse order as target. */
static void write_pairs(const char *folder, const char *name, int pairs, uint32_t step)
{
    const struct qkv_random random = {.seed = 1, .stream = QKV_STREAM_GENERATE, .step = step};
    char *text RELEASED(free_memory) = malloc((size_t)pairs * 2 * (LONGEST + 1) * 3 + 1), *end = text;
    uint64_t draw = 0;
    for (int i = 0; i < pairs; i++) {
        int words[LONGEST], length = 1 + (int)qkv_random_below(random, draw++, LONGEST);
        for (int k = 0; k < length; k++) words[k] = (int)qkv_random_below(random, draw++, WORDS);
        for (int k = 0; k < length; k++) end += sprintf(end, "%sw%d", k ? " " : "", words[k]);
        *end++ = '\t';
        for (int k = length - 1; k >= 0; k--) end += sprintf(end, "v%d%s", words[k], k ? " " : "\n");
    }
    write_text(folder, name, text);
}

const char *training_config(const char *folder)
{
    write_pairs(folder, "train.tsv", 60, 1);
    write_pairs(folder, "dev.tsv", 12, 2);
    char *text RELEASED(free_memory) =
        format("name: tiny\n"
               "data:\n"
               "  train: %s/train.tsv\n"
               "  dev: %s/dev.tsv\n"
               "  src: {lang: xx}\n"
               "  trg: {lang: yy}\n"
               "model:\n"
               "  encoder: {num_layers: 1, num_heads: 2, hidden_size: 8, ff_size: 16, dropout: 0.2}\n"
               "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 8, ff_size: 16, dropout: 0.2}\n"
               "training:\n"
               "  batch_size: 8\n"
               "  shards: 3\n"
               "  validation_freq: 5\n"
               "  learning_rate: 0.02\n"
               "  label_smoothing: 0.1\n"
               "testing: {max_output_length: 8}\n",
               folder, folder);
    const char *path = write_text(folder, "config.yaml", text);
    return path;
}

struct training training_in(const char *folder, const char *settings)
{
    return training_as(folder, "run", settings);
}

struct training training_as(const char *folder, const char *run, const char *settings)
{
    return (struct training){
        .config = training_config(folder), .run = format("%s/%s", folder, run), .settings = settings};
}

/* Counts the updates before the stop. */
static bool stop(void *context)
{
    int64_t *left = context;
    return --*left == 0;
}

static void count_updates_done(void *context, const struct qkv_train_start *start)
{
    *(int64_t *)context -= start->resumed;
}

/* Splits settings into overrides and returns their number. */
static int split(const char *settings, const char *overrides[], int capacity)
{
    int count = 0;
    char *copy = format("%s", settings ? settings : "");
    for (char *word = strtok(copy, " "); word && count < capacity; word = strtok(NULL, " "))
        overrides[count++] = format("%s%s", strcspn(word, ".") < strcspn(word, "=") ? "" : "training.", word);
    return count;
}

enum qkv_status training_try(struct training training, struct qkv_train_result *result,
                             struct qkv_error *refusal)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_messages messages = {0};
    const char *overrides[16] = {format("training.model_dir=%s", training.run)};
    int count = 1 + split(training.settings, overrides + 1, 15);
    enum qkv_status read = qkv_config_read(&config, &arena, training.config, overrides, count, &messages);
    cr_assert_eq(read, QKV_OK, "%s", messages.count ? messages.text[0] : "");
    const struct qkv_train_listener listener = {
        .context = &training.stop_after, .stop = stop, .start = count_updates_done};
    const struct qkv_train_options options = {
        .resume = training.resume,
        .new_rate = training.new_rate,
        .threads = training.threads ? training.threads : 1,
        .listener = training.stop_after ? &listener : training.listener,
    };
    enum qkv_status status = qkv_train(&config, &options, result, refusal);
    return status;
}

struct qkv_train_result training_run(struct training training)
{
    struct qkv_train_result result = {0};
    expect_done(training_try(training, &result, &error));
    return result;
}

const char *training_of(const char *name, const char *settings, struct qkv_train_result *result)
{
    struct training training = training_in(scratch(name), settings);
    struct qkv_train_result ignored;
    *(result ? result : &ignored) = training_run(training);
    return training.run;
}

struct qkv_run training_open(const char *run, const char *checkpoint)
{
    struct qkv_run opened;
    expect_done(qkv_run_open(&opened, run, checkpoint, QKV_FLOAT32, &error));
    return opened;
}

/* ---- the files of a run ---- */

void training_expect_kept(const char *run, const char *kind, const char *updates)
{
    const char *found = "";
    for (int update = 0; update <= 100; update++)
        if (training_has(run, format("%s-%d.safetensors", kind, update)))
            found = format("%s%s%d", found, *found ? " " : "", update);
    cr_expect_str_eq(found, updates, "%s: %s, not %s", run, found, updates);
}

static char *file_of(const char *run, const char *name, size_t *size)
{
    return read_file(format("%s/%s", run, name), size);
}

bool training_has(const char *run, const char *name)
{
    return access(format("%s/%s", run, name), F_OK) == 0;
}

void training_expect_same_file(const char *run, const char *other, const char *name)
{
    size_t size, other_size;
    char *bytes RELEASED(free_memory) = file_of(run, name, &size),
                *other_bytes RELEASED(free_memory) = file_of(other, name, &other_size);
    cr_assert(bytes && other_bytes, "%s is missing in %s", name, bytes ? other : run);
    cr_assert_eq(size, other_size, "%s of %s and %s: %zu and %zu bytes", name, run, other, size, other_size);
    cr_assert_arr_eq(bytes, other_bytes, size, "%s of %s and %s differ", name, run, other);
}

/* Cuts each line of a text at `mark`. What follows it may differ between equal runs. */
static char *without(char *text, const char *mark)
{
    char *to = text;
    for (char *from = text; *from;) {
        char *end = strchr(from, '\n'), *found = strstr(from, mark);
        end = end ? end + 1 : from + strlen(from);
        size_t length = (size_t)((found && found < end ? found : end) - from);
        memmove(to, from, length);
        to += length;
        if (found && found < end) *to++ = '\n';
        from = end;
    }
    *to = '\0';
    return text;
}

static void expect_same_text(const char *run, const char *other, const char *name, const char *mark)
{
    char *text RELEASED(free_memory) = file_of(run, name, NULL),
               *other_text RELEASED(free_memory) = file_of(other, name, NULL);
    cr_assert(text && other_text, "%s is missing in %s", name, text ? other : run);
    cr_assert_str_eq(without(text, mark), without(other_text, mark), "%s of %s and %s", name, run, other);
}

static void expect_files_of(const char *run, const char *other)
{
    DIR *folder = opendir(run);
    cr_assert_not_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (name[0] == '.') continue;
        if (!strcmp(name, "metrics.jsonl"))
            expect_same_text(run, other, name, ",\"seconds\"");
        else if (!strcmp(name, "config.yaml"))
            expect_same_text(run, other, name, "model_dir:");
        else
            training_expect_same_file(run, other, name);
    }
    closedir(folder);
}

void training_expect_same(const char *run, const char *other)
{
    expect_files_of(run, other);
    expect_files_of(other, run);
}

/* Counts the lines of a kind, and reads the key of the one with that update. */
static int scan(const char *run, const char *kind, int64_t update, const char *key, double *value)
{
    char *text RELEASED(free_memory) = file_of(run, "metrics.jsonl", NULL);
    cr_assert_not_null(text);
    int count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        cJSON *object RELEASED(free_json) = cJSON_Parse(line);
        cr_assert_not_null(object, "%s", line);
        if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(object, "kind")), kind)) {
            count++;
            if (key && cJSON_GetNumberValue(cJSON_GetObjectItem(object, "update")) == (double)update) {
                const cJSON *item = cJSON_GetObjectItem(object, key);
                *value = cJSON_IsBool(item) ? cJSON_IsTrue(item) : cJSON_GetNumberValue(item);
            }
        }
    }
    return count;
}

double training_metric(const char *run, const char *kind, int64_t update, const char *key)
{
    double value = NAN;
    scan(run, kind, update, key, &value);
    return value;
}

int training_lines(const char *run, const char *kind)
{
    return scan(run, kind, 0, NULL, NULL);
}
