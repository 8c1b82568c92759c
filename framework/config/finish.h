/* Checks and completes configs that a program has filled in. */
#ifndef QKV_CONFIG_FINISH_H
#define QKV_CONFIG_FINISH_H

#include "qkv/config.h"

/* As qkv_config_finish, for a config that must hold all that training needs: the required texts, and an end. */
enum qkv_status qkv_config_finish_training(struct qkv_config *config, struct qkv_arena *arena,
                                           struct qkv_messages *messages);

/* As qkv_config_finish, for a model without data and training. */
enum qkv_status qkv_model_config_finish(struct qkv_model_config *model, struct qkv_error *error);

/* Fails when the value of one of these keys, a list that ends with NULL or "", is out of range. */
enum qkv_status qkv_config_check_keys(const struct qkv_config *config, const char *const *paths,
                                      struct qkv_error *error);

/* Calls `each` with a sentence for each key that the chosen optimizer or schedule does not read and whose value is not its
 * default. Rules do not refuse them, so that run folders which have them can be opened. Fails when memory is out. */
enum qkv_status qkv_config_each_unread(const struct qkv_config *config,
                                       void (*each)(void *context, const char *sentence), void *context);

/* Fails when the config.yaml of the run `folder`, which need not exist yet, cannot name one of the paths: seen from the
 * folder, it is not valid UTF-8. */
enum qkv_status qkv_config_check_run_paths(const struct qkv_config *config, const char *folder,
                                           struct qkv_error *error);

#endif
