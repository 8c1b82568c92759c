#include "links_options.h"

#include "qkv/alignment.h"

const char *links_from_name(const void *context, int64_t index)
{
    (void)context;
    return index == 0 ? "0" : index == 1 ? "1" : NULL;
}

int links_from(const struct links_options *options)
{
    return options->from ? *options->from - '0' : QKV_LINKS_DETECT;
}
