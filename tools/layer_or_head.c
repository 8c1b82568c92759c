#include "layer_or_head.h"

#include "print.h"

#include "qkv/attention_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *kind_name(const void *context, int64_t index)
{
    (void)context;
    return index < QKV_ATTENTION_KINDS ? qkv_attention_kind_name((enum qkv_attention_kind)index) : NULL;
}

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
