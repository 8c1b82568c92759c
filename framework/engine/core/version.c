#include "qkv/version.h"

const char *qkv_version(void)
{
    return QKV_VERSION;
}
