/* The registered networks, and their settings in configs. */
#include "core/memory.h"
#include "core/text.h"
#include "models/network.h"

#include <math.h>

enum { NETWORKS_MAX = 32 };

static const struct qkv_network_interface *registered[NETWORKS_MAX];
static int registered_count;

static const struct qkv_network_interface *const SHIPPED[] = {
    [QKV_NETWORK_TRANSFORMER] = &qkv_network_transformer,
    [QKV_NETWORK_RECURRENT] = &qkv_network_recurrent,
    [QKV_NETWORK_DECODER_ONLY] = &qkv_network_decoder_only,
};
enum { SHIPPED_COUNT = sizeof SHIPPED / sizeof SHIPPED[0] };

static const char NAME_CHARACTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static bool is_name(const char *name, const char *more)
{
    if (!name || !*name) return false;
    for (const char *c = name; *c; c++)
        if (!strchr(NAME_CHARACTERS, *c) && !strchr(more, *c)) return false;
    return true;
}

static bool is_shipped(const char *name)
{
    for (int i = 0; i < SHIPPED_COUNT; i++)
        if (!strcmp(SHIPPED[i]->name, name)) return true;
    return false;
}

static const struct qkv_network_interface *find_registered(const char *name)
{
    for (int i = 0; i < registered_count; i++)
        if (!strcmp(registered[i]->name, name)) return registered[i];
    return NULL;
}

static const char *registered_name(const void *context, int64_t index)
{
    (void)context;
    return index < registered_count ? registered[index]->name : NULL;
}

/* ---- settings ---- */

static bool is_allowed(const struct qkv_network_setting *setting, double value)
{
    return value >= setting->min && value <= setting->max && (!setting->is_integer || value == floor(value));
}

static int find_setting(const struct qkv_network_interface *network, const char *name, size_t length)
{
    for (int i = 0; i < network->setting_count; i++)
        if (strlen(network->settings[i].name) == length && !strncmp(network->settings[i].name, name, length))
            return i;
    return -1;
}

static enum qkv_status check_settings(const struct qkv_network_interface *network, struct qkv_error *error)
{
    if (network->setting_count < 0 || (network->setting_count && !network->settings))
        return qkv_error_set(error, "network %s: setting_count is %d, but must be the number of its settings",
                             network->name, network->setting_count);
    for (int i = 0; i < network->setting_count; i++) {
        const struct qkv_network_setting *setting = &network->settings[i];
        if (!is_name(setting->name, ""))
            return qkv_error_set(error,
                                 "network %s: the name of setting %d must be made of letters, digits and '_'",
                                 network->name, i + 1);
        if (find_setting(network, setting->name, strlen(setting->name)) != i)
            return qkv_error_set(error, "network %s: two settings are called %s", network->name,
                                 setting->name);
        if (!is_allowed(setting, setting->default_value))
            return qkv_error_set(error, "network %s: the default of setting %s, %g, must be %s from %g to %g",
                                 network->name, setting->name, setting->default_value,
                                 setting->is_integer ? "an integer" : "a number", setting->min, setting->max);
    }
    return QKV_OK;
}

/* Refuses `text`, which names no setting. */
static enum qkv_status unknown_setting(const struct qkv_network_interface *network, const char *text,
                                       struct qkv_error *error)
{
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; i < network->setting_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 network->settings[i].name);
    return qkv_error_set(error,
                         "model.settings: '%s' is not a setting of the network %s%s%s; write name=number",
                         text, network->name, *names ? ", which has " : ", which has none", names);
}

/* Reads one `name=number`. */
static enum qkv_status read_setting(const struct qkv_network_interface *network, const char *text,
                                    double *values, struct qkv_error *error)
{
    size_t length = strcspn(text, "=");
    int index = find_setting(network, text, length);
    if (index < 0) return unknown_setting(network, text, error);
    if (!text[length])
        return qkv_error_set(error, "model.settings: %s has no value; write %s=number", text, text);
    const struct qkv_network_setting *setting = &network->settings[index];
    const char *number = text + length + 1;
    double value = 0;
    if (!qkv_number_kind(number) || !qkv_number_read(number, &value) || !is_allowed(setting, value))
        return qkv_error_set(error, "model.settings: %s must be %s from %g to %g, not '%s'", setting->name,
                             setting->is_integer ? "an integer" : "a number", setting->min, setting->max,
                             number);
    values[index] = value;
    return QKV_OK;
}

/* Reads the settings of a config into `values`, one for each setting of the network. Texts live in `arena`. */
static enum qkv_status read_settings(const struct qkv_network_interface *network, const char *settings,
                                     struct qkv_arena *arena, double **values, struct qkv_error *error)
{
    size_t count = (size_t)network->setting_count;
    *values = qkv_arena_allocate(arena, (count + 1) * sizeof **values);
    char *text = qkv_arena_string(arena, settings);
    if (!*values || !text) return qkv_no_memory(error);
    for (size_t i = 0; i < count; i++) (*values)[i] = network->settings[i].default_value;
    while (*(text += strspn(text, " ,"))) {
        char *end = text + strcspn(text, " ,");
        bool is_last = !*end;
        *end = '\0';
        if (read_setting(network, text, *values, error)) return QKV_INVALID;
        text = end + !is_last;
    }
    return QKV_OK;
}

enum qkv_status qkv_network_read_settings(struct qkv_model *model, struct qkv_error *error)
{
    const struct qkv_network_interface *network = model->interface;
    struct qkv_arena *arena = &model->parameters.arena;
    char *kept = qkv_arena_string(arena, model->config.settings); /* the caller may free its string */
    double *values;
    if (!kept) return qkv_no_memory(error);
    if (read_settings(network, kept, arena, &values, error)) return QKV_INVALID;
    model->settings = values;
    model->config.settings = kept;
    model->config.network = *model->config.network ? network->name : "";
    return QKV_OK;
}

double qkv_model_setting(const struct qkv_model *model, const char *name)
{
    int index = find_setting(model->interface, name, strlen(name));
    return index < 0 ? (double)NAN : model->settings[index];
}

/* ---- networks ---- */

const struct qkv_network_interface *qkv_network_of(const struct qkv_model_config *config,
                                                   struct qkv_error *error)
{
    if (!config->network || !*config->network) {
        if ((unsigned)config->encoder.type < SHIPPED_COUNT) return SHIPPED[config->encoder.type];
        qkv_error_set(error, "model.encoder.type: there is no network of type %d", (int)config->encoder.type);
        return NULL;
    }
    const struct qkv_network_interface *found = find_registered(config->network);
    char near[256];
    if (!found && is_shipped(config->network))
        qkv_error_set(error,
                      "model.network is for networks that a program registers; %s is a "
                      "model.encoder.type",
                      config->network);
    else if (!found && *qkv_suggest_names(near, sizeof near, config->network, "", registered_name, NULL))
        qkv_error_set(error, "model.network: this program has no network called '%s'; did you mean %s",
                      config->network, near);
    else if (!found)
        qkv_error_set(error,
                      "model.network: this program has no network called '%s'; the program that has it calls "
                      "qkv_network_register (qkv/model.h)",
                      config->network);
    return found;
}

enum qkv_status qkv_network_check(const struct qkv_model_config *config, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    double *values;
    const struct qkv_network_interface *network = qkv_network_of(config, error);
    enum qkv_status status =
        network ? read_settings(network, config->settings ? config->settings : "", &arena, &values, error)
                : QKV_INVALID;
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status qkv_network_register(const struct qkv_network_interface *network, struct qkv_error *error)
{
    if (!is_name(network->name, "-"))
        return qkv_error_set(error,
                             "the name of a network must be made of letters, digits, '_' and '-', not '%s'",
                             network->name ? network->name : "");
    if (is_shipped(network->name) || find_registered(network->name))
        return qkv_error_set(error, "there is a network called %s already", network->name);
    if (!network->declare || !network->forward)
        return qkv_error_set(error, "network %s: a network needs the functions declare and forward",
                             network->name);
    const struct qkv_decoding_interface *decoding = network->decoding;
    if (decoding && (decoding->size < sizeof(struct qkv_decoding) || !decoding->start || !decoding->step ||
                     !decoding->reorder))
        return qkv_error_set(error,
                             "network %s: decoding needs start, step and reorder, and a struct that begins "
                             "with struct qkv_decoding",
                             network->name);
    if (check_settings(network, error)) return QKV_INVALID;
    if (registered_count == NETWORKS_MAX)
        return qkv_error_set(error, "network %s: there are %d networks already", network->name, NETWORKS_MAX);
    registered[registered_count++] = network;
    return QKV_OK;
}
