#include "init_config.h"

#include "terminal.h"

#include <string.h>

const char *init_part_file(char name[256], const struct init_names *names, enum qkv_pairs_part part)
{
    static const char *const parts[QKV_PAIRS_PARTS] = {"train", "dev", "test"};
    snprintf(name, 256, "%.200s.%s.tsv", names->name, parts[part]);
    return name;
}

static void write_side(FILE *file, const struct init_plan *plan, const struct init_names *names, int side)
{
    static const char *const why[] = {
        [QKV_LEVEL_WORD] = "every word is a token",
        [QKV_LEVEL_CHAR] = "every character is a token: this script has no spaces between words",
        [QKV_LEVEL_BPE] = "frequent words are tokens; rare ones are cut into frequent pieces",
    };
    enum qkv_level level = plan->level[side];
    fprintf(file, "  %s:\n    lang: %s\n", side ? "trg" : "src", names->lang[side]);
    fprintf(file, "    level: %s  # %s\n", qkv_level_name(level), why[level]);
    if (level == QKV_LEVEL_BPE)
        fprintf(file, "    num_merges: %lld  # more: longer pieces and a larger vocabulary\n",
                (long long)plan->merges);
    if (init_is_lowercase(plan, side))
        fputs("    lowercase: true  # the words House and house are the same\n", file);
    fprintf(file, "    split_punctuation: %s\n",
            plan->split_punctuation[side] ? "true" : "false  # the text is tokenized already");
    fprintf(file, "    max_length: %lld  # tokens; training drops longer sentences",
            (long long)plan->max_length[side]);
    if (init_leaves_out_many(plan))
        fprintf(file, ", on either side %.0f %% of the pairs\n", 100 * plan->left_out);
    else
        fputs(", which are few\n", file);
}

static void write_stack(FILE *file, const struct init_plan *plan, bool is_encoder)
{
    const struct init_sizes *sizes = plan->sizes;
    fprintf(file,
            "  %s:\n"
            "    num_layers: %lld\n"
            "    num_heads: %lld\n"
            "    hidden_size: %lld\n"
            "    ff_size: %lld\n",
            is_encoder ? "encoder" : "decoder", (long long)sizes->layers, (long long)sizes->heads,
            (long long)sizes->width, (long long)sizes->inner);
    fprintf(file, "    dropout: %g%s\n", plan->dropout,
            is_encoder ? "  # more keeps a model from learning little data by heart; less suits much data"
                       : "");
    fprintf(file, "    embeddings: {dropout: %g}\n", plan->dropout);
    fprintf(file, "    positions: {type: relative}%s\n",
            is_encoder ? "  # learned by distance, so sentences may be longer than those of training" : "");
}

static void write_training(FILE *file, const struct init_plan *plan)
{
    const struct init_sizes *sizes = plan->sizes;
    int64_t warmup = plan->updates / 10 < sizes->warmup ? plan->updates / 10 : sizes->warmup;
    fprintf(file,
            "training:\n"
            "  adam_betas: [0.9, 0.98]\n"
            "  learning_rate: %g  # halve it if the loss jumps about\n"
            "  learning_rate_warmup: %lld\n"
            "  scheduling: inverse_sqrt  # after the warm-up, the rate falls as 1/sqrt(update)\n",
            sizes->rate, (long long)(warmup < 1 ? 1 : warmup));
    fprintf(file,
            "  label_smoothing: 0.1\n"
            "  clip_grad_norm: 1.0\n"
            "  batch_type: token\n"
            "  batch_size: %lld\n",
            (long long)sizes->tokens);
    int64_t freq = init_validation_freq(plan);
    fprintf(file,
            "  updates: %lld  # the length of training; raise it and `qkv train --resume` to go on\n"
            "  validation_freq: %lld\n"
            "  early_stopping_metric: chrf  # translations may improve while the dev loss rises\n"
            "  patience: 5  # stop early after this many validations without a better chrF\n"
            "  logging_freq: %lld\n"
            "  keep_best_ckpts: 1\n",
            (long long)plan->updates, (long long)freq, (long long)(freq < 100 ? freq : 100));
}

void init_config_write(FILE *file, const struct init_plan *plan, const struct init_names *names)
{
    char part[256];
    const char *slash = strrchr(names->file, '/');
    fputs("# Translates sentences like those of ", file);
    print_plain(file, names->origin);
    fputs(". Made by `qkv init`; train it with\n#   qkv train ", file);
    print_plain(file, slash ? slash + 1 : names->file);
    fprintf(file, "\n# Keys that are not here have defaults: `qkv config %s --full` prints all.\n",
            slash ? slash + 1 : names->file);
    fprintf(file, "name: %s  # the run folder is runs/%s\n\n", names->name, names->name);
    fprintf(file, "data:\n  train: %s\n", init_part_file(part, names, QKV_PAIRS_TRAIN));
    fprintf(file, "  dev: %s  # decides which checkpoint is best and when training stops\n",
            init_part_file(part, names, QKV_PAIRS_DEV));
    fprintf(file, "  test: %s  # for `qkv evaluate runs/%s`, once training is done\n",
            init_part_file(part, names, QKV_PAIRS_TEST), names->name);
    if (plan->is_joint) fputs("  joint_vocabulary: true  # both languages share pieces of words\n", file);
    for (int side = 0; side < 2; side++) write_side(file, plan, names, side);
    fputs("\nmodel:\n", file);
    if (plan->is_joint) fputs("  tied_embeddings: true\n", file);
    fputs("  tied_softmax: true  # fewer numbers to learn: the output layer uses the target embeddings\n",
          file);
    write_stack(file, plan, true);
    write_stack(file, plan, false);
    fputc('\n', file);
    write_training(file, plan);
}
