/* Saves a training as a checkpoint in its run folder. */
#include "train/training.h"

#include "run/provenance.h"

enum qkv_status qkv_training_save(struct training *training, const char *name, enum checkpoint_kind kind,
                                  struct qkv_error *error)
{
    bool resumable = kind == CHECKPOINT_RESUMABLE;
    const struct qkv_optimizer_state *optimizer = resumable ? &training->optimizer.state : NULL;
    struct qkv_parameters *parameters = &training->model->parameters;
    struct qkv_state state = {0};
    const struct qkv_data_config *data = &training->config->data;
    const char *path = qkv_run_file(&state.arena, training->folder, name);
    qkv_provenance_save(&state, training->config, &training->source, &training->target);
    qkv_provenance_save_text(&state, "data.train", data->train, &training->train);
    if (training->links.pairs)
        qkv_provenance_save_links(&state, "data.train_links", data->train_links, &training->links);
    if (data->dev[0]) qkv_provenance_save_text(&state, "data.dev", data->dev, &training->dev);
    qkv_progress_save(&training->progress, &state);
    qkv_schedule_save(&training->schedule, &state);
    /* A checkpoint without the state of the optimizer holds the moving average, if there is one, in place of the parameters. */
    if (!resumable) qkv_optimizer_swap_average(&training->optimizer, parameters);
    enum qkv_status status;
    if (!path)
        status = qkv_error_set(error, "out of memory");
    else if (kind == CHECKPOINT_HALF)
        status = qkv_checkpoint_save_half(path, parameters, &state, error);
    else
        status = qkv_checkpoint_save(path, parameters, optimizer, &state, error);
    if (!resumable) qkv_optimizer_swap_average(&training->optimizer, parameters);
    qkv_state_release(&state);
    return status;
}
