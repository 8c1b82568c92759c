/* What the build promises: machines for which qkv cannot work are refused, and a release is hardened. */
#include "support.h"

/* CMake takes these facts from the compiler; here they are given, because few systems have such a compiler. */
Test(build, refuses_machines_that_cannot_work)
{
    static const char *const cases[][2] = {
        {"-DCMAKE_SIZEOF_VOID_P=4 -DCMAKE_C_BYTE_ORDER=LITTLE_ENDIAN", "qkv needs a 64-bit system"},
        {"-DCMAKE_SIZEOF_VOID_P=8 -DCMAKE_C_BYTE_ORDER=BIG_ENDIAN", "qkv needs a little-endian processor"},
    };
    const char *folder = scratch("machines");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = run("'%s' -S '%s' -B '%s/%zu' -DCMAKE_C_COMPILER='%s' "
                                     "-DCMAKE_C_COMPILER_WORKS=ON -DCMAKE_C_ABI_COMPILED=ON %s",
                                     QKV_CMAKE, QKV_SOURCE_DIR, folder, i, QKV_COMPILER, cases[i][0]);
        cr_expect_neq(outcome.exit_code, 0, "%s", cases[i][0]);
        cr_expect(shows(outcome.error, cases[i][1]));
    }
}

/* Relocations are read-only once the program runs, its address is random, and overflows of buffers end it. */
Test(build, hardens_a_release)
{
    if (!QKV_IS_HARDENED) cr_skip_test("this build is not a hardened release");
    const char *headers = run_ok("readelf -W -h -l -d '%s'", QKV_BINARY),
               *symbols = run_ok("readelf -W --dyn-syms '%s'", QKV_BINARY);
    cr_expect(shows(headers, "GNU_RELRO") && shows(headers, "BIND_NOW"));
    cr_expect(shows(headers, "DYN (Position-Independent Executable file)"));
    cr_expect(shows(symbols, "__stack_chk_fail"));
    cr_expect(shows(symbols, "_chk@"), "no function is checked by _FORTIFY_SOURCE");
}
