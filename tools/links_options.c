#include "links_options.h"

#include "print.h"

#include <string.h>

const char *links_from_name(const void *context, int64_t index)
{
    (void)context;
    return index == 0 ? "0" : index == 1 ? "1" : NULL;
}

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
    if (!options->from) return QKV_LINKS_FROM_DETECTED;
    return *options->from == '0' ? QKV_LINKS_FROM_0 : QKV_LINKS_FROM_1;
}
