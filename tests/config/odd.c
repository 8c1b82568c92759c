/* Configs that a program made, without reading them. */
#include "qkv/config.h"

#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const char *written(const struct qkv_config *config)
{
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    cr_assert_eq(qkv_config_write(config, file, true), QKV_OK);
    fclose(file);
    return remember(text);
}

Test(odd_config, is_written)
{
    struct qkv_config config = {0};
    cr_expect(strstr(written(&config), "name: \"\"\n"));
    config.training.learning_rate = (double)NAN;
    config.training.weight_decay = (double)INFINITY;
    config.model.encoder.type = (enum qkv_network)77;
    config.data.train = "a\xFF";
    const char *text = written(&config);
    cr_expect(strstr(text, "learning_rate: .nan\n") && strstr(text, "weight_decay: .inf\n"), "%s", text);
    cr_expect(strstr(text, "type: unknown\n") && strstr(text, "train: \"a?\"\n"), "%s", text);
}
