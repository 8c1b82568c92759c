/* The folder of a run: its files and checkpoints, opening it, and what its model was trained with. */
#include "data/corpus.h"
#include "run/checkpoints.h"

#include "config/path.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/bpe.h"
#include "graph/internal.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>

const char *qkv_run_file(struct qkv_path *path, const char *folder, const char *name)
{
    snprintf(path->text, sizeof path->text, "%s/%s", folder, name);
    return path->text;
}

const char *const qkv_run_files[RUN_FILES] = {
    QKV_RUN_FORMAT_FILE,  QKV_RUN_SOURCE,        QKV_RUN_TARGET,        QKV_RUN_SOURCE_CODES,
    QKV_RUN_TARGET_CODES, QKV_RUN_SOURCE_PIECES, QKV_RUN_TARGET_PIECES, QKV_RUN_METRICS,
    QKV_RUN_CONFIG,       QKV_RUN_BEST,          QKV_RUN_LAST,          QKV_RUN_AVERAGE};

enum qkv_status qkv_run_format_read(const char *folder, struct qkv_data_config *data, struct qkv_error *error)
{
    data->src.plain_marks = data->trg.plain_marks = true;
    char text[16] = "", *end;
    const char *path = QKV_RUN_FILE(folder, QKV_RUN_FORMAT_FILE);
    if (!qkv_path_exists(path)) return QKV_OK; /* version 1 */
    FILE *file = qkv_file_stream(path, true, error);
    if (!file) return QKV_INVALID;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    int code = ferror(file) ? errno : 0;
    fclose(file);
    if (code) return qkv_error_set(error, "%s: cannot be read: %s", path, strerror(code));
    long format = strtol(text, &end, 10);
    if (end == text || *end != '\n' || format < 1)
        return qkv_error_set(error, "%s: must hold a number, the version of the run's format", path);
    data->src.plain_marks = data->trg.plain_marks = format < 2;
    if (format <= QKV_RUN_FORMAT) return QKV_OK;
    return qkv_error_set(error,
                         "%s: is a run of format %ld, but this qkv reads formats up to %d: use a newer qkv",
                         folder, format, QKV_RUN_FORMAT);
}

/* ---- names of checkpoints ---- */

const char *qkv_numbered_name(char name[NUMBERED_NAME_SIZE], const char *prefix, int64_t update)
{
    snprintf(name, NUMBERED_NAME_SIZE, "%s%lld.safetensors", prefix, (long long)update);
    return name;
}

int64_t qkv_numbered_update(const char *name, const char *prefix)
{
    char written[NUMBERED_NAME_SIZE];
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0) return -1;
    int64_t update = strtoll(name + length, NULL, 10);
    return update >= 0 && !strcmp(name, qkv_numbered_name(written, prefix, update)) ? update : -1;
}

bool qkv_numbered_is_reserved(const char *name)
{
    return !strncmp(name, NUMBERED_UPDATE, strlen(NUMBERED_UPDATE)) ||
           !strncmp(name, NUMBERED_SNAPSHOT, strlen(NUMBERED_SNAPSHOT));
}

static const char END[] = ".safetensors";
enum { SHOWN = 10, END_LENGTH = sizeof END - 1 };

static int is_checkpoint(const struct dirent *entry)
{
    return qkv_ends_in(entry->d_name + 1, END);
}

static int is_visible(const struct dirent *entry)
{
    return *entry->d_name != '.';
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

/* The names of the checkpoints in a folder as --checkpoint takes them, sorted, with commas between; of many, the first ones and
 * the number of the others. It lives in the arena. NULL: there are none, or the folder cannot be read. */
static const char *list_checkpoints(struct qkv_arena *arena, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_checkpoint, alphasort);
    const char *list = NULL;
    for (int i = 0; i < count && i < SHOWN && (list || !i); i++) {
        const char *name = entries[i]->d_name;
        list = qkv_arena_format(arena, "%s%s%.*s", i ? list : "", i ? ", " : "",
                                (int)(strlen(name) - END_LENGTH), name);
    }
    if (list && count > SHOWN) list = qkv_arena_format(arena, "%s and %d more", list, count - SHOWN);
    free_entries(entries, count);
    return list;
}

/* The path of the first run in a folder, by name, in the arena. NULL: there is none, or the folder cannot be read. */
static const char *find_run_inside(struct qkv_arena *arena, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_visible, alphasort);
    const char *found = NULL;
    for (int i = 0; i < count && !found; i++) {
        const char *run = QKV_RUN_FILE(folder, entries[i]->d_name);
        if (qkv_path_exists(QKV_RUN_FILE(run, QKV_RUN_CONFIG))) found = qkv_arena_string(arena, run);
    }
    free_entries(entries, count);
    return found;
}

/* ---- provenance ---- */

enum { CHECKSUM_SIZE = 9, SIDES = 2 }; /* 8 hexadecimal digits with the NUL; source and target */

static const char *const NAMES[SIDES] = {"source", "target"},
                         *const VOCABULARY_KEYS[SIDES] = {"train.source_vocabulary",
                                                          "train.target_vocabulary"},
                         *const CODES_KEYS[SIDES] = {"train.source_codes", "train.target_codes"};

static const char *checksum_text(char text[CHECKSUM_SIZE], uint32_t checksum)
{
    snprintf(text, CHECKSUM_SIZE, "%08lx", (unsigned long)checksum);
    return text;
}

/* The key of the state for a key of the config. */
static const char *config_key(struct qkv_arena *arena, const char *path)
{
    return qkv_arena_format(arena, "config.%s", path);
}

static bool save_key(void *context, const char *path, const char *value)
{
    struct qkv_state *state = context;
    const char *key = config_key(&state->arena, path);
    if (!key) return false;
    qkv_state_set(state, key, value);
    return true;
}

void qkv_provenance_save(struct qkv_state *state, const struct qkv_config *config,
                         const struct qkv_vocabulary *source, const struct qkv_vocabulary *target)
{
    const struct qkv_vocabulary *vocabularies[SIDES] = {source, target};
    char text[CHECKSUM_SIZE];
    if (qkv_config_each(config, QKV_KEYS_FIXED_ON_RESUME, save_key, state)) state->failed = true;
    for (int i = 0; i < SIDES; i++) {
        const struct qkv_bpe *bpe = i ? config->data.trg.bpe : config->data.src.bpe;
        qkv_state_set(state, VOCABULARY_KEYS[i],
                      checksum_text(text, qkv_vocabulary_checksum(vocabularies[i])));
        if (bpe) qkv_state_set(state, CODES_KEYS[i], checksum_text(text, qkv_bpe_checksum(bpe)));
    }
}

enum { DESCRIPTION_SIZE = 64 };

/* Such as "80 pairs, checksum 1a2b3c4d". */
static void describe(const struct qkv_trained_text *text, char description[DESCRIPTION_SIZE])
{
    snprintf(description, DESCRIPTION_SIZE, "%lld pairs, checksum %08lx", (long long)text->pairs,
             (unsigned long)text->checksum);
}

void qkv_provenance_save_text(struct qkv_state *state, const struct qkv_trained_text *text)
{
    char description[DESCRIPTION_SIZE];
    const char *of_file = qkv_arena_format(&state->arena, "file.%s", text->key),
               *of_text = qkv_arena_format(&state->arena, "text.%s", text->key);
    describe(text, description);
    state->failed = state->failed || !of_file || !of_text;
    if (state->failed) return;
    qkv_state_set(state, of_file, text->file);
    qkv_state_set(state, of_text, description);
}

struct checking {
    const struct qkv_state *state;
    const struct qkv_config *config;
    const char *path;
    struct qkv_arena arena;
    struct qkv_error *error;
    bool refused;
};

static bool check_key(void *context, const char *path, const char *value)
{
    struct checking *checking = context;
    const char *key = config_key(&checking->arena, path);
    const char *trained = key ? qkv_state_get(checking->state, key) : NULL;
    if (!trained || !strcmp(trained, value)) return true;
    enum qkv_key_role role = qkv_schema_find(&qkv_config_schema, path)->role;
    bool is_of_model = role == QKV_ROLE_MODEL;
    bool is_rate = !strcmp(path, "training.learning_rate") || !strcmp(path, "training.learning_rate_factor");
    bool is_of_schedule = role == QKV_ROLE_FREE; /* fixed because the schedule depends on it */
    qkv_error_set(
        checking->error,
        "%s: was trained with %s %s, but the config has %s%s%s%s: put it back, or train a new run%s%s",
        checking->path, path, trained, value,
        is_of_schedule ? ", which changes the learning rates of the " : "",
        is_of_schedule ? qkv_schedule_kind_choices.list[checking->config->training.scheduling].name : "",
        is_of_schedule ? " schedule" : "",
        is_of_model ? "" : ", which --from can start with these parameters",
        is_rate ? "; --resume -s KEY=VALUE changes it from here on" : "");
    checking->refused = true;
    return false;
}

enum qkv_status qkv_provenance_check(const struct qkv_state *state, const struct qkv_config *config,
                                     enum qkv_config_selection when, const struct qkv_vocabulary *source,
                                     const struct qkv_vocabulary *target, const char *path,
                                     struct qkv_error *error)
{
    const struct qkv_vocabulary *vocabularies[SIDES] = {source, target};
    struct checking checking = {.state = state, .config = config, .path = path, .error = error};
    enum qkv_status status = qkv_config_each(config, when, check_key, &checking);
    qkv_arena_release(&checking.arena);
    if (status) return checking.refused ? QKV_INVALID : qkv_no_memory(error);
    for (int i = 0; i < SIDES; i++) {
        char text[CHECKSUM_SIZE];
        const struct qkv_text_config *side = i ? &config->data.trg : &config->data.src;
        const char *trained = qkv_state_get(state, CODES_KEYS[i]),
                   *now = side->bpe ? checksum_text(text, qkv_bpe_checksum(side->bpe)) : "none";
        if (trained && strcmp(trained, now) != 0)
            return qkv_error_set(error,
                                 "%s: was trained with other %s merges: their checksum was %s, but that of "
                                 "%s.codes%s is %s: put them back",
                                 path, NAMES[i], trained, NAMES[i],
                                 side->bpe_min_freq > 0 ? " with its pieces" : "", now);
        trained = qkv_state_get(state, VOCABULARY_KEYS[i]);
        now = checksum_text(text, qkv_vocabulary_checksum(vocabularies[i]));
        if (trained && strcmp(trained, now) != 0)
            return qkv_error_set(
                error,
                "%s: was trained with another %s vocabulary: its checksum was %s, but that of "
                "%s.vocabulary is %s: put it back",
                path, NAMES[i], trained, NAMES[i], now);
    }
    return QKV_OK;
}

enum qkv_status qkv_provenance_check_text(const struct qkv_state *state, const struct qkv_trained_text *text,
                                          const char *path, struct qkv_error *error)
{
    char description[DESCRIPTION_SIZE];
    struct qkv_arena arena = {0};
    const char *of_file = qkv_arena_format(&arena, "file.%s", text->key),
               *of_text = qkv_arena_format(&arena, "text.%s", text->key);
    const char *old_file = of_file ? qkv_state_get(state, of_file) : NULL;
    const char *old_text = of_text ? qkv_state_get(state, of_text) : NULL;
    enum qkv_status status = QKV_OK;
    describe(text, description);
    if (!of_file || !of_text)
        status = qkv_no_memory(error);
    else if (old_file && old_text && strcmp(old_text, description) != 0)
        status =
            qkv_error_set(error,
                          "%s: was trained with %s %s (%s), but now %s holds other text (%s): put it back, "
                          "or train a new run, which --from can start with these parameters",
                          path, text->key, old_file, old_text, text->file, description);
    qkv_arena_release(&arena);
    return status;
}

/* ---- opening ---- */

/* Reports that there is no such run. Suggests runs/<folder>, where `qkv train` makes runs, if that exists. */
static enum qkv_status no_such_run(const char *folder, struct qkv_arena *arena, struct qkv_error *error)
{
    const char *meant = qkv_arena_format(arena, "runs/%s", folder);
    return qkv_error_set(error,
                         meant && qkv_path_exists(meant) ? "%s: there is no such run; did you mean %s"
                                                         : "%s: there is no such run",
                         folder, meant);
}

/* Reports that a run is no folder. If the file is a config, names its run. */
static enum qkv_status not_a_folder(const char *path, struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_config config;
    struct qkv_messages messages;
    if (!qkv_path_is_yaml(path) || qkv_config_read(&config, arena, path, NULL, 0, &messages))
        return qkv_error_set(error, "%s: is a file, but a run is a folder", path);
    return qkv_error_set(error, "%s: is a config, but a run is a folder; its run is %s%s", path,
                         config.training.model_dir,
                         qkv_path_exists(config.training.model_dir) ? "" : ", which does not exist yet");
}

/* Reports that a folder is not a run. If it holds runs, as that of `qkv sweep` does, names one. */
static enum qkv_status not_a_run(const char *folder, struct qkv_arena *arena, struct qkv_error *error)
{
    const char *inside = find_run_inside(arena, folder);
    if (inside) return qkv_error_set(error, "%s: not a run, but it holds runs, such as %s", folder, inside);
    return qkv_error_set(error, "%s: not a run: it holds no %s; `qkv train` makes runs", folder,
                         QKV_RUN_CONFIG);
}

enum qkv_status qkv_run_read_config(const char *folder, struct qkv_config *config, struct qkv_arena *arena,
                                    struct qkv_error *error)
{
    struct stat status;
    if (!qkv_path_exists(folder)) return no_such_run(folder, arena, error);
    if (stat(folder, &status)) return qkv_error_set(error, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode)) return not_a_folder(folder, arena, error);
    const char *path = QKV_RUN_FILE(folder, QKV_RUN_CONFIG);
    if (!qkv_path_exists(path)) return not_a_run(folder, arena, error);
    struct qkv_data_config format;
    if (qkv_run_format_read(folder, &format, error) || qkv_file_check(path, error)) return QKV_INVALID;
    struct qkv_messages messages = {0};
    enum qkv_status code = qkv_config_read(config, arena, path, NULL, 0, &messages);
    config->data.src.plain_marks = config->data.trg.plain_marks = format.src.plain_marks;
    if (!code) return QKV_OK;
    return qkv_error_set(error, "%s", messages.count ? messages.text[0] : path);
}

enum qkv_status qkv_run_merges(const char *folder, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                               struct qkv_error *error)
{
    static const char *const names[2] = {QKV_RUN_SOURCE_CODES, QKV_RUN_TARGET_CODES},
                             *const pieces[2] = {QKV_RUN_SOURCE_PIECES, QKV_RUN_TARGET_PIECES};
    struct qkv_text_config *texts[2] = {&data->src, &data->trg};
    bool failed = false;
    for (int side = 0; side < 2; side++) {
        bpe[side] = NULL;
        if (failed || texts[side]->level != QKV_LEVEL_BPE) continue;
        texts[side]->bpe = bpe[side] = qkv_bpe_load(QKV_RUN_FILE(folder, names[side]), error);
        failed = !bpe[side];
        if (!failed && texts[side]->bpe_min_freq > 0)
            failed = qkv_bpe_load_pieces(bpe[side], QKV_RUN_FILE(folder, pieces[side]), error);
    }
    return failed ? QKV_INVALID : QKV_OK;
}

static const char *choose_checkpoint(struct qkv_run *run, const char *wanted)
{
    const char *name = QKV_RUN_LAST;
    if (wanted && strchr(wanted, '/')) return wanted;
    if (wanted) {
        const char *given = QKV_RUN_FILE(run->path, wanted);
        const char *complete = qkv_arena_format(&run->arena, "%s.safetensors", given);
        if (!complete || (!qkv_path_exists(given) && qkv_path_exists(complete))) return complete;
        name = wanted;
    } else if (run->config.testing.average && qkv_path_exists(QKV_RUN_FILE(run->path, QKV_RUN_AVERAGE))) {
        name = QKV_RUN_AVERAGE;
    } else if (qkv_path_exists(QKV_RUN_FILE(run->path, QKV_RUN_BEST))) {
        name = QKV_RUN_BEST;
    }
    return qkv_arena_format(&run->arena, "%s/%s", run->path, name);
}

/* Reports that the run has no checkpoint of this name, or none at all (NULL). */
static enum qkv_status no_such_checkpoint(struct qkv_run *run, const char *wanted, struct qkv_error *error)
{
    const char *names = wanted ? list_checkpoints(&run->arena, run->path) : NULL;
    if (!names)
        return qkv_error_set(error, "%s: holds no checkpoint: training has not saved one yet", run->path);
    return qkv_error_set(error, "%s: there is no checkpoint %s; it has %s", run->path, wanted, names);
}

static enum qkv_status open_parts(struct qkv_run *run, const char *checkpoint, enum qkv_dtype dtype,
                                  struct qkv_error *error)
{
    if (qkv_run_read_config(run->path, &run->config, &run->arena, error)) return QKV_INVALID;
    run->checkpoint = choose_checkpoint(run, checkpoint);
    if (!run->checkpoint) return qkv_no_memory(error);
    bool is_path = checkpoint && strchr(checkpoint, '/'); /* loading it reports why it cannot be read */
    if (!is_path && !qkv_path_exists(run->checkpoint)) return no_such_checkpoint(run, checkpoint, error);
    if (qkv_vocabulary_load(&run->source, QKV_RUN_FILE(run->path, QKV_RUN_SOURCE), error) ||
        qkv_vocabulary_load(&run->target, QKV_RUN_FILE(run->path, QKV_RUN_TARGET), error))
        return QKV_INVALID;
    if (qkv_run_merges(run->path, &run->config.data, run->bpe, error)) return QKV_INVALID;
    run->sides = qkv_sides_of(&run->config.data, &run->config.model);
    run->model = qkv_model_new(&run->config.model, run->source.size, run->target.size, dtype, error);
    if (!run->model) return QKV_INVALID;
    struct qkv_parameters *parameters = &run->model->parameters;
    enum qkv_status status = qkv_checkpoint_load(run->checkpoint, parameters, NULL, &run->state, error);
    /* Check even if loading failed: a changed config key explains more than a tensor of another shape. */
    if (qkv_provenance_check(&run->state, &run->config, QKV_KEYS_FIXED_BY_MODEL, &run->source, &run->target,
                             run->checkpoint, error))
        return QKV_INVALID;
    if (status) return status;
    const struct qkv_parameter *parameter = qkv_parameters_find_not_finite(parameters, parameters->values);
    if (!parameter) return QKV_OK;
    qkv_error_set(
        error,
        "%s: %s holds infinity or NaN, so the model computes nothing: choose another checkpoint of the "
        "run, or train it again with a lower training.learning_rate",
        run->checkpoint, parameter->name);
    return QKV_FAILED;
}

enum qkv_status qkv_run_open(struct qkv_run *run, const char *path, const char *checkpoint,
                             enum qkv_dtype dtype, struct qkv_error *error)
{
    *run = (struct qkv_run){0};
    if (!*path) return qkv_error_set(error, "the name of the run folder is empty");
    run->path = qkv_arena_string(&run->arena, path);
    if (!run->path) return qkv_no_memory(error);
    enum qkv_status status = open_parts(run, checkpoint, dtype, error);
    if (status) qkv_run_release(run);
    return status;
}

void qkv_run_release(struct qkv_run *run)
{
    qkv_model_free(run->model);
    qkv_vocabulary_release(&run->source);
    qkv_vocabulary_release(&run->target);
    for (int side = 0; side < 2; side++) qkv_bpe_free(run->bpe[side]);
    qkv_state_release(&run->state);
    qkv_arena_release(&run->arena);
    *run = (struct qkv_run){0};
}

/* ---- snapshots ---- */

static int is_snapshot(const struct dirent *entry)
{
    return qkv_numbered_update(entry->d_name, NUMBERED_SNAPSHOT) >= 0;
}

int qkv_by_update(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

enum qkv_status qkv_snapshots_find(struct qkv_run *run, int64_t **updates, int64_t *count,
                                   struct qkv_error *error)
{
    struct dirent **entries = NULL;
    int found = scandir(run->path, &entries, is_snapshot, NULL);
    if (found < 0) return qkv_error_set(error, "%s: cannot be read: %s", run->path, strerror(errno));
    *count = 0;
    *updates = qkv_arena_array(&run->arena, found + 1, sizeof **updates);
    for (int i = 0; i < found; i++) {
        if (*updates) (*updates)[(*count)++] = qkv_numbered_update(entries[i]->d_name, NUMBERED_SNAPSHOT);
        free(entries[i]);
    }
    free(entries);
    if (!*updates) return qkv_no_memory(error);
    if (*count) qsort(*updates, (size_t)*count, sizeof **updates, qkv_by_update);
    return QKV_OK;
}

double qkv_checkpoint_loss(const struct qkv_state *state)
{
    double sum, tokens;
    bool known = !qkv_state_get_number(state, "train.log_loss", &sum, NULL) &&
                 !qkv_state_get_number(state, "train.log_tokens", &tokens, NULL) && tokens > 0;
    return known ? sum / tokens : (double)NAN;
}

enum qkv_status qkv_run_load(struct qkv_run *run, const char *path, struct qkv_state *state,
                             struct qkv_error *error)
{
    enum qkv_status status = qkv_checkpoint_load(path, &run->model->parameters, NULL, state, error);
    return status ? status
                  : qkv_provenance_check(state, &run->config, QKV_KEYS_FIXED_BY_MODEL, &run->source,
                                         &run->target, path, error);
}

enum qkv_status qkv_snapshot_load(struct qkv_run *run, int64_t update, double *loss, struct qkv_error *error)
{
    struct qkv_state state = {0};
    char name[NUMBERED_NAME_SIZE];
    const char *path = QKV_RUN_FILE(run->path, qkv_numbered_name(name, NUMBERED_SNAPSHOT, update));
    enum qkv_status status = qkv_run_load(run, path, &state, error);
    *loss = qkv_checkpoint_loss(&state);
    qkv_state_release(&state);
    return status;
}
