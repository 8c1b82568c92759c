/* qkv inspect: shows the configuration, training progress, checkpoint files and parameters of a run. */
#include "core/choices.h"
#include "open_run.h"

#include "checkpoint/safetensors.h"
#include "config/config_keys.h"
#include "graph/graph.h"

#include <dirent.h>

/* The progress of training when the checkpoint was written. */
struct training {
    bool known, has_best; /* false: not recorded in the checkpoint */
    int64_t update, epoch /* from 1 */, target_tokens, best_update;
    double best; /* value of training.early_stopping_metric */
};

struct inspection {
    struct qkv_run run;
    struct training training;
    cJSON *files; /* of checkpoints, by name: objects with name and bytes */
};

/* ---- facts ---- */

static int is_checkpoint(const struct dirent *entry)
{
    return qkv_ends_in(entry->d_name + 1, ".safetensors");
}

static enum qkv_status list_files(struct inspection *inspection, struct qkv_error *error)
{
    const struct qkv_run *run = &inspection->run;
    struct qkv_arena *arena = &inspection->run.arena;
    enum qkv_status status = QKV_OK;
    struct dirent **entries;
    int count = scandir(run->path, &entries, is_checkpoint, alphasort);
    if (count < 0) return qkv_error_set(error, "%s: %s", run->path, strerror(errno));
    inspection->files = cJSON_CreateArray();
    for (int i = 0; i < count; i++) {
        struct stat file;
        const char *path = TEXT_IN(arena, "%s/%s", run->path, entries[i]->d_name);
        if (stat(path, &file) == 0) {
            cJSON *object = cJSON_CreateObject();
            cJSON_AddItemToArray(inspection->files, object);
            JSON_TEXTS(object, {"name", path + strlen(run->path) + 1});
            JSON_NUMBERS(object, {"bytes", (double)file.st_size});
        } else if (errno != ENOENT) { /* training may just have removed it */
            status = qkv_error_set(error, "%s: %s", path, strerror(errno));
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static struct training training_of(const struct qkv_state *state)
{
    struct training t = {0};
    t.known = !qkv_state_get_count(state, "train.update", &t.update, NULL) &&
              !qkv_state_get_count(state, "train.epoch", &t.epoch, NULL) &&
              !qkv_state_get_count(state, "train.tokens", &t.target_tokens, NULL);
    t.epoch++;
    t.has_best = t.known && !qkv_state_get_count(state, "train.best.1.update", &t.best_update, NULL) &&
                 !qkv_state_get_number(state, "train.best.1.score", &t.best, NULL);
    return t;
}

/* Root mean square of the values: near 0 in a layer that died, huge in one that diverged. */
static double root_mean_square(const struct qkv_parameters *parameters, const struct qkv_parameter *parameter)
{
    double sum = 0;
    for (int64_t i = 0; i < parameter->count; i++) {
        double value = qkv_parameter_get(parameters, parameter, i);
        sum += value * value;
    }
    return sqrt(sum / (double)parameter->count);
}

/* Bytes of the name of the part that a parameter belongs to: "encoder" of "encoder.1.self.query.weight". */
static size_t part_length(const char *name)
{
    return strcspn(name, ".");
}

/* Number of values in the part of parameter `first`; 0 when an earlier parameter belongs to the same part. */
static int64_t part_total(const struct qkv_parameters *parameters, int64_t first)
{
    const char *name = parameters->list[first]->name;
    size_t length = part_length(name) + 1;
    int64_t total = 0;
    for (int64_t i = 0; i < parameters->count; i++) {
        if (strncmp(parameters->list[i]->name, name, length) != 0) continue;
        if (i < first) return 0;
        total += parameters->list[i]->count;
    }
    return total;
}

/* ---- text ---- */

/* The values that encoder and decoder have for one key. */
struct stack_key {
    const char *name, *encoder, *decoder; /* NULL: the stack does not use the key */
};

enum { MAX_STACK_KEYS = 100 };

struct stack_table {
    struct qkv_arena *arena;
    int count;
    struct stack_key key[MAX_STACK_KEYS];
};

static bool add_stack_key(void *context, const char *path, const char *value)
{
    static const char encoder[] = "model.encoder.", decoder[] = "model.decoder.";
    struct stack_table *table = context;
    bool is_encoder = !strncmp(path, encoder, sizeof encoder - 1);
    if (!is_encoder && strncmp(path, decoder, sizeof decoder - 1) != 0) return true;
    const char *name = path + sizeof encoder - 1;
    int i = 0;
    while (i < table->count && strcmp(table->key[i].name, name) != 0) i++;
    if (i == MAX_STACK_KEYS) return false;
    value = TEXT_IN(table->arena, "%s", value);
    if (i == table->count) table->key[table->count++].name = name;
    if (!strcmp(name, "attention.window") && !strcmp(value, "1000000")) value = "unlimited";
    *(is_encoder ? &table->key[i].encoder : &table->key[i].decoder) = value;
    return true;
}

static void print_stacks(struct inspection *inspection)
{
    struct stack_table table = {.arena = &inspection->run.arena};
    if (qkv_config_each(&inspection->run.config, QKV_KEYS_WITH_EFFECT, add_stack_key, &table)) required(NULL);
    printf("  %-26s %-12s %s\n", "", "encoder", "decoder");
    for (int k = 0; k < table.count; k++) {
        const struct stack_key *key = &table.key[k];
        printf("  %-26s ", key->name);
        if (key->decoder)
            printf("%-12s %s\n", key->encoder ? key->encoder : "", key->decoder);
        else
            puts(key->encoder);
    }
}

/* A name that is safe to print. */
static const char *plain(struct inspection *inspection, const char *text)
{
    return required((char *)qkv_arena_plain(&inspection->run.arena, text));
}

static void print_model(struct inspection *inspection)
{
    const struct qkv_config *config = &inspection->run.config;
    printf("%s (%s, loaded from %s)\n\nmodel\n", plain(inspection, config->name),
           plain(inspection, inspection->run.path), plain(inspection, inspection->run.checkpoint));
    print_stacks(inspection);
    printf("  %-26s %d source types (%s), %d target types (%s)%s%s\n", "vocabulary",
           (int)inspection->run.source.size, plain(inspection, config->data.src.lang),
           (int)inspection->run.target.size, plain(inspection, config->data.trg.lang),
           config->model.tied_embeddings ? ", tied embeddings" : "",
           config->model.tied_softmax ? ", tied softmax" : "");
}

static void print_training(const struct inspection *inspection)
{
    const struct training *t = &inspection->training;
    const struct qkv_training_config *config = &inspection->run.config.training;
    printf("\ntraining\n  %-12s %s, learning rate %g, %s schedule\n", "optimizer",
           qkv_optimizer_kind_name(config->optimizer), config->learning_rate,
           qkv_schedule_kind_name(config->scheduling));
    if (t->known)
        printf("  %-12s update %lld, epoch %lld, %lld target tokens\n", "progress", (long long)t->update,
               (long long)t->epoch, (long long)t->target_tokens);
    if (t->has_best)
        printf("  %-12s %s %.4f at update %lld\n", "best", qkv_metric_name(config->early_stopping_metric),
               t->best, (long long)t->best_update);
}

/* The k-th file, from 1, that went into the average that was loaded; NULL: it is not an average, or has no more files. */
static const char *averaged(const struct inspection *inspection, int64_t k)
{
    char key[48];
    snprintf(key, sizeof key, "average.%lld", (long long)k);
    return qkv_state_get(&inspection->run.state, key);
}

static void print_average(struct inspection *inspection)
{
    if (!averaged(inspection, 1)) return;
    printf("  %-12s", "average of");
    for (int64_t k = 1; averaged(inspection, k); k++)
        printf("%s %s", k > 1 ? "," : "", plain(inspection, averaged(inspection, k)));
    putchar('\n');
}

static void print_files(struct inspection *inspection)
{
    const cJSON *file;
    puts("\ncheckpoints");
    cJSON_ArrayForEach(file, inspection->files) printf(
        "  %-28s %12.0f bytes\n", plain(inspection, cJSON_GetStringValue(cJSON_GetObjectItem(file, "name"))),
        cJSON_GetNumberValue(cJSON_GetObjectItem(file, "bytes")));
}

static void print_parameters(const struct qkv_parameters *p)
{
    int width = 10;
    for (int64_t k = 0; k < p->count; k++)
        if ((int)strlen(p->list[k]->name) > width) width = (int)strlen(p->list[k]->name);
    printf("\nparameters\n  %-*s %14s %12s %12s\n", width, "name", "shape", "count", "rms");
    for (int64_t k = 0; k < p->count; k++)
        printf("  %-*s %14s %12lld %12.4g\n", width, p->list[k]->name, qkv_shape_text(p->list[k]->shape),
               (long long)p->list[k]->count, root_mean_square(p, p->list[k]));
    putchar('\n');
    for (int64_t k = 0; k < p->count; k++) {
        int64_t total = part_total(p, k);
        const char *name = p->list[k]->name;
        if (total)
            printf("  %-*.*s %14s %12lld\n", width, (int)part_length(name), name, "", (long long)total);
    }
    printf("  %-*s %14s %12lld\n", width, "total", "", (long long)qkv_parameters_total(p));
}

static void print_text(struct inspection *inspection)
{
    print_model(inspection);
    print_training(inspection);
    print_average(inspection);
    print_files(inspection);
    print_parameters(&inspection->run.model->parameters);
}

/* ---- JSON ---- */

/* Adds a key of the model to the object, in the sections of its path. */
static bool add_model_key(void *context, const char *path, const char *value)
{
    cJSON *section = context;
    char name[64];
    if (strncmp(path, "model.", 6) != 0) return true;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        cJSON *inner = cJSON_GetObjectItem(section, name);
        section = inner ? inner : cJSON_AddObjectToObject(section, name);
    }
    cJSON *item = cJSON_Parse(value); /* parses numbers and booleans; names of choices are not JSON */
    return cJSON_AddItemToObject(section, path, item ? item : cJSON_CreateString(value));
}

static cJSON *training_json(const struct inspection *inspection)
{
    const struct training *t = &inspection->training;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "optimizer",
                            qkv_optimizer_kind_name(inspection->run.config.training.optimizer));
    if (t->known) {
        JSON_NUMBERS(object, {"update", (double)t->update}, {"epoch", (double)t->epoch},
                     {"target_tokens", (double)t->target_tokens});
    }
    if (t->has_best) {
        cJSON *best = cJSON_AddObjectToObject(object, "best");
        cJSON_AddStringToObject(best, "metric",
                                qkv_metric_name(inspection->run.config.training.early_stopping_metric));
        JSON_NUMBERS(best, {"value", t->best}, {"update", (double)t->best_update});
    }
    cJSON *list = averaged(inspection, 1) ? cJSON_AddArrayToObject(object, "average") : NULL;
    for (int64_t k = 1; averaged(inspection, k); k++)
        cJSON_AddItemToArray(list, cJSON_CreateString(averaged(inspection, k)));
    return object;
}

static void add_parameters(cJSON *root, const struct qkv_parameters *p)
{
    cJSON_AddNumberToObject(root, "total", (double)qkv_parameters_total(p));
    cJSON *parts = cJSON_AddObjectToObject(root, "parts");
    cJSON *list = cJSON_AddArrayToObject(root, "parameters");
    for (int64_t k = 0; k < p->count; k++) {
        const struct qkv_parameter *parameter = p->list[k];
        char part[64];
        int64_t total = part_total(p, k);
        snprintf(part, sizeof part, "%.*s", (int)part_length(parameter->name), parameter->name);
        if (total) cJSON_AddNumberToObject(parts, part, (double)total);
        cJSON *object = cJSON_CreateObject();
        cJSON_AddItemToArray(list, object);
        cJSON_AddStringToObject(object, "name", parameter->name);
        cJSON *shape = cJSON_AddArrayToObject(object, "shape");
        for (int axis = 0; axis < parameter->shape.rank; axis++)
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)parameter->shape.size[axis]));
        JSON_NUMBERS(object, {"count", (double)parameter->count}, {"rms", root_mean_square(p, parameter)});
    }
}

static void print_json(struct inspection *inspection)
{
    cJSON *root = cJSON_CreateObject();
    JSON_TEXTS(root, {"name", inspection->run.config.name}, {"run", inspection->run.path},
               {"checkpoint", inspection->run.checkpoint});
    if (qkv_config_each(&inspection->run.config, QKV_KEYS_WITH_EFFECT, add_model_key, root)) required(NULL);
    cJSON *vocabulary = cJSON_AddObjectToObject(root, "vocabulary");
    JSON_NUMBERS(vocabulary, {"source", inspection->run.source.size},
                 {"target", inspection->run.target.size});
    cJSON_AddItemToObject(root, "training", training_json(inspection));
    cJSON_AddItemReferenceToObject(root, "checkpoints", inspection->files);
    add_parameters(root, &inspection->run.model->parameters);
    json_print(root);
}

/* ---- the vocabulary ---- */

/* Prints the words of both vocabularies, without the special ones: lines of TSV, or an object of two arrays. */
static void print_vocabulary(const struct qkv_run *run, bool as_json)
{
    cJSON *root = as_json ? cJSON_CreateObject() : NULL;
    for (int side = 0; side < 2; side++) {
        const struct qkv_vocabulary *words = side ? &run->target : &run->source;
        const char *name = side ? "target" : "source";
        cJSON *list = as_json ? cJSON_AddArrayToObject(root, name) : NULL;
        for (int32_t id = QKV_SPECIALS; id < words->size; id++) {
            const char *word = qkv_vocabulary_token(words, id);
            if (as_json) {
                cJSON_AddItemToArray(list, cJSON_CreateString(word));
                continue;
            }
            printf("%s\t", name);
            print_result(stdout, word);
            putchar('\n');
        }
    }
    if (as_json) json_print(root);
}

/* ---- the command ---- */

static const char *checkpoint;
static bool json, vocabulary;

static int run_inspect(int operands, char **operand)
{
    struct inspection inspection = {0};
    struct qkv_error error = {""};
    (void)operands;
    enum qkv_status status = open_run(&inspection.run, operand[0], checkpoint, QKV_FLOAT32, NULL, &error);
    if (!status) status = list_files(&inspection, &error);
    if (!status) inspection.training = training_of(&inspection.run.state);
    if (!status && vocabulary)
        print_vocabulary(&inspection.run, json);
    else if (!status)
        (json ? print_json : print_text)(&inspection);
    cJSON_Delete(inspection.files);
    qkv_run_release(&inspection.run);
    return conclude(status, &error);
}

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show the model, training state and parameters of a run",
    .description = "Shows what a run consists of: the model, how far training has got, the checkpoint "
                   "files, and every parameter with its shape, number of elements and root mean square. With "
                   "--vocabulary, the words that it knows instead.\n",
    .examples = "  qkv inspect runs/toy_en_es\n"
                "  qkv inspect runs/toy_en_es --checkpoint last --json\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder"}),
    .options = OPTIONS({"vocabulary", 0, NULL, OPTION_FLAG, &vocabulary,
                        "list the known words of both languages: source or target, a tab, a word"},
                       COMMAND_OPTION_CHECKPOINT(&checkpoint), COMMAND_OPTION_JSON(&json)),
    .run = run_inspect,
};
