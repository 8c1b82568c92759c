/* qkv inspect: what a run is made of. */
#include "commands.h"
#include "complain.h"
#include "json.h"

#include "qkv/run.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char CHECKPOINT_END[] = ".safetensors";

struct checkpoint_file {
    const char *name;
    int64_t bytes;
};

/* Where training stood; false: the checkpoint does not say. */
struct training {
    bool known, has_best;
    int64_t update, epoch, tokens, best_update; /* epoch from 1 */
    double best;
};

/* What is shown, as text or JSON. */
struct inspection {
    struct qkv_run run;
    struct training training;
    struct checkpoint_file *files; /* by name */
    int64_t file_count;
};

/* ---- finding out ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct checkpoint_file *)a)->name, ((const struct checkpoint_file *)b)->name);
}

static bool is_checkpoint(const char *name)
{
    size_t length = strlen(name), end = sizeof CHECKPOINT_END - 1;
    return length > end && !strcmp(name + length - end, CHECKPOINT_END);
}

static enum qkv_status list_files(struct inspection *i, struct qkv_error *error)
{
    DIR *folder = opendir(i->run.path);
    if (!folder) return qkv_error_set(error, "%s: %s", i->run.path, strerror(errno));
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        struct stat file;
        if (!is_checkpoint(entry->d_name)) continue;
        const char *path = qkv_run_file(&i->run.arena, i->run.path, entry->d_name);
        const char *name = qkv_arena_string(&i->run.arena, entry->d_name);
        struct checkpoint_file *more = realloc(i->files, (size_t)(i->file_count + 1) * sizeof *more);
        if (more) i->files = more;
        if (!path || !name || !more)
            status = qkv_error_set(error, "out of memory");
        else if (stat(path, &file) == 0) /* else training has just removed it */
            i->files[i->file_count++] = (struct checkpoint_file){name, (int64_t)file.st_size};
    }
    closedir(folder);
    if (i->file_count) qsort(i->files, (size_t)i->file_count, sizeof *i->files, by_name);
    return status;
}

static struct training training_of(const struct qkv_state *state)
{
    struct training t = {0};
    t.known = !qkv_state_get_integer(state, "train.update", &t.update, NULL) &&
              !qkv_state_get_integer(state, "train.epoch", &t.epoch, NULL) &&
              !qkv_state_get_integer(state, "train.tokens", &t.tokens, NULL);
    t.epoch++;
    t.has_best = t.known && !qkv_state_get_integer(state, "train.best.1.update", &t.best_update, NULL) &&
                 !qkv_state_get_number(state, "train.best.1.score", &t.best, NULL);
    return t;
}

/* Root mean square of a parameter's values: a layer that died or blew up shows. */
static double size_of_values(const struct qkv_parameters *parameters, const struct qkv_parameter *parameter)
{
    double sum = 0;
    for (int64_t i = 0; i < parameter->count; i++) {
        double value = qkv_parameter_get(parameters, parameter, i);
        sum += value * value;
    }
    return sqrt(sum / (double)parameter->count);
}

/* The name of the part that a parameter belongs to, what stands before the first dot. */
static size_t part_length(const char *name)
{
    return strcspn(name, ".");
}

/* Learned numbers of the part of parameter `first`; 0 when an earlier parameter belongs to it as well. */
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

static void print_recurrent(const char *name, const struct qkv_stack_config *s, bool decoder)
{
    printf("  %-12s recurrent, %lld layer%s of %s, width %lld", name, (long long)s->num_layers,
           s->num_layers == 1 ? "" : "s", qkv_cell_name(s->rnn_type), (long long)s->hidden_size);
    if (!decoder)
        puts(s->bidirectional ? ", bidirectional" : s->reverse ? ", from the last word" : "");
    else
        printf(", attention %s%s, starts by %s\n", qkv_attention_score_name(s->attention.score),
               s->input_feeding ? " with input feeding" : "", qkv_init_hidden_name(s->init_hidden));
}

/* What attention has beside the usual. */
static void print_variant(const struct qkv_stack_config *s)
{
    const struct qkv_attention_config *attention = &s->attention;
    if (attention->key_value_heads != s->num_heads)
        printf(", %lld key head%s", (long long)attention->key_value_heads,
               attention->key_value_heads == 1 ? "" : "s");
    if (attention->window < QKV_WINDOW_NONE) printf(", window %lld", (long long)attention->window);
    if (attention->global_tokens)
        printf(" and %lld global token%s", (long long)attention->global_tokens,
               attention->global_tokens == 1 ? "" : "s");
    if (attention->kernel != QKV_KERNEL_AUTO)
        printf(", %s kernel", qkv_attention_kernel_name(attention->kernel));
    putchar('\n');
}

static void print_stack(const char *name, const struct qkv_stack_config *s, bool decoder)
{
    if (s->type == QKV_NETWORK_RECURRENT) {
        print_recurrent(name, s, decoder);
        return;
    }
    printf("  %-12s %s, %lld layer%s, %lld head%s, width %lld, feed-forward %lld (%s), %s-norm (%s), %s "
           "positions",
           name, qkv_network_name(s->type), (long long)s->num_layers, s->num_layers == 1 ? "" : "s",
           (long long)s->num_heads, s->num_heads == 1 ? "" : "s", (long long)s->hidden_size,
           (long long)s->ff_size, qkv_activation_name(s->activation), qkv_norm_place_name(s->layer_norm),
           qkv_norm_kind_name(s->norm), qkv_position_kind_name(s->positions.type));
    print_variant(s);
}

static void print_model(const struct inspection *i)
{
    const struct qkv_config *config = &i->run.config;
    printf("%s (%s, loaded from %s)\n\nmodel\n", config->name, i->run.path, i->run.checkpoint);
    print_stack("encoder", &config->model.encoder, false);
    print_stack("decoder", &config->model.decoder, true);
    printf("  %-12s %d source types (%s), %d target types (%s)%s%s\n", "vocabulary", (int)i->run.source.size,
           config->data.src.lang, (int)i->run.target.size, config->data.trg.lang,
           config->model.tied_embeddings ? ", tied embeddings" : "",
           config->model.tied_softmax ? ", tied softmax" : "");
}

static void print_training(const struct inspection *i)
{
    const struct training *t = &i->training;
    const struct qkv_training_config *config = &i->run.config.training;
    printf("\ntraining\n  %-12s %s, learning rate %g, %s schedule\n", "optimizer",
           qkv_optimizer_kind_name(config->optimizer), config->learning_rate,
           qkv_schedule_kind_name(config->scheduling));
    if (t->known)
        printf("  %-12s update %lld, epoch %lld, %lld target tokens\n", "stands at", (long long)t->update,
               (long long)t->epoch, (long long)t->tokens);
    if (t->has_best)
        printf("  %-12s %s %.4f at update %lld\n", "best", qkv_metric_name(config->early_stopping_metric),
               t->best, (long long)t->best_update);
}

static void print_files(const struct inspection *i)
{
    puts("\ncheckpoints");
    for (int64_t f = 0; f < i->file_count; f++)
        printf("  %-28s %12lld bytes\n", i->files[f].name, (long long)i->files[f].bytes);
}

static const char *shape_text(struct qkv_shape shape, char text[96])
{
    int used = snprintf(text, 96, "[");
    for (int axis = 0; axis < shape.rank; axis++)
        used +=
            snprintf(text + used, 96 - (size_t)used, "%s%lld", axis ? ", " : "", (long long)shape.size[axis]);
    snprintf(text + used, 96 - (size_t)used, "]");
    return text;
}

static void print_parameters(const struct qkv_parameters *p)
{
    char shape[96];
    int width = 10;
    for (int64_t k = 0; k < p->count; k++)
        if ((int)strlen(p->list[k]->name) > width) width = (int)strlen(p->list[k]->name);
    printf("\nparameters\n  %-*s %14s %12s %12s\n", width, "name", "shape", "count", "rms");
    for (int64_t k = 0; k < p->count; k++)
        printf("  %-*s %14s %12lld %12.4g\n", width, p->list[k]->name, shape_text(p->list[k]->shape, shape),
               (long long)p->list[k]->count, size_of_values(p, p->list[k]));
    putchar('\n');
    for (int64_t k = 0; k < p->count; k++) {
        int64_t total = part_total(p, k);
        const char *name = p->list[k]->name;
        if (total)
            printf("  %-*.*s %14s %12lld\n", width, (int)part_length(name), name, "", (long long)total);
    }
    printf("  %-*s %14s %12lld\n", width, "total", "", (long long)qkv_parameters_total(p));
}

/* ---- JSON ---- */

static cJSON *stack_json(const struct qkv_stack_config *s, bool decoder)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "type", qkv_network_name(s->type));
    cJSON_AddNumberToObject(object, "num_layers", (double)s->num_layers);
    cJSON_AddNumberToObject(object, "hidden_size", (double)s->hidden_size);
    if (s->type == QKV_NETWORK_RECURRENT) {
        cJSON_AddStringToObject(object, "rnn_type", qkv_cell_name(s->rnn_type));
        if (decoder) {
            cJSON_AddStringToObject(object, "score", qkv_attention_score_name(s->attention.score));
            cJSON_AddStringToObject(object, "init_hidden", qkv_init_hidden_name(s->init_hidden));
            cJSON_AddBoolToObject(object, "input_feeding", s->input_feeding);
        } else {
            cJSON_AddBoolToObject(object, "bidirectional", s->bidirectional);
            cJSON_AddBoolToObject(object, "reverse", s->reverse);
        }
        return object;
    }
    cJSON_AddNumberToObject(object, "num_heads", (double)s->num_heads);
    cJSON_AddNumberToObject(object, "key_value_heads", (double)s->attention.key_value_heads);
    if (s->attention.window < QKV_WINDOW_NONE)
        cJSON_AddNumberToObject(object, "window", (double)s->attention.window);
    else
        cJSON_AddNullToObject(object, "window");
    cJSON_AddNumberToObject(object, "global_tokens", (double)s->attention.global_tokens);
    cJSON_AddStringToObject(object, "kernel", qkv_attention_kernel_name(s->attention.kernel));
    cJSON_AddNumberToObject(object, "ff_size", (double)s->ff_size);
    cJSON_AddStringToObject(object, "activation", qkv_activation_name(s->activation));
    cJSON_AddStringToObject(object, "layer_norm", qkv_norm_place_name(s->layer_norm));
    cJSON_AddStringToObject(object, "norm", qkv_norm_kind_name(s->norm));
    cJSON_AddStringToObject(object, "positions", qkv_position_kind_name(s->positions.type));
    cJSON_AddNumberToObject(object, "max_length", (double)s->positions.max_length);
    return object;
}

static cJSON *training_json(const struct inspection *i)
{
    const struct training *t = &i->training;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "optimizer", qkv_optimizer_kind_name(i->run.config.training.optimizer));
    if (t->known) {
        cJSON_AddNumberToObject(object, "update", (double)t->update);
        cJSON_AddNumberToObject(object, "epoch", (double)t->epoch);
        cJSON_AddNumberToObject(object, "target_tokens", (double)t->tokens);
    }
    if (t->has_best) {
        cJSON *best = cJSON_AddObjectToObject(object, "best");
        cJSON_AddStringToObject(best, "metric",
                                qkv_metric_name(i->run.config.training.early_stopping_metric));
        cJSON_AddNumberToObject(best, "value", t->best);
        cJSON_AddNumberToObject(best, "update", (double)t->best_update);
    }
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
        cJSON_AddNumberToObject(object, "count", (double)parameter->count);
        cJSON_AddNumberToObject(object, "rms", size_of_values(p, parameter));
    }
}

static enum qkv_status print_json(const struct inspection *i, struct qkv_error *error)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", i->run.config.name);
    cJSON_AddStringToObject(root, "run", i->run.path);
    cJSON_AddStringToObject(root, "checkpoint", i->run.checkpoint);
    cJSON *model = cJSON_AddObjectToObject(root, "model");
    cJSON_AddItemToObject(model, "encoder", stack_json(&i->run.config.model.encoder, false));
    cJSON_AddItemToObject(model, "decoder", stack_json(&i->run.config.model.decoder, true));
    cJSON *vocabulary = cJSON_AddObjectToObject(root, "vocabulary");
    cJSON_AddNumberToObject(vocabulary, "source", i->run.source.size);
    cJSON_AddNumberToObject(vocabulary, "target", i->run.target.size);
    cJSON_AddItemToObject(root, "training", training_json(i));
    cJSON *files = cJSON_AddArrayToObject(root, "checkpoints");
    for (int64_t f = 0; f < i->file_count; f++) {
        cJSON *file = cJSON_CreateObject();
        cJSON_AddItemToArray(files, file);
        cJSON_AddStringToObject(file, "name", i->files[f].name);
        cJSON_AddNumberToObject(file, "bytes", (double)i->files[f].bytes);
    }
    add_parameters(root, &i->run.model->parameters);
    return json_print(root, error);
}

/* ---- the command ---- */

static const char *checkpoint;
static bool json;

static int run(int operands, char **operand)
{
    struct inspection i = {0};
    struct qkv_error error = {""};
    (void)operands;
    enum qkv_status status = qkv_run_open(&i.run, operand[0], checkpoint, QKV_FLOAT32, &error);
    if (!status) status = list_files(&i, &error);
    if (!status) {
        i.training = training_of(&i.run.state);
        if (json)
            status = print_json(&i, &error);
        else {
            print_model(&i);
            print_training(&i);
            print_files(&i);
            print_parameters(&i.run.model->parameters);
        }
    }
    free(i.files);
    qkv_run_release(&i.run);
    return conclude(status, &error);
}

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show the model, training state and parameters of a run",
    .description = "Shows what a run consists of: the model, how far training has got, the checkpoint "
                   "files, and every parameter with its shape, number of elements and root mean square.\n",
    .examples = "  qkv inspect runs/toy_en_es\n"
                "  qkv inspect runs/toy_en_es --checkpoint last.safetensors --json\n",
    .operands =
        (const struct command_operand[]){
            {"RUN", VALUE_RUN, "a run folder"},
            {0},
        },
    .options =
        (const struct command_option[]){
            COMMAND_OPTION_CHECKPOINT(&checkpoint),
            COMMAND_OPTION_JSON(&json),
            {0},
        },
    .run = run,
};
