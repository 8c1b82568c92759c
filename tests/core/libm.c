/* The program calls no function of the C library whose last bit depends on the processor: core/numbers.h has others.
 * What the C standard or IEEE 754 defines to the last bit, as sqrt, floor or fmax, may be called. */
#include "support.h"

static const char INEXACT[] = "a?(sin|cos|tan)h?|sincos|atan2|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|"
                              "pow10|cbrt|hypot|erfc?|[lt]?gamma";

/* The objects of the library, of its kernels and of the command. */
static const char OBJECTS[] = "framework/CMakeFiles tools/CMakeFiles -name '*.o'";

Test(libm, objects_name_no_function_that_is_not_exact)
{
    const char *folder = scratch("names");
    char *count = run_ok("cd '%s' && find %s | wc -l", QKV_BUILD_DIR, OBJECTS);
    cr_assert_gt(atoi(count), 150, "only %s objects", count);
    run_ok("cd '%s' && find %s -exec '%s' -A -u {} + >'%s/names'", QKV_BUILD_DIR, OBJECTS, QKV_NM, folder);
    run_ok("grep -q ' U qkv_scalar_exp$' '%s/names'", folder); /* names are listed as the next line expects */
    struct outcome inexact = run("grep -E ' U (%s)[fl]?$' '%s/names'", INEXACT, folder);
    cr_expect_eq(inexact.exit_code, 1, "call functions of core/numbers.h in place of\n%s", inexact.output);
}
