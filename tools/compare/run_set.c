#ifndef _DEFAULT_SOURCE
#    define _DEFAULT_SOURCE /* realpath */
#endif
#include "compare/run_set.h"
#include "config.h"
#include "run/checkpoints.h"

enum qkv_status recorded_run_read(struct recorded_run *run, const char *path, struct qkv_arena *arena,
                                  struct qkv_error *error)
{
    *run = (struct recorded_run){.path = path};
    if (qkv_run_read_config(path, &run->config, arena, error)) return QKV_INVALID;
    if (!qkv_training_log_read(&run->log, path, error)) return QKV_OK;
    qkv_training_log_release(&run->log);
    return QKV_INVALID;
}

struct recorded_run *run_set_add(struct run_set *set, const char *path, struct qkv_error *error)
{
    struct recorded_run *run = &set->run[set->runs];
    if (set->runs == RUN_SET_MAX) {
        qkv_error_set(error, "%s: too many runs; at most %d can be shown together", path, RUN_SET_MAX);
        return NULL;
    }
    for (int i = 0; i < set->runs; i++)
        if (!strcmp(set->run[i].path, path)) {
            qkv_error_set(error, "%s: is named twice; name each run once", path);
            return NULL;
        }
    if (recorded_run_read(run, path, &set->arena, error)) return NULL;
    set->runs++;
    return run;
}

void run_set_release(struct run_set *set)
{
    for (int i = 0; i < set->runs; i++) qkv_training_log_release(&set->run[i].log);
    qkv_arena_release(&set->arena);
    *set = (struct run_set){0};
}

/* ---- differences ---- */

/* Whether runs that are trained alike with different seeds may have different values of a key. */
static bool is_of_run(const struct qkv_key *key)
{
    return !strcmp(key->path, "name") || !strcmp(key->path, "training.model_dir") ||
           !strcmp(key->path, "training.random_seed");
}

static bool has_effect_in(const struct qkv_key *key, const struct qkv_config *config)
{
    return !qkv_key_unmet(&qkv_config_schema, key, config, QKV_WITHOUT_EFFECT_REFUSED).key;
}

/* Two different paths may name the same file, because they are relative to the folders of their runs. */
static bool same_value(const struct qkv_key *key, const struct qkv_config *a, const struct qkv_config *b)
{
    bool has_effect = has_effect_in(key, a);
    if (has_effect != has_effect_in(key, b)) return false;
    if (!has_effect || qkv_value_equal(key, a, b)) return true;
    return key->is_path && qkv_is_same_file(qkv_key_text(key, a), qkv_key_text(key, b));
}

static bool same_but_for_the_seed(const struct qkv_config *a, const struct qkv_config *b)
{
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (!is_of_run(key) && !same_value(key, a, b)) return false;
    }
    return true;
}

bool configs_train_alike(const struct qkv_config *trained, const struct qkv_config *wanted)
{
    struct qkv_config fitted = *wanted; /* to the text, as training does */
    for (int i = 0; i < 2; i++)
        fitted.testing.length_limit[i] =
            fmax(wanted->testing.length_limit[i], trained->testing.length_limit[i]);
    if (wanted->testing.bleu_tokenizer == QKV_BLEU_AUTO)
        fitted.testing.bleu_tokenizer = trained->testing.bleu_tokenizer;
    return trained->training.random_seed == wanted->training.random_seed &&
           same_but_for_the_seed(trained, &fitted);
}

static const struct qkv_config *config_of(const struct run_set *set, int group)
{
    return &set->run[set->group[group].run[0]].config;
}

/* Whether a key is worth showing: its values differ between groups, and do not just follow from other keys. */
static bool is_difference(struct run_set *set, const struct qkv_key *key)
{
    bool same = true, follows = true, is_seed = !strcmp(key->path, "training.random_seed");
    if (is_of_run(key) && !is_seed) return false;
    for (int g = 0; g < set->groups; g++) {
        same = same && same_value(key, config_of(set, 0), config_of(set, g));
        follows = follows && qkv_key_is_derivable(key, config_of(set, g), &set->arena);
        if (is_seed && set->group[g].runs > 1) return false;
    }
    return !same && !follows;
}

void run_set_differences(struct run_set *set,
                         void (*each)(void *context, const char *key, const char *const *values),
                         void *context)
{
    const char *values[RUN_SET_MAX];
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (!is_difference(set, key)) continue;
        for (int g = 0; g < set->groups; g++) {
            const struct qkv_config *config = config_of(set, g);
            values[g] =
                has_effect_in(key, config) ? required((char *)qkv_value_text(key, config, &set->arena)) : "–";
        }
        each(context, key->path, values);
    }
}

/* ---- names ---- */

const char *end_of_name(struct qkv_arena *arena, const char *name, char separator, int parts)
{
    size_t length = strlen(name);
    while (length > 1 && name[length - 1] == separator) length--;
    size_t begin = length;
    for (; parts > 0 && begin > 0; parts--) {
        while (begin > 0 && name[begin - 1] == separator) begin--;
        while (begin > 0 && name[begin - 1] != separator) begin--;
    }
    return TEXT_IN(arena, "%.*s", (int)(length - begin), name + begin);
}

enum { MAX_PARTS = 8 }; /* of a path that make a name */

/* The length of a name without the seed at its end: the length of "small" for "small,seed=1", "small-seed2" and
 * "small,seed=". 0 for "seed=1", as the runs of one config are called. */
static size_t length_without_seed(const char *name, size_t length)
{
    static const char separators[] = "-_., =/";
    size_t end = length;
    while (end && strchr("0123456789", name[end - 1])) end--;
    while (end && strchr(separators, name[end - 1])) end--;
    if (end < 4 || strncmp(name + end - 4, "seed", 4) != 0) return length;
    end -= 4;
    while (end && strchr(separators, name[end - 1])) end--;
    return end;
}

/* The name of a group of several seeds: "small (mean of 2 seeds)" for "small,seed=1" and "small,seed=2". Takes further parts of
 * the paths where the last ones have nothing else in common. */
static const char *common_name(struct run_set *set, const struct run_group *group, int parts)
{
    const char *first = end_of_name(&set->arena, set->run[group->run[0]].path, '/', parts);
    if (group->runs == 1) return first;
    size_t length = strlen(first);
    for (int i = 1; i < group->runs; i++) {
        const char *other = end_of_name(&set->arena, set->run[group->run[i]].path, '/', parts);
        size_t same = 0;
        while (same < length && first[same] == other[same]) same++;
        length = same;
    }
    length = length_without_seed(first, length);
    while (length && strchr("-_., =/", first[length - 1])) length--;
    if (!length && parts < MAX_PARTS) return common_name(set, group, parts + 1);
    const char *name = set->run[group->run[0]].config.name;
    return TEXT_IN(&set->arena, "%.*s (mean of %d seeds)", (int)(length ? length : strlen(name)),
                   length ? first : name, group->runs);
}

static bool names_differ(const struct run_set *set)
{
    for (int i = 0; i < set->groups; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(set->group[i].name, set->group[j].name)) return false;
    return true;
}

/* Drops the seed from the names of single runs, if the names still differ. */
static void drop_seeds(struct run_set *set)
{
    const char *names[RUN_SET_MAX];
    for (int g = 0; g < set->groups; g++) {
        const char *name = names[g] = set->group[g].name;
        if (set->group[g].runs > 1) continue;
        size_t length = length_without_seed(name, strlen(name));
        if (length) set->group[g].name = TEXT_IN(&set->arena, "%.*s", (int)length, name);
    }
    if (names_differ(set) && set->groups > 1) return;
    for (int g = 0; g < set->groups; g++) set->group[g].name = names[g];
}

void run_set_group(struct run_set *set)
{
    for (int i = 0; i < set->runs; i++) {
        int g = 0;
        for (; g < set->groups; g++) {
            bool fits = true;
            for (int j = 0; j < set->group[g].runs && fits; j++) {
                const struct qkv_config *one = &set->run[set->group[g].run[j]].config,
                                        *other = &set->run[i].config;
                fits = one->training.random_seed != other->training.random_seed &&
                       same_but_for_the_seed(one, other);
            }
            if (fits) break;
        }
        if (g == set->groups) set->groups++;
        set->run[i].group = g;
        set->group[g].run[set->group[g].runs++] = i;
    }
    for (int parts = 1; parts <= MAX_PARTS; parts++) {
        for (int g = 0; g < set->groups; g++) set->group[g].name = common_name(set, &set->group[g], parts);
        if (names_differ(set)) break;
    }
    drop_seeds(set);
}
