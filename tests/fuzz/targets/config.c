/* Fuzz target: a config. What is written of a config that is accepted reads back as the same config. */
#include "harness.h"

/* Returns the config as text, which the caller frees. */
static char *text_of(const struct qkv_config *config, bool full, size_t *size)
{
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    REQUIRE(file && !qkv_config_write(config, file, full) && !fclose(file));
    return text;
}

static void require_same_after_writing(const struct qkv_config *config, struct qkv_arena *arena, bool full)
{
    size_t size, complete_size, again_size;
    struct qkv_config again;
    struct qkv_messages messages;
    char *text RELEASED(free_memory) = text_of(config, full, &size),
               *complete RELEASED(free_memory) = text_of(config, true, &complete_size);
    REQUIRE(!qkv_config_read(&again, arena, write_file("again.yaml", text, size), NULL, 0, &messages));
    char *text_again RELEASED(free_memory) = text_of(&again, true, &again_size);
    REQUIRE(complete_size == again_size && !memcmp(complete, text_again, again_size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    if (qkv_config_read(&config, &arena, write_file("config.yaml", data, size), NULL, 0, &messages)) {
        require_messages(&messages);
    } else {
        /* The default run folder is in the current folder; other paths are in that of the file, and absolute. */
        config.training.model_dir = "/run";
        require_same_after_writing(&config, &arena, false);
        require_same_after_writing(&config, &arena, true);
    }
    return 0;
}
