/* The files that `qkv init` writes: the parts of the pairs, and the config, as YAML with comments. */
#include "init/init.h"

enum { DEV_PAIRS = 64 /* pairs that are translated to time a validation */ };
static const double SECONDS = 3; /* of a measurement */

const char *init_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *init_path(const struct init *init, int file, char path[static PATH_MAX])
{
    static const char *const parts[QKV_PAIRS_PARTS] = {"train", "dev", "test"};
    if (file == QKV_PAIRS_PARTS)
        snprintf(path, PATH_MAX, "%s", init->file);
    else
        snprintf(path, PATH_MAX, "%s%s.%s.tsv", init->folder, init->name, parts[file]);
    return path;
}

/* ---- the config ---- */

static void write_side(FILE *file, const struct init *init, int side)
{
    static const char *const why[] = {
        [QKV_LEVEL_WORD] = "every word is a token",
        [QKV_LEVEL_CHAR] = "every character is a token: this script has no spaces between words",
        [QKV_LEVEL_BPE] = "frequent words are tokens; rare ones are cut into frequent pieces",
    };
    const struct init_plan *plan = &init->plan;
    enum qkv_level level = plan->level[side];
    fprintf(file, "  %s:\n    lang: %s\n", side ? "trg" : "src", init->lang[side]);
    fprintf(file, "    level: %s  # %s\n", qkv_level_name(level),
            plan->is_cut[side] ? "every piece is a token: the text is cut into pieces already" : why[level]);
    if (level == QKV_LEVEL_BPE)
        fprintf(file, "    num_merges: %lld  # more: longer pieces and a larger vocabulary\n",
                (long long)plan->merges);
    if (init_is_lowercase(plan, side))
        fputs("    lowercase: true  # the words House and house are the same\n", file);
    fprintf(file, "    split_punctuation: %s\n",
            plan->split_punctuation[side] ? "true" : "false  # the text is tokenized already");
    fprintf(file, "    max_length: %lld  # tokens; training drops longer sentences",
            (long long)plan->max_length[side]);
    if (init_leaves_out_many(plan))
        fprintf(file, ", on either side %.0f %% of the pairs\n", 100 * plan->left_out);
    else
        fputs(", which are few\n", file);
}

static void write_stack(FILE *file, const struct init_plan *plan, bool is_encoder)
{
    const struct init_sizes *sizes = plan->sizes;
    fprintf(file,
            "  %s:\n"
            "    num_layers: %lld\n"
            "    num_heads: %lld\n"
            "    hidden_size: %lld\n"
            "    ff_size: %lld\n",
            is_encoder ? "encoder" : "decoder", (long long)sizes->layers, (long long)sizes->heads,
            (long long)sizes->width, (long long)sizes->inner);
    fprintf(file, "    dropout: %g%s\n", plan->dropout,
            is_encoder ? "  # more keeps a model from learning little data by heart; less suits much data"
                       : "");
    fprintf(file, "    embeddings: {dropout: %g}\n", plan->dropout);
    fprintf(file, "    positions: {type: relative}%s\n",
            is_encoder ? "  # learned by distance, so sentences may be longer than those of training" : "");
}

static void write_training(FILE *file, const struct init_plan *plan)
{
    const struct init_sizes *sizes = plan->sizes;
    int64_t warmup = plan->updates / 10 < sizes->warmup ? plan->updates / 10 : sizes->warmup;
    fprintf(file,
            "training:\n"
            "  adam_betas: [0.9, 0.98]\n"
            "  learning_rate: %g  # halve it if the loss jumps about\n"
            "  learning_rate_warmup: %lld\n"
            "  scheduling: inverse_sqrt  # after the warm-up, the rate falls as 1/sqrt(update)\n",
            sizes->rate, (long long)(warmup < 1 ? 1 : warmup));
    fprintf(file,
            "  label_smoothing: 0.1\n"
            "  clip_grad_norm: 1.0\n"
            "  batch_type: token\n"
            "  batch_size: %lld\n",
            (long long)sizes->tokens);
    int64_t freq = init_validation_freq(plan);
    fprintf(file,
            "  updates: %lld  # the length of training; raise it and `qkv train --resume` to go on\n"
            "  validation_freq: %lld\n"
            "  early_stopping_metric: chrf  # translations may improve while the dev loss rises\n"
            "  patience: 5  # stop early after this many validations without a better chrF\n"
            "  logging_freq: %lld\n"
            "  keep_best_ckpts: 1\n"
            "  precision: auto  # float32 or bfloat16, whichever is faster on this machine\n"
            "  snapshots: 16  # `qkv film` and `qkv page` show with them how the model learned; 0: none\n",
            (long long)plan->updates, (long long)freq, (long long)(freq < 100 ? freq : 100));
}

static void write_config(FILE *file, const struct init *init)
{
    const struct init_plan *plan = &init->plan;
    const char *base = init_base(init->file), *name = init->name;
    say(file, "# Translates sentences like those of %s. Made by `qkv init`; train it with\n", init->origin);
    say(file, "#   qkv train %s\n", base);
    fprintf(file, "# Keys that are not here have defaults: `qkv config %s --full` prints all.\n", base);
    fprintf(file,
            "name: %s  # the run folder is runs/%s\n\n"
            "data:\n"
            "  train: %s.train.tsv\n"
            "  dev: %s.dev.tsv  # decides which checkpoint is best and when training stops\n"
            "  test: %s.test.tsv  # for `qkv evaluate runs/%s`, once training is done\n",
            name, name, name, name, name, name);
    if (plan->is_joint) fputs("  joint_vocabulary: true  # both languages share pieces of words\n", file);
    for (int side = 0; side < 2; side++) write_side(file, init, side);
    fputs("\nmodel:\n", file);
    if (plan->is_joint) fputs("  tied_embeddings: true\n", file);
    fputs("  tied_softmax: true  # fewer numbers to learn: the output layer uses the target embeddings\n",
          file);
    write_stack(file, plan, true);
    write_stack(file, plan, false);
    fputc('\n', file);
    write_training(file, plan);
}

/* Writes the config, or the first `max` pairs of a part: source, tab and target. */
static void write_contents(FILE *stream, const struct init *init, int file, int64_t max)
{
    if (file == QKV_PAIRS_PARTS) write_config(stream, init);
    for (int64_t i = 0; i < init->pairs.count && max; i++) {
        if ((int)init->part[i] != file || file == QKV_PAIRS_PARTS) continue;
        fprintf(stream, "%s\t%s\n", qkv_pairs_text(&init->pairs, i, 0), qkv_pairs_text(&init->pairs, i, 1));
        max--;
    }
}

/* ---- all files ---- */

enum qkv_status init_files_check(const struct init *init, struct qkv_error *error)
{
    struct stat there;
    char path[PATH_MAX];
    for (int f = 0; f < INIT_FILES; f++) {
        init_path(init, f, path);
        for (int side = 0; side < 2 && init->pairs.path[side]; side++)
            if (qkv_is_same_file(path, init->pairs.path[side]))
                return qkv_error_set(
                    error,
                    "%s: is the file that the pairs come from and would be replaced; give the config "
                    "another name with -o",
                    path);
        if (!init->options->overwrite && !lstat(path, &there))
            return qkv_error_set(
                error, "%s: exists already; replace it with --overwrite, or name another config with -o",
                path);
    }
    return QKV_OK;
}

enum qkv_status init_files_try(const struct init *init, struct qkv_error *error)
{
    /* The file, or the first folder above it that is still missing. */
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", init->file);
    for (char *slash = strrchr(path, '/'); slash && slash > path; slash = strrchr(path, '/')) {
        *slash = '\0';
        if (access(path, F_OK) && errno != EACCES) continue;
        *slash = '/';
        break;
    }
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_file_abandon(&writer);
    return QKV_OK;
}

enum qkv_status init_make_folder_of(const char *path, struct qkv_error *error)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return QKV_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return qkv_folder_make(folder, error);
}

enum qkv_status init_files_write(const struct init *init, int64_t max_dev, struct qkv_error *error)
{
    struct qkv_file_writer writer[INIT_FILES] = {{0}};
    char path[INIT_FILES][PATH_MAX];
    bool existed[INIT_FILES];
    int committed = 0;
    enum qkv_status status = init_make_folder_of(init->file, error);
    for (int f = 0; f < INIT_FILES && !status; f++) {
        existed[f] = qkv_path_exists(init_path(init, f, path[f]));
        status = qkv_file_begin(&writer[f], path[f], error);
        if (!status)
            write_contents(writer[f].file, init, f, f == QKV_PAIRS_DEV ? max_dev : init->pairs.count);
    }
    /* A full disk is noticed here, before the first file gets its final name. */
    for (int f = 0; f < INIT_FILES && !status; f++)
        if (fflush(writer[f].file) || ferror(writer[f].file))
            status = qkv_error_set(error, "%s: cannot be written: %s", path[f], strerror(errno));
    for (; committed < INIT_FILES && !status; committed += !status)
        status = qkv_file_commit(&writer[committed], error);
    for (int f = 0; f < INIT_FILES; f++) qkv_file_abandon(&writer[f]);
    for (int f = 0; f < committed && status; f++)
        if (!existed[f]) unlink(path[f]);
    return status;
}

/* ---- the measurement ---- */

enum qkv_status init_measure_config(const char *path, int threads, struct qkv_train_cost *cost,
                                    struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    enum qkv_status status = qkv_config_read(&config, &arena, path, NULL, 0, &messages);
    if (status)
        qkv_error_set(error, "%s", messages.text[0]);
    else
        status = qkv_train_measure(&config, threads, SECONDS, cost, error);
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status init_measure(struct init *init, struct qkv_error *error)
{
    static char folder[PATH_MAX - 400], path[INIT_FILES][PATH_MAX]; /* a signal handler may read them */
    const char *temporary = getenv("TMPDIR");
    struct init measured = *init;
    snprintf(folder, sizeof folder, "%.3600s/qkv-init-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return qkv_error_set(error, "%s: cannot be made: %s", folder, strerror(errno));
    qkv_temporary_add(folder);
    measured.plan.updates = 1000; /* an arbitrary number: training is only measured, not finished */
    snprintf(measured.folder, sizeof measured.folder, "%s/", folder);
    snprintf(measured.file, sizeof measured.file, "%s/config.yaml", folder);
    for (int f = 0; f < INIT_FILES; f++) qkv_temporary_add(init_path(&measured, f, path[f]));
    enum qkv_status status = init_files_write(&measured, DEV_PAIRS, error);
    if (!status)
        status = init_measure_config(path[QKV_PAIRS_PARTS], (int)init->options->threads, &init->cost, error);
    for (int f = 0; f < INIT_FILES; f++) {
        unlink(path[f]);
        qkv_temporary_forget(path[f]);
    }
    rmdir(folder);
    qkv_temporary_forget(folder);
    int64_t dev = init->count[QKV_PAIRS_DEV];
    if (dev > DEV_PAIRS) init->cost.seconds_per_validation *= (double)dev / DEV_PAIRS;
    return status;
}
