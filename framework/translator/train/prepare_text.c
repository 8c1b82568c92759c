/* Writes the training text of a config as ids, with the vocabularies that training would use. */
#include "train/training.h"
#include "train/warm_start.h"

enum qkv_status qkv_train_prepare(const struct qkv_config *config, const char *file,
                                  struct qkv_prepared_counts *counts, struct qkv_error *error)
{
    const struct qkv_train_options options = {0};
    struct training training = {.config = config, .options = &options};
    const struct qkv_vocabulary *const loaded[2] = {&training.source, &training.target};
    const struct warm_start *from = &training.from;
    if (config->training.guided_alignment > 0)
        return qkv_error_set(error,
                             "%s: a prepared corpus does not say which words its tokens are part of, which "
                             "training.guided_alignment needs: train from the text, or set it to 0",
                             file);
    enum qkv_status status = qkv_warm_start_open(&training, error);
    bool has_old_vocabulary = !status && from->has_old_vocabulary;
    if (has_old_vocabulary) {
        status = qkv_training_find_merges(&training, error);
        if (!status) status = qkv_training_load_vocabularies(&training, from->run.path, error);
    }
    qkv_warm_start_release(&training); /* its parameters are not needed */
    const struct qkv_data_config *data = &training.config->data;
    if (!status)
        status =
            qkv_corpus_prepare(file, data->train, data, has_old_vocabulary ? loaded : NULL, counts, error);
    qkv_training_release(&training);
    return status;
}
