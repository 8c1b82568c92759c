/* Fuzz target: the header of the checkpoint of a run, changed by lines that write_changed_checkpoint reads. The run is
 * then inspected, and its training resumed. */
#include "checkpoint_file.h"
#include "harness.h"

#include "framework/translator/run/checkpoints.h"

/* The files of the run as training left them. */
static struct {
    const char *name;
    char *bytes;
    size_t size;
} files[] = {{QKV_RUN_LAST}, {QKV_RUN_CONFIG}, {QKV_RUN_SOURCE}, {QKV_RUN_TARGET}, {QKV_RUN_FORMAT_FILE}};
enum { FILES = sizeof files / sizeof *files };

/* Writes the files of the run anew and removes all others. */
static void restore_run(void)
{
    const char *run = path_of("run");
    for (int i = 0; i < FILES && !files[i].bytes; i++)
        files[i].bytes = read_whole(QKV_RUN_FILE(run, files[i].name), &files[i].size);
    empty_folder(run);
    for (int i = 0; i < FILES; i++)
        write_file(QKV_RUN_FILE("run", files[i].name), files[i].bytes, files[i].size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    struct qkv_error error = {""};
    struct qkv_train_result result;
    const char *const more[] = {"training.updates=3"};
    char path[PATH_SIZE];
    const char *arguments[] = {path, "--json"};
    REQUIRE(!qkv_config_read(&config, &arena, trained_config(), more, 1, &messages));
    restore_run();
    strcpy(path, path_of("run"));
    write_changed_checkpoint("run/" QKV_RUN_LAST, files[0].bytes, files[0].size, (struct input){data, size});
    for (int count = 1; count <= 2; count++) {
        struct outcome outcome RELEASED(outcome_release) = run_readable("inspect", count, arguments);
    }
    if (qkv_train(&config, &(struct qkv_train_options){.resume = true, .threads = 1}, &result, &error))
        require_message(&error);
    return 0;
}
