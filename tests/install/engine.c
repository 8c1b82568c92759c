/* The engine is a library of its own: it is built, installed and linked where no other library than BLAS can be found, and
 * where the header of any other library is an error. */
#include "support.h"

/* Headers of the libraries that only the translator needs. */
static const char *const OTHERS[] = {"yaml.h",  "cjson/cJSON.h",      "utf8proc.h", "zlib.h",
                                     "cairo.h", "pango/pangocairo.h", "mpi.h"};

/* A folder with these headers, each of which is an error, and with the pkg-config file of OpenBLAS alone. */
static const char *bare_system(void)
{
    const char *folder = scratch("bare");
    run_ok("mkdir -p '%s/include/cjson' '%s/include/pango' '%s/pc'", folder, folder, folder);
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        write_text(folder, format("include/%s", OTHERS[i]), "#error \"the engine includes this header\"\n");
    run_ok("cp \"$(pkg-config --variable=pcfiledir openblas)\"/openblas.pc '%s/pc/'", folder);
    return folder;
}

Test(engine, stands_alone)
{
    if (*QKV_EMULATOR || *QKV_INSTRUMENTATION) cr_skip_test("tested in the release build");
    const char *bare = bare_system();
    run_ok("PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR='%s/pc' '%s' -S '%s' -B '%s/build' -DQKV_TRANSLATOR=OFF "
           "-DQKV_PORTABLE=ON "
           "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER='%s' -DCMAKE_C_FLAGS='-O0 -g0 -I%s/include' "
           "-DCMAKE_INSTALL_PREFIX='%s/prefix' && '%s' --build '%s/build' && '%s' --install '%s/build'",
           bare, QKV_CMAKE, QKV_SOURCE_DIR, bare, QKV_COMPILER, bare, bare, QKV_CMAKE, bare, QKV_CMAKE, bare);
    run_ok("! ls '%s/prefix/include/qkv' | grep -q -x -e config.h -e qkv.h", bare);
    for (int i = 0; i < 2; i++) {
        const char *example = i ? "attention_gradcheck" : "xor";
        const char *output = run_ok(
            "PKG_CONFIG_LIBDIR=\"%s/pc:$(dirname \"$(find '%s/prefix' -name qkv-engine.pc)\")\" && export "
            "PKG_CONFIG_LIBDIR && '%s' -std=c11 -Wall -Wextra -Werror -I'%s/include' -o '%s/%s' "
            "'%s/examples/%s.c' $(pkg-config --cflags --libs qkv-engine) && LD_LIBRARY_PATH=$(pkg-config "
            "--variable=libdir qkv-engine) && export LD_LIBRARY_PATH && '%s/%s' && ldd '%s/%s'",
            bare, bare, QKV_COMPILER, bare, bare, example, QKV_SOURCE_DIR, example, bare, example, bare,
            example);
        cr_expect(shows(output, "gradients agree\n") && shows(output, "libqkv-engine.so.1"));
        for (const char *const *library =
                 (const char *const[]){"libyaml", "libcjson", "libutf8proc", "libz.", NULL};
             *library; library++)
            cr_expect(lacks(output, *library));
    }
}
