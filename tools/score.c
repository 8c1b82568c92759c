/* qkv score: BLEU and chrF of translations by any program, as sacreBLEU computes them. */
#include "commands.h"
#include "complain.h"
#include "json.h"
#include "score_options.h"

#include "qkv/lines.h"
#include "qkv/metrics.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* The references of a line: its parts between tabs. */
struct references {
    const char **list; /* [count] */
    int64_t count, capacity;
};

/* Splits a line at its tabs, in place. */
static enum qkv_status split(struct qkv_lines *lines, struct references *references, struct qkv_error *error)
{
    references->count = 0;
    for (char *next = lines->line; next;) {
        if (references->count == references->capacity) {
            int64_t capacity = 2 * references->capacity + 16;
            const char **list = realloc(references->list, (size_t)capacity * sizeof *list);
            if (!list) return qkv_error_set(error, "%s: out of memory", lines->path);
            references->list = list;
            references->capacity = capacity;
        }
        references->list[references->count++] = next;
        next = strchr(next, '\t');
        if (next) *next++ = '\0';
    }
    return QKV_OK;
}

static enum qkv_status add_all(struct qkv_lines *outputs, struct qkv_lines *references,
                               struct qkv_scorer *scorer, struct qkv_error *error)
{
    struct references line = {0};
    enum qkv_status status;
    for (;;) {
        bool output, reference;
        if ((status = qkv_lines_next(outputs, &output, error)) ||
            (status = qkv_lines_next(references, &reference, error)) || (!output && !reference))
            break;
        if (output != reference)
            status = qkv_error_set(error, "%s: has more lines than %s, which ends after line %lld",
                                   output ? outputs->path : references->path,
                                   output ? references->path : outputs->path,
                                   (long long)(output ? references : outputs)->number);
        if (!status) status = split(references, &line, error);
        if (!status) status = qkv_scorer_add(scorer, outputs->line, line.list, line.count, error);
        if (status) break;
    }
    free(line.list);
    return status ? status : qkv_lines_check_read(outputs, error);
}

static struct score_options score_options = SCORE_OPTIONS_DEFAULT;
static bool json;

static int run(int operands, char **operand)
{
    (void)operands;
    if (!strcmp(operand[0], "-") && !strcmp(operand[1], "-"))
        return complain("standard input can hold the translations or the references, not both");
    struct qkv_scorer scorer = {0};
    if (score_options_apply(&score_options, &scorer)) return QKV_INVALID;
    struct qkv_lines outputs = {0}, references = {0};
    struct qkv_error error = {""};
    enum qkv_status status = qkv_lines_open(&outputs, operand[0], &error);
    if (!status) status = qkv_lines_open(&references, operand[1], &error);
    if (!status) status = add_all(&outputs, &references, &scorer, &error);
    if (!status && json) {
        cJSON *object = cJSON_CreateObject();
        scorer_json(&scorer, object);
        status = json_print(object, &error);
    } else if (!status) {
        scorer_print(&scorer);
    }
    qkv_lines_close(&outputs);
    qkv_lines_close(&references);
    qkv_scorer_release(&scorer);
    return conclude(status, &error);
}

const struct command command_score = {
    .name = "score",
    .summary = "BLEU and chrF of any translations",
    .description = "Compares translations, from any program, with references: BLEU and chrF as sacreBLEU "
                   "computes them.\n",
    .examples = "  qkv translate runs/toy_en_es lines.en | qkv score - lines.es\n",
    .operands =
        (const struct command_operand[]){
            {"TRANSLATIONS", VALUE_FILE, "one translation a line, plain or gzip; -: standard input"},
            {"REFERENCES", VALUE_FILE,
             "the same lines, each with one reference or several separated by tabs, plain or gzip; -: "
             "standard input"},
            {0},
        },
    .options =
        (const struct command_option[]){
            COMMAND_OPTIONS_SCORE(&score_options),
            COMMAND_OPTION_JSON(&json),
            {0},
        },
    .run = run,
};
