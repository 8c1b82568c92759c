#include "attention_options.h"
#include "core/text.h"

#include "print.h"

#include "qkv/attention_map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int choice_index(const char *given, qkv_name_lister *names, int otherwise)
{
    for (int i = 0; given && names(NULL, i); i++)
        if (!strcmp(names(NULL, i), given)) return i;
    return otherwise;
}

NAME_LISTER(kind_name,
            index < QKV_ATTENTION_KINDS ? qkv_attention_kind_name((enum qkv_attention_kind)index) : NULL);

int read_layer_or_head(const char *option, const char *text, unsigned accepted, int *index)
{
    /* words[accepted], where `accepted` is a set of bits. */
    static const char *const words[] = {"",        " or mean",      " or best",      ", mean or best",
                                        " or all", ", all or mean", ", all or best", ", all, mean or best"};
    char *end;
    if (!text) return QKV_OK;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (accepted & ACCEPT_ALL && !strcmp(text, "all"))
        *index = QKV_ATTENTION_EACH;
    else if (accepted & ACCEPT_MEAN && !strcmp(text, "mean"))
        *index = QKV_ATTENTION_MEAN;
    else if (accepted & ACCEPT_BEST && !strcmp(text, "best"))
        *index = QKV_ATTENTION_BEST;
    else if (end > text && !*end && !errno && number >= 1 && number <= 1000000)
        *index = (int)number;
    else
        return print_error("%s is '%s', but must be a number from 1%s", option, text, words[accepted]);
    return QKV_OK;
}

NAME_LISTER(attention_measure_name, index == 0 ? "weights" : index == 1 ? "norms" : NULL);

bool measures_norms(const char *text)
{
    return choice_index(text, attention_measure_name, 0);
}

enum qkv_status silence_heads(struct qkv_model *model, const struct option_list *without,
                              struct qkv_error *error)
{
    for (int i = 0; i < without->count; i++)
        for (const char *names = without->value[i]; names;
             names = strchr(names, ',') ? strchr(names, ',') + 1 : NULL) {
            char name[128];
            struct qkv_error inner;
            struct qkv_head head;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(names, ","), names);
            if (qkv_head_find(model, name, &head, &inner))
                return qkv_error_set(error, "--without: %s", inner.message);
            qkv_model_ablate(model, head, true);
        }
    return QKV_OK;
}

const char *list_silent_heads(const struct qkv_model *model, char *text, size_t size)
{
    size_t used = 0;
    char name[64];
    *text = '\0';
    for (int64_t i = 0; i < qkv_model_head_count(model) && used < size; i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        if (!qkv_model_is_ablated(model, head)) continue;
        qkv_head_name(head, name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    return text;
}

NAME_LISTER(links_from_name, index == 0 ? "0" : index == 1 ? "1" : NULL);

int links_options_check(const struct links_options *options, const char *pairs)
{
    if (options->from && !options->path) return print_error("--links-from needs --links");
    if (options->path && pairs && !strcmp(options->path, "-") && !strcmp(pairs, "-"))
        return print_error("standard input can hold the pairs or the links, not both");
    return QKV_OK;
}

void links_options_note(const struct links_options *options, int64_t missing, int64_t pairs)
{
    if (missing)
        print_error("note: %s has no links of %lld of the %lld pairs: every link that is drawn there counts "
                    "as wrong; score only pairs that it has links of",
                    options->path, (long long)missing, (long long)pairs);
}

enum qkv_links_from links_from(const struct links_options *options)
{
    static const enum qkv_links_from values[] = {QKV_LINKS_FROM_0, QKV_LINKS_FROM_1, QKV_LINKS_FROM_DETECTED};
    return values[choice_index(options->from, links_from_name, 2)];
}
