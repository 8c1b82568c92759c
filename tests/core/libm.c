/* The program calls no function of the C library whose last bit depends on the processor: qkv/scalar_math.h has others.
 * What the C standard or IEEE 754 defines to the last bit, as sqrt, floor or fmax, may be called. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const char INEXACT[] =
    "a?(sin|cos|tan)h?|sincos|atan2|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|pow10|"
    "cbrt|hypot|erfc?|[lt]?gamma";

/* The objects of the library and of the command. Kernels are missing, because those of float64 are for checking gradients
 * and may call what they like. */
static const char FOLDERS[] = "framework/CMakeFiles/qkv_objects.dir tools/CMakeFiles/qkv_commands.dir "
                              "tools/CMakeFiles/qkv.dir";

Test(libm, objects_name_no_function_that_is_not_exact)
{
    const char *folder = scratch("names");
    char *count = run_ok("cd '%s' && find %s -name '*.o' | wc -l", QKV_BUILD_DIR, FOLDERS);
    cr_assert_gt(atoi(count), 150, "only %s objects", count);
    run_ok("cd '%s' && find %s -name '*.o' -exec '%s' -A -u {} + >'%s/names'", QKV_BUILD_DIR, FOLDERS, QKV_NM,
           folder);
    run_ok("grep -q ' U qkv_scalar_exp$' '%s/names'", folder); /* names are listed as the next line expects */
    struct outcome inexact = run("grep -E ' U (%s)[fl]?$' '%s/names'", INEXACT, folder);
    cr_expect_eq(inexact.exit_code, 1, "call functions of qkv/scalar_math.h in place of\n%s", inexact.output);
}
