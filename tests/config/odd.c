/* Configs that a program made, without reading them. */
#include "qkv/config.h"

#include "config_text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(odd_config, is_written)
{
    struct qkv_config config = {0};
    cr_expect(strstr(config_text(&config, true), "name: \"\"\n"));
    config.training.learning_rate = (double)NAN;
    config.training.weight_decay = (double)INFINITY;
    config.model.encoder.type = (enum qkv_network)77;
    config.data.train = "a\xFF";
    const char *text = config_text(&config, true);
    cr_expect(strstr(text, "learning_rate: .nan\n") && strstr(text, "weight_decay: .inf\n"), "%s", text);
    cr_expect(strstr(text, "type: unknown\n") && strstr(text, "train: \"a?\"\n"), "%s", text);
}
