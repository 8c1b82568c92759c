#include "browser_steps.h"

#include "json.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>

enum { MAX_NUMBERS = 20000 };

/* Appends the numbers of nested lists; a masked score is null. */
static int flatten(const cJSON *list, double *numbers, int count)
{
    if (cJSON_IsArray(list)) {
        const cJSON *child;
        cJSON_ArrayForEach(child, list) count = flatten(child, numbers, count);
        return count;
    }
    numbers[count] = cJSON_IsNumber(list) ? list->valuedouble : -HUGE_VAL;
    return count + 1;
}

void expect_steps(const char *text, const char *label, double tolerance)
{
    static double native[MAX_NUMBERS], shown[MAX_NUMBERS];
    cJSON *json = json_parsed(text),
          *steps = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "walks"), 0), "steps"),
          *step;
    cr_expect_str_eq(value_of("state.walk.length"), format("%d", cJSON_GetArraySize(steps)), "%s", label);
    int i = 0;
    cJSON_ArrayForEach(step, steps)
    {
        const char *name = cJSON_GetObjectItem(step, "name")->valuestring;
        cr_assert_str_eq(value_of("state.walk[%d].name", i), name);
        int count = flatten(cJSON_GetObjectItem(step, "values"), native, 0);
        cJSON *values = json_parsed(value_of("JSON.stringify([...state.walk[%d].values])", i++));
        cr_assert_eq(flatten(values, shown, 0), count, "%s: %s", label, name);
        for (int k = 0; k < count; k++) {
            double max = tolerance * fmax(1, fabs(native[k]));
            cr_assert(isinf(native[k]) ? isinf(shown[k]) : fabs(native[k] - shown[k]) < max,
                      "%s: %s, number %d: %.9g in the page, %.9g", label, name, k, shown[k], native[k]);
        }
        cJSON_Delete(values);
    }
    cJSON_Delete(json);
}
