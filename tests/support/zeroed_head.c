#include "zeroed_head.h"

#include "models/network.h"

void scale_head(struct qkv_model *model, struct qkv_head head, double factor)
{
    const struct qkv_attention_layers layers = qkv_model_attention(model, head.attention, head.layer);
    const struct qkv_dense *output = layers.multi_head ? &layers.multi_head->output : layers.attentional;
    int64_t inputs = output->weight->shape.size[0], outputs = output->weight->shape.size[1];
    int64_t width = layers.multi_head ? inputs / layers.multi_head->rule.heads : inputs - outputs;
    int64_t first = layers.multi_head ? (head.head - 1) * width : outputs;
    for (int64_t i = first * outputs; i < (first + width) * outputs; i++)
        qkv_parameter_set(&model->parameters, output->weight, i,
                          factor * qkv_parameter_get(&model->parameters, output->weight, i));
}

void save_zeroed(const char *heads)
{
    struct qkv_run run RELEASED(qkv_run_release);
    expect_done(qkv_run_open(&run, "run", "best", QKV_FLOAT32, &error));
    char *names = format("%s", heads);
    for (const char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        struct qkv_head head;
        expect_done(qkv_head_find(run.model, name, &head, &error));
        scale_head(run.model, head, 0);
    }
    expect_done(
        qkv_checkpoint_save("run/zeroed.safetensors", &run.model->parameters, NULL, &run.state, &error));
}
