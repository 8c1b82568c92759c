/* qkv score: BLEU and chrF of translations by any program, as sacreBLEU computes them. */
#include "commands.h"
#include "complain.h"
#include "json.h"
#include "score_options.h"

#include "qkv/metrics.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REFERENCES = 64 };

/* A file that is read line by line. */
struct lines {
    const char *path;
    FILE *file;
    char *line; /* without its end */
    size_t capacity;
    int64_t number;
};

static enum qkv_status open_lines(struct lines *lines, const char *path, struct qkv_error *error)
{
    bool standard = !strcmp(path, "-");
    *lines = (struct lines){.path = standard ? "<stdin>" : path, .file = standard ? stdin : fopen(path, "r")};
    return lines->file ? QKV_OK : qkv_error_set(error, "%s: %s", path, strerror(errno));
}

/* Reads the next line; sets *found to false at the end of the file. */
static enum qkv_status next_line(struct lines *lines, bool *found, struct qkv_error *error)
{
    errno = 0;
    ssize_t length = getline(&lines->line, &lines->capacity, lines->file);
    *found = length >= 0;
    if (!*found && (ferror(lines->file) || errno == ENOMEM))
        return qkv_error_set(error, "%s: cannot be read: %s", lines->path, strerror(errno));
    if (!*found) return QKV_OK;
    lines->number++;
    size_t text = strlen(lines->line);
    if (text < (size_t)length)
        return qkv_error_set(error, "%s:%lld:%zu: a NUL byte is not allowed in text", lines->path,
                             (long long)lines->number, text + 1);
    while (length > 0 && (lines->line[length - 1] == '\n' || lines->line[length - 1] == '\r'))
        lines->line[--length] = '\0';
    return QKV_OK;
}

static void close_lines(struct lines *lines)
{
    free(lines->line);
    if (lines->file && lines->file != stdin) fclose(lines->file);
}

/* Splits a line at its tabs, in place; returns the number of references. */
static int64_t split(char *line, const char **references)
{
    int64_t count = 0;
    for (char *next = line; next && count < MOST_REFERENCES; count++) {
        references[count] = next;
        next = strchr(next, '\t');
        if (next) *next++ = '\0';
    }
    return count;
}

static enum qkv_status add_all(struct lines *outputs, struct lines *references, struct qkv_scorer *scorer,
                               struct qkv_error *error)
{
    const char *list[MOST_REFERENCES];
    for (;;) {
        bool output, reference;
        if (next_line(outputs, &output, error) || next_line(references, &reference, error))
            return QKV_INVALID;
        if (output != reference)
            return qkv_error_set(error, "%s: has more lines than %s, which ends after line %lld",
                                 output ? outputs->path : references->path,
                                 output ? references->path : outputs->path,
                                 (long long)(output ? references : outputs)->number);
        if (!output) break;
        if (qkv_scorer_add(scorer, outputs->line, list, split(references->line, list), error))
            return QKV_INVALID;
    }
    return outputs->number ? QKV_OK : qkv_error_set(error, "%s: the file is empty", outputs->path);
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
    struct lines outputs = {0}, references = {0};
    struct qkv_error error = {""};
    enum qkv_status status = open_lines(&outputs, operand[0], &error);
    if (!status) status = open_lines(&references, operand[1], &error);
    if (!status) status = add_all(&outputs, &references, &scorer, &error);
    if (!status && json) {
        cJSON *object = cJSON_CreateObject();
        scorer_json(&scorer, object);
        status = json_print(object, &error);
    } else if (!status) {
        scorer_print(&scorer);
    }
    close_lines(&outputs);
    close_lines(&references);
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
            {"TRANSLATIONS", VALUE_FILE, "one translation a line; -: standard input"},
            {"REFERENCES", VALUE_FILE,
             "the same lines, each with one reference or several separated by tabs; -: standard input"},
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
