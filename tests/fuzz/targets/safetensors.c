/* Fuzz target: a safetensors file, read as the checkpoint of two small parameters. Its checksum is made right first, as
 * no fuzzer would guess it. */
#include "checkpoint_file.h"
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_error error = {""};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    int64_t number;
    double first[32] = {0}, second[32] = {0}; /* b begins at element 16, the next multiple of 64 bytes */
    struct qkv_optimizer_state optimizer = {.name = "adam", .moment_count = 2, .moments = {first, second}};
    const struct qkv_initial zeros = {QKV_INITIALIZER_ZEROS, 1};
    struct input input = {data, size};
    unsigned switches = take_switches(&input);
    qkv_parameters_add(&parameters, QKV_SHAPE(1, 2), zeros, "a");
    qkv_parameters_add(&parameters, QKV_SHAPE(1), zeros, "b");
    REQUIRE(!qkv_parameters_allocate(&parameters, switches & 1 ? QKV_FLOAT64 : QKV_FLOAT32, &error));
    REQUIRE(parameters.elements <= 32);
    optimizer.dtype = parameters.dtype;
    optimizer.elements = parameters.elements;
    const char *path = write_checkpoint("file.safetensors", input.data, input.size);
    if (qkv_checkpoint_load(path, &parameters, switches & 2 ? &optimizer : NULL, &state, &error))
        require_message(&error);
    for (int64_t i = 0; i < state.count; i++) {
        REQUIRE(state.list[i].key && state.list[i].text);
        qkv_state_get_integer(&state, state.list[i].key, &number, &error);
    }
    return 0;
}
