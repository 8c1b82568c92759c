/* Replays the inputs in seeds/<target>/ through the fuzz targets: small ones to begin with, and all that ever failed. */
#include "support.h"

#include <dirent.h>

typedef int target(const uint8_t *data, size_t size);

/* CMake defines FUZZ_TARGETS as TARGET(arguments) TARGET(checkpoint) and so on, one for each file in targets/. */
#define TARGET(name) target fuzz_##name;
FUZZ_TARGETS
#undef TARGET

static void replay(const char *name, target *call)
{
    const char *folder = format("%s/tests/fuzz/seeds/%s", QKV_SOURCE_DIR, name);
    struct dirent **seeds;
    setenv("TMPDIR", scratch("seeds"), 1);
    int count = scandir(folder, &seeds, NULL, alphasort), replayed = 0;
    for (int i = 0; i < count; i++) {
        size_t size;
        char *bytes =
            *seeds[i]->d_name == '.' ? NULL : read_file(format("%s/%s", folder, seeds[i]->d_name), &size);
        if (bytes) {
            fprintf(stderr, "%s/%s\n", name,
                    seeds[i]->d_name); /* the last line when a target stops the program */
            cr_expect_eq(call((const uint8_t *)bytes, size), 0);
            replayed++;
        }
        free(seeds[i]);
    }
    if (count >= 0) free(seeds);
    cr_expect_gt(replayed, 0, "%s has no seeds", folder);
}

#define TARGET(name)                                                                                         \
    Test(regressions, name)                                                                                  \
    {                                                                                                        \
        replay(#name, fuzz_##name);                                                                          \
    }
FUZZ_TARGETS
