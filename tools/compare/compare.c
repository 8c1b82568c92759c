/* qkv compare: compares several runs, in a table and in a chart of accuracy by sentence length. */
#include "compare.h"
#include "text_notes.h"

#include "draw/chart.h"

/* ---- reading ---- */

/* Returns the text of a file, which the caller frees; NULL with an error. */
static char *read_text(const char *path, struct qkv_error *error)
{
    FILE *file = qkv_file_stream(path, false, error);
    if (!file) return NULL;
    char *text = NULL;
    size_t capacity = 0;
    /* After a failed read, getdelim returns what it read before. */
    bool complete = getdelim(&text, &capacity, '\0', file) >= 0 && !ferror(file);
    if (!complete && feof(file))
        qkv_error_set(error, "%s: the file is empty", path);
    else if (!complete) /* the file cannot be read, or memory runs out */
        qkv_error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    fclose(file);
    if (complete) return text;
    free(text);
    return NULL;
}

static const char *text_of(const cJSON *evaluation, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(evaluation, key));
}

static bool is_evaluation(const cJSON *file)
{
    static const char *const numbers[] = {"parameters", "sentences", "token_accuracy", "sequence_accuracy",
                                          "bleu"};
    bool good = text_of(file, "run") && text_of(file, "test");
    for (int i = 0; i < (cJSON_HasObjectItem(file, QKV_BITS_PER_CHARACTER) ? 3 : 5); i++)
        good = good && !isnan(qkv_json_number(file, numbers[i]));
    const cJSON *class;
    cJSON_ArrayForEach(class, cJSON_GetObjectItemCaseSensitive(file, "by_length"))
    {
        good = good && qkv_json_number(class, "from") >= 1 && qkv_json_number(class, "to") >= 1 &&
               qkv_json_number(class, "sentences") >= 1 &&
               !isnan(qkv_json_number(class, "sequence_accuracy"));
    }
    return good;
}

/* Returns the last component of the first `length` bytes of a path, without .tsv: "b" of a/b, "c" of a/c.tsv. */
static const char *last_part(struct qkv_arena *arena, const char *path, size_t length)
{
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    const char *dot =
        length > begin + 4 && !strncmp(path + length - 4, ".tsv", 4) ? path + length - 4 : path + length;
    return TEXT_IN(arena, "%.*s", (int)(dot - path - (long)begin), path + begin);
}

static const char WITH[] = ", with "; /* before a further run of an ensemble */

/* The validations of a run, whose system is "", go with any of its checkpoints, but not with an ensemble. */
static bool same_system(const char *a, const char *b)
{
    if (!*a || !*b) return !strstr(a, WITH) && !strstr(b, WITH);
    return !strcmp(a, b);
}

/* What of a run made the translations: "average, beam 5, with b". "" for validations of training. */
static const char *system_of(struct comparison *c, const cJSON *evaluation)
{
    const char *checkpoint = text_of(evaluation, "checkpoint"),
               *slash = checkpoint ? strrchr(checkpoint, '/') : NULL, *name = slash ? slash + 1 : checkpoint;
    if (!name) return "";
    char *system = TEXT_IN(&c->arena, "%.*s", (int)strcspn(name, "."), name);
    double beam = qkv_json_number(evaluation, "beam_size");
    if (beam > 1) system = TEXT_IN(&c->arena, "%s, beam %g", system, beam);
    const cJSON *with;
    cJSON_ArrayForEach(with, cJSON_GetObjectItemCaseSensitive(evaluation, "with"))
    {
        const char *path = cJSON_GetStringValue(with), *end = path ? strrchr(path, '/') : NULL;
        const char *run = end ? last_part(&c->arena, path, (size_t)(end - path)) : "another";
        system = TEXT_IN(&c->arena, "%s%s%s", system, WITH, run);
    }
    return system;
}

/* Returns a run, and adds it if it is new; NULL, with a message, when the table is full or the run cannot be read. The folder
 * may no longer exist, because the run may have been deleted after its evaluation. */
static struct compared_run *find_or_add_run(struct comparison *c, const char *path, const char *name,
                                            const char *system, const char *folder, struct qkv_error *error)
{
    int in_set = -1;
    for (int i = 0; i < c->runs; i++) {
        struct compared_run *run = &c->run[i];
        if (run->folder && folder ? !qkv_is_same_file(run->folder, folder) : strcmp(run->name, name) != 0)
            continue;
        in_set = run->in_set;
        if (!same_system(run->system, system)) continue;
        if (*system) run->system = system;
        return run;
    }
    if (c->runs == MAX_RUNS) {
        qkv_error_set(error, "%s: too many runs; at most %d can be compared", path, MAX_RUNS);
        return NULL;
    }
    if (in_set < 0 && folder && qkv_path_exists(TEXT_IN(&c->arena, "%s/" QKV_RUN_CONFIG, folder))) {
        if (!run_set_add(&c->set, folder, error)) return NULL;
        in_set = c->set.runs - 1;
    }
    struct compared_run *run = &c->run[c->runs++];
    *run = (struct compared_run){
        .name = name, .system = system, .folder = in_set >= 0 ? folder : NULL, .in_set = in_set};
    return run;
}

/* Returns the index of a test, and adds it if it is new; -1 when the table is full. */
static int find_or_add_test(struct comparison *c, const char *path)
{
    for (int i = 0; i < c->tests; i++)
        if (!strcmp(c->test[i].path, path) || qkv_is_same_file(c->test[i].path, path)) return i;
    if (c->tests == MAX_TESTS) return -1;
    c->test[c->tests].path = path;
    return c->tests++;
}

/* Adds an evaluation to its run. `folder`: of the run, or NULL. */
static enum qkv_status add_to_run(struct comparison *c, const char *path, const cJSON *file,
                                  const char *folder, struct compared_run *run, struct qkv_error *error)
{
    int test = find_or_add_test(c, text_of(file, "test"));
    if (test < 0)
        return qkv_error_set(error, "%s: too many tests; at most %d can be compared", path, MAX_TESTS);
    if (run->evaluation[test] && folder && !strcmp(path, folder))
        return qkv_error_set(error, "%s: is named twice; name each run once", path);
    if (run->evaluation[test])
        return qkv_error_set(
            error, "%s: a second evaluation of run %s on %s by the same checkpoint and search: leave one out",
            path, run->name, c->test[test].path);
    run->evaluation[test] = file;
    c->test[test].aligned = c->test[test].aligned || !isnan(evaluation_alignment_error(file));
    c->test[test].is_text = c->test[test].is_text || cJSON_HasObjectItem(file, QKV_BITS_PER_CHARACTER);
    c->test[test].of_training = c->test[test].of_training || !isnan(qkv_json_number(file, "update"));
    return QKV_OK;
}

/* Adds an evaluation, which the comparison then owns, and returns its run; NULL with a message. `folder`: of the run, or
 * NULL. */
static struct compared_run *add_run(struct comparison *c, const char *path, cJSON *file, const char *folder,
                                    struct qkv_error *error)
{
    if (c->files == MAX_RUNS * MAX_TESTS) {
        cJSON_Delete(file);
        qkv_error_set(error, "%s: too many evaluations; at most %d can be compared", path,
                      MAX_RUNS * MAX_TESTS);
        return NULL;
    }
    c->file[c->files++] = file;
    struct compared_run *run =
        find_or_add_run(c, path, text_of(file, "run"), system_of(c, file), folder, error);
    return run && !add_to_run(c, path, file, folder, run, error) ? run : NULL;
}

static enum qkv_status read_evaluation(struct comparison *c, const char *path, struct qkv_error *error)
{
    char *text = read_text(path, error);
    if (!text) return QKV_INVALID;
    cJSON *file = cJSON_Parse(text);
    free(text);
    if (!is_evaluation(file)) {
        cJSON_Delete(file);
        return qkv_error_set(error, "%s: is not an evaluation; make one with `qkv evaluate --json`", path);
    }
    /* The folder of the run whose checkpoint the evaluation names. */
    const char *checkpoint = text_of(file, "checkpoint"),
               *slash = checkpoint ? strrchr(checkpoint, '/') : NULL,
               *folder = slash ? TEXT_IN(&c->arena, "%.*s", (int)(slash - checkpoint), checkpoint) : NULL;
    return add_run(c, path, file, folder, error) ? QKV_OK : QKV_INVALID;
}

/* ---- run folders ---- */

/* What a run folder tells besides its config and its log. */
struct run_facts {
    double parameters; /* 0 before the first checkpoint */
    double speed;      /* tokens per second of training */
    bool is_quantised; /* its checkpoint is in int8 */
};

/* Reads the number of parameters, and how they are stored. A quantised run has no last.safetensors. */
static enum qkv_status read_checkpoint(struct comparison *c, const char *path, struct run_facts *facts,
                                       struct qkv_error *error)
{
    struct qkv_run run;
    if (!qkv_path_exists(TEXT_IN(&c->arena, "%s/" QKV_RUN_LAST, path)) &&
        !qkv_path_exists(TEXT_IN(&c->arena, "%s/" QKV_RUN_BEST, path)))
        return QKV_OK;
    enum qkv_status status = qkv_run_open(&run, path, NULL, QKV_FLOAT32, error);
    if (status) return status;
    facts->parameters = (double)qkv_parameters_total(&run.model->parameters);
    facts->is_quantised = run.model->parameters.products == QKV_PRECISION_INT8;
    qkv_run_release(&run);
    return QKV_OK;
}

/* Makes the object that `qkv evaluate --json` would write for data.dev, as far as the run has recorded it. The log of a
 * quantised run is that of the run that it was made of, whose scores are not its own. */
static cJSON *recorded_scores(struct comparison *c, const struct recorded_run *run,
                              const struct run_facts *facts)
{
    const struct qkv_log_validation *scores =
        facts->is_quantised ? NULL : qkv_training_log_default(&run->log, &run->config);
    cJSON *object = cJSON_CreateObject();
    const struct qkv_data_config *data = &run->config.data;
    const char *dev = *data->dev            ? data->dev
                      : data->dev_share > 0 ? TEXT_IN(&c->arena, "%s (dev)", data->train)
                                            : "dev";
    JSON_TEXTS(object, {"run", run->path}, {"test", dev});
    if (!qkv_sides_of(data, NULL).has_source)
        cJSON_AddNumberToObject(object, QKV_BITS_PER_CHARACTER,
                                scores ? scores->bits_per_character : (double)NAN);
    cJSON_AddNumberToObject(object, "parameters", facts->parameters);
    if (facts->speed > 0) cJSON_AddNumberToObject(object, "training_tokens_per_second", facts->speed);
    cJSON_AddNumberToObject(object, "training_max_length", (double)data->src.max_length);
    if (scores) cJSON_AddNumberToObject(object, "update", scores->place.update);
    for (int m = 0; scores && m < QKV_METRIC_COUNT; m++)
        if (isfinite(scores->score[m]))
            cJSON_AddNumberToObject(object, qkv_metric_info((enum qkv_metric)m)->key, scores->score[m]);
    return object;
}

static enum qkv_status read_run(struct comparison *c, const char *path, struct qkv_error *error)
{
    /* The set may already have this run, from one of its evaluations, so it is read separately. */
    struct recorded_run recorded;
    struct run_facts facts = {0};
    if (recorded_run_read(&recorded, path, &c->arena, error)) return QKV_INVALID;
    enum qkv_status status = qkv_training_log_speed(&recorded.log, &facts.speed, error);
    if (!status) status = read_checkpoint(c, path, &facts, error);
    cJSON *object = status ? NULL : recorded_scores(c, &recorded, &facts);
    qkv_training_log_release(&recorded.log);
    if (status) return status;
    struct compared_run *run = add_run(c, path, object, path, error);
    if (!run) return QKV_INVALID;
    run->is_unmeasured = run->is_unmeasured || facts.is_quantised;
    return QKV_OK;
}

/* Adds a run folder, with the scores of data.dev of its default checkpoint (qkv_training_log_default), or a file of `qkv
 * evaluate --json`. Fails when the file is not such a file, when it is a second evaluation of the same test by the same
 * checkpoint, beam size and ensemble of a run, and when there are more than MAX_RUNS runs or MAX_TESTS tests. */
static enum qkv_status comparison_read(struct comparison *c, const char *path, struct qkv_error *error)
{
    struct stat status;
    if (stat(path, &status)) {
        const char *dot = strrchr(path, '.');
        bool is_missing = errno == ENOENT || errno == ENOTDIR, is_file = dot && !strcmp(dot, ".json");
        if (is_missing && !is_file) return read_run(c, path, error); /* which suggests a run */
        return qkv_error_set(error, "%s: %s", path, is_missing ? "there is no such file" : strerror(errno));
    }
    return S_ISDIR(status.st_mode) ? read_run(c, path, error) : read_evaluation(c, path, error);
}

/* ---- names of tests ---- */

static bool all_differ(const struct comparison *c)
{
    for (int i = 0; i < c->tests; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(c->test[i].name, c->test[j].name)) return false;
    return true;
}

/* Uses the names of the files, or of their folders when those are equal, or else the paths. */
static void name_tests(struct comparison *c)
{
    enum { BY_FILE, BY_FOLDER, BY_PATH };
    for (int choice = BY_FILE; choice <= BY_PATH; choice++) {
        for (int i = 0; i < c->tests; i++) {
            const char *path = c->test[i].path, *slash = strrchr(path, '/');
            size_t length = choice == BY_FOLDER && slash ? (size_t)(slash - path) : strlen(path);
            c->test[i].name = choice == BY_PATH ? path : last_part(&c->arena, path, length);
        }
        if (all_differ(c)) break;
    }
}

/* ---- rows ---- */

static int group_of(const struct comparison *c, const struct compared_run *run)
{
    return run->in_set < 0 ? -1 : c->set.run[run->in_set].group;
}

/* Whether two runs differ in their seed alone. */
static bool same_but_seed(const struct comparison *c, const struct compared_run *a,
                          const struct compared_run *b)
{
    int group = group_of(c, a);
    return group >= 0 ? group == group_of(c, b) : a == b || !strcmp(a->name, b->name);
}

/* Whether the name of a row must say what made its translations: in an ensemble, or beside a row of the same run. */
static bool names_system(const struct comparison *c, const struct compared_run *run)
{
    if (!*run->system || strstr(run->system, WITH)) return *run->system;
    for (int i = 0; i < c->runs; i++)
        if (same_but_seed(c, run, &c->run[i]) && !same_system(run->system, c->run[i].system)) return true;
    return false;
}

/* Adds a run to the row of its group, or to a new row. */
static void add_to_rows(struct comparison *c, struct compared_run *run)
{
    int group = group_of(c, run), i = group < 0 ? c->rows : 0;
    for (; i < c->rows; i++) {
        const struct compared_run *first = &c->run[c->row[i].run[0]];
        if (same_but_seed(c, run, first) && same_system(run->system, first->system)) break;
    }
    if (i == c->rows) c->rows++;
    struct compared_row *row = &c->row[i];
    row->run[row->runs++] = (int)(run - c->run);
    bool is_path = run->folder && !strcmp(run->folder, run->name);
    bool has_group_name = group >= 0 && (row->runs > 1 || (is_path && c->set.group[group].runs == 1));
    row->name = has_group_name ? c->set.group[group].name : run->name;
    if (!names_system(c, run)) return;
    const char *seeds = row->runs > 1 ? strrchr(row->name, '(') : NULL; /* "small (mean of 2 seeds)" */
    int length = (int)(seeds ? seeds - 1 - row->name : (long)strlen(row->name));
    row->name = TEXT_IN(&c->arena, "%.*s, %s%s", length, row->name, run->system, seeds ? seeds - 1 : "");
}

/* ---- signatures ---- */

/* The length of a signature without its version, because scores do not depend on the version. */
static size_t compared_length(const char *signature)
{
    const char *version = strstr(signature, "|version:");
    return version ? (size_t)(version - signature) : strlen(signature);
}

/* Warns of tests and metrics whose evaluations have different signatures, such as BLEU with two tokenizers, and names the first
 * two runs that differ. */
static void check_signatures(const struct comparison *c)
{
    for (int t = 0; t < c->tests; t++)
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
            const char *run[2] = {NULL}, *signature[2] = {NULL};
            char key[64];
            snprintf(key, sizeof key, "%s_signature", info->key);
            for (int i = 0; i < c->runs && !run[1]; i++) {
                const char *one = text_of(c->run[i].evaluation[t], key);
                int at = run[0] != NULL;
                size_t length = one ? compared_length(one) : 0;
                if (!one ||
                    (at && length == compared_length(signature[0]) && !strncmp(one, signature[0], length)))
                    continue;
                run[at] = c->run[i].name;
                signature[at] = one;
            }
            if (!run[1]) continue;
            say(stderr,
                "warning: %s on %s: that of %s is %s, but of %s is %s; these scores cannot be compared\n",
                info->title, c->test[t].name, run[0], signature[0], run[1], signature[1]);
        }
}

/* ---- by length ---- */

/* A class of source lengths, over all tests of a run. */
struct length_class {
    double length /* the middle, in tokens */, right /* sentences without a mistake */, sentences;
};

static int by_length(const void *a, const void *b)
{
    double x = ((const struct length_class *)a)->length, y = ((const struct length_class *)b)->length;
    return (x > y) - (x < y);
}

/* Makes the line of a run, in the arena: sequence accuracy in percent by source length. False: no evaluation has classes. */
static bool make_line(struct comparison *c, const struct compared_run *run, struct chart_line *line)
{
    int64_t most = 0, count = 0, n = 0;
    const cJSON *class;
    for (int t = 0; t < c->tests; t++)
        most += cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(run->evaluation[t], "by_length"));
    struct length_class *classes =
        required(qkv_arena_allocate(&c->arena, (size_t)(most + 1) * sizeof *classes));
    double *x = required(qkv_arena_allocate(&c->arena, (size_t)(2 * most + 1) * sizeof *x)), *y = x + most;
    for (int t = 0; t < c->tests; t++) {
        cJSON_ArrayForEach(class, cJSON_GetObjectItemCaseSensitive(run->evaluation[t], "by_length"))
        {
            double sentences = qkv_json_number(class, "sentences");
            classes[count++] =
                (struct length_class){(qkv_json_number(class, "from") + qkv_json_number(class, "to")) / 2,
                                      qkv_json_number(class, "sequence_accuracy") * sentences, sentences};
        }
    }
    qsort(classes, (size_t)count, sizeof *classes, by_length);
    for (int64_t i = 0; i < count; n++) { /* the same class of several tests is one point */
        double right = 0, sentences = 0;
        x[n] = classes[i].length;
        for (; i < count && classes[i].length <= x[n]; i++) {
            right += classes[i].right;
            sentences += classes[i].sentences;
        }
        y[n] = 100 * right / sentences;
    }
    *line = (struct chart_line){run->name, n, x, y};
    return n > 0;
}

/* ---- the command ---- */

/* The output formats, by extension. A format without a writer is a chart. */
static const struct format {
    const char *extension;
    comparison_writer *write;
} FORMATS[] = {{"md", comparison_markdown}, {"tsv", comparison_tsv}, {"json", comparison_json},
               {"txt", comparison_text},    {"svg", NULL},           {"png", NULL}};

enum { FORMAT_COUNT = sizeof FORMATS / sizeof FORMATS[0] };

static const struct format *format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < FORMAT_COUNT; i++)
        if (!strcmp(dot + 1, FORMATS[i].extension)) return &FORMATS[i];
    return NULL;
}

/* The length of the longest source in training, if it is the same for all runs; otherwise 0. */
static double longest_in_training(const struct comparison *c)
{
    double longest = run_number(&c->run[0], "training_max_length");
    for (int i = 1; i < c->runs; i++)
        if (run_number(&c->run[i], "training_max_length") != longest) return 0;
    return longest > 0 ? longest : 0;
}

static enum qkv_status draw(struct comparison *c, const char *path, struct qkv_error *error)
{
    struct chart_line lines[MAX_RUNS];
    struct chart chart = {
        .title = "Sentences translated without a mistake",
        .x_label = "length of the source sentence, tokens",
        .y_label = "sequence accuracy, %",
        .y_end = 100,
        .vertical_line = longest_in_training(c),
        .vertical_line_label = "longest in training",
        .lines = lines,
    };
    for (int i = 0; i < c->runs; i++) chart.line_count += make_line(c, &c->run[i], &lines[chart.line_count]);
    if (!chart.line_count)
        return qkv_error_set(error,
                             "%s: no evaluation has scores by length; make them with `qkv evaluate "
                             "--by-length 5 --json`",
                             path);
    struct qkv_missing_characters missing = {0};
    enum qkv_status status = qkv_charts_write(&chart, 1, 1, path, &missing, error);
    note_missing_characters(path, &missing, 0);
    return status;
}

/* Writes the table to a file, or to standard output if `path` is NULL. */
static enum qkv_status write_table(struct comparison *c, comparison_writer *writer, const char *path,
                                   struct qkv_error *error)
{
    struct bytes out = {0};
    writer(c, &out);
    return write_output(path, &out, error);
}

/* Says why a quantised run has no scores. */
static void note_unmeasured(const struct comparison *c)
{
    for (int i = 0; i < c->runs; i++)
        if (c->run[i].is_unmeasured)
            print_error("note: %s is quantised, and has no scores of its own: compare the output of `qkv "
                        "evaluate %s --json`",
                        c->run[i].folder, c->run[i].folder);
}

static enum qkv_status compare(struct comparison *c, int count, char **paths,
                               const struct option_list *outputs, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int i = 0; !status && i < count; i++) status = comparison_read(c, paths[i], error);
    if (status) return status;
    name_tests(c);
    run_set_group(&c->set);
    for (int i = 0; i < c->runs; i++) add_to_rows(c, &c->run[i]);
    check_signatures(c);
    note_unmeasured(c);
    for (int i = 0; !status && i < outputs->count; i++) {
        const char *path = outputs->value[i];
        comparison_writer *writer = format_of(path)->write;
        status = writer ? write_table(c, writer, path, error) : draw(c, path, error);
    }
    if (!status) status = write_table(c, comparison_text, NULL, error);
    return status;
}

static struct option_list outputs;

static int run_compare(int operands, char **operand)
{
    static struct comparison comparison; /* large */
    for (int i = 0; i < outputs.count; i++)
        if (!format_of(outputs.value[i]))
            return print_error("%s: a comparison is written as .md, .tsv, .json, .txt, .svg or .png",
                               outputs.value[i]);
    struct qkv_error error = {""};
    comparison = (struct comparison){0};
    enum qkv_status status = compare(&comparison, operands, operand, &outputs, &error);
    for (int i = 0; i < comparison.files; i++) cJSON_Delete(comparison.file[i]);
    run_set_release(&comparison.set);
    qkv_arena_release(&comparison.arena);
    return conclude(status, &error);
}

const struct command command_compare = {
    .name = "compare",
    .summary = "put runs or evaluations side by side: a table, a chart",
    .description =
        "Shows several runs side by side: a table with a row for each run and columns for each test set; and "
        "a chart with a line for each run, the sentences translated without a mistake by source length, from "
        "evaluations made with --by-length.\n\n"
        "A run folder shows the scores of data.dev at its best validation or, with testing.average, those of "
        "the average; one of `qkv quantize` has none. Runs that differ in their seed alone are one row: mean "
        "± standard deviation (.tsv: the mean). Below the table stand the keys of the configs whose values "
        "differ, as far as the run folders are known. Scores that were computed in different ways, such as "
        "BLEU with two tokenizers, get a warning.\n",
    .examples = "  qkv evaluate runs/a datasets/en_es/test.tsv --by-length 3 --json >a.json\n"
                "  qkv evaluate runs/b datasets/en_es/test.tsv --by-length 3 --json >b.json\n"
                "  qkv compare a.json b.json -o table.md -o accuracy.svg\n"
                "  qkv compare runs/a runs/b\n",
    .operands = OPERANDS({"RUN", VALUE_FILE, "a run folder, or the output of `qkv evaluate --json` for a run",
                          .repeated = true}),
    .options = OPTIONS({"output", 'o', "FILE", OPTION_LIST, &outputs,
                        "write the table (.md .tsv .json .txt) or the chart (.svg .png); may be repeated",
                        .completes = VALUE_FILE}),
    .run = run_compare,
};
