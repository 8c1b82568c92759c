/* Checks and completes configs that a program has filled in. */
#ifndef QKV_CONFIG_FINISH_H
#define QKV_CONFIG_FINISH_H

#include "qkv/config.h"

/* Like qkv_config_finish, for a config that must have everything that training needs: the required texts, and an end. */
enum qkv_status qkv_config_finish_training(struct qkv_config *config, struct qkv_arena *arena,
                                           struct qkv_messages *messages);

/* Like qkv_config_finish, for the config of a model without data and training. */
enum qkv_status qkv_model_config_finish(struct qkv_model_config *model, struct qkv_error *error);

/* Calls `each` with a sentence for each key that is not at its default although the chosen optimizer or schedule does not read
 * it. Such keys are not refused by the rules, so that run folders that have them can be opened. Fails when memory runs out. */
enum qkv_status qkv_config_each_unread(const struct qkv_config *config,
                                       void (*each)(void *context, const char *sentence), void *context);

/* Fails when the config.yaml of the run `folder`, which need not exist yet, cannot name one of the paths, because the path
 * relative to the folder is not valid UTF-8. */
enum qkv_status qkv_config_check_run_paths(const struct qkv_config *config, const char *folder,
                                           struct qkv_error *error);

#endif
