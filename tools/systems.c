#include "systems.h"

#include "score_options.h"
#include "terminal.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* Writes the signature of a metric with the number of samples and the seed, in the same places as sacreBLEU:
 * nrefs:1|bs:1000|seed:12345|case:mixed|... */
static void sign(const struct systems *systems, int m, char *text, size_t size)
{
    char signature[SIGNATURE_SIZE];
    qkv_scorer_signature(qkv_bootstrap_scorer(systems->bootstrap, 0), (enum qkv_metric)m, signature,
                         sizeof signature);
    size_t first = strcspn(signature, "|");
    snprintf(text, size, "%.*s|bs:%lld|seed:%lld%s", (int)first, signature, (long long)systems->samples,
             (long long)systems->seed, signature + first);
}

static bool is_computed(const struct systems *systems, int m)
{
    return qkv_scorer_computes(qkv_bootstrap_scorer(systems->bootstrap, 0), (enum qkv_metric)m);
}

/* Prints the row of a system; `first` is the result that it is compared with. */
static void print_row(const char *name, const struct qkv_bootstrap_result *result,
                      const struct qkv_bootstrap_result *first)
{
    bool differs = result->score < first->score || result->score > first->score;
    printf("%8.2f %9.2f +- %-6.2f ", result->score, result->mean, result->interval);
    if (differs)
        printf("%6.4f  ", result->p_value);
    else
        printf("%6s  ", result == first ? "" : "same");
    print_plain(stdout, name);
    putchar('\n');
}

void systems_print(const struct systems *systems)
{
    bool started = false;
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        char signature[SIGNATURE_SIZE], title[METRIC_NAME_SIZE];
        if (!is_computed(systems, m)) continue;
        sign(systems, m, signature, sizeof signature);
        qkv_scorer_title(qkv_bootstrap_scorer(systems->bootstrap, 0), (enum qkv_metric)m, title,
                         sizeof title);
        printf("%s%s  (%s)\n%8s %9s +- 95 %%   %6s  system\n", started ? "\n" : "", title, signature, "score",
               "mean", "p");
        struct qkv_bootstrap_result first = qkv_bootstrap_result(systems->bootstrap, 0, (enum qkv_metric)m);
        print_row(systems->name[0], &first, &first);
        for (int s = 1; s < systems->count; s++) {
            struct qkv_bootstrap_result result =
                qkv_bootstrap_result(systems->bootstrap, s, (enum qkv_metric)m);
            print_row(systems->name[s], &result, &first);
        }
        started = true;
    }
}

struct cJSON *systems_json(const struct systems *systems)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "samples", (double)systems->samples);
    cJSON_AddNumberToObject(object, "seed", (double)systems->seed);
    cJSON *list = cJSON_AddArrayToObject(object, "systems");
    for (int s = 0; s < systems->count; s++) {
        cJSON *system = cJSON_CreateObject();
        cJSON_AddStringToObject(system, "system", systems->name[s]);
        scorer_json(qkv_bootstrap_scorer(systems->bootstrap, s), system);
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            char key[METRIC_NAME_SIZE + sizeof "_bootstrap"];
            if (!is_computed(systems, m)) continue;
            struct qkv_bootstrap_result result =
                qkv_bootstrap_result(systems->bootstrap, s, (enum qkv_metric)m);
            snprintf(key, sizeof key, "%s_bootstrap", qkv_metric_info((enum qkv_metric)m)->key);
            cJSON *bootstrap = cJSON_AddObjectToObject(system, key);
            cJSON_AddNumberToObject(bootstrap, "mean", result.mean);
            cJSON_AddNumberToObject(bootstrap, "interval", result.interval);
            if (s) cJSON_AddNumberToObject(bootstrap, "p_value", result.p_value);
        }
        cJSON_AddItemToArray(list, system);
    }
    return object;
}
