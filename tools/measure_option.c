#include "measure_option.h"

#include <string.h>

const char *measure_name(const void *context, int64_t index)
{
    (void)context;
    return index == 0 ? "weights" : index == 1 ? "norms" : NULL;
}

bool measures_norms(const char *text)
{
    return text && !strcmp(text, "norms");
}
