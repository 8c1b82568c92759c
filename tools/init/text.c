/* `qkv init` of a text without pairs: recognises it, and writes the config of a language model. */
#include "init/init.h"

#include "config/path.h"

enum {
    LEAST = 10000,   /* characters of a text that a language model can learn from */
    LARGE = 3000000, /* from so many on, words are cut into pieces: characters would take too long */
    DEV_MAX = 50000, /* characters of validation */
    MAX_EPOCHS = 20,
    VALIDATIONS = 20,
    TRIAL_UPDATES = 1000, /* an arbitrary number: training is only measured, not finished */
};

/* ---- recognising ---- */

/* Whether nearly all, or at least some, of the lines have a separator of columns. */
struct separator {
    const char *text;
    double share; /* of the lines that makes a table */
    int64_t lines;
};

/* Whether the lines of a file, nearly all of which have a comma, are a table. */
static bool is_csv(const char *path)
{
    struct qkv_pairs pairs;
    struct qkv_error ignored;
    if (qkv_pairs_read(&pairs, (struct qkv_pairs_request){.path = path}, &ignored)) return false;
    qkv_pairs_release(&pairs);
    return true;
}

bool init_text_read(struct init_text *text, const char *path)
{
    struct separator separators[] = {{"\t", 0.05}, {"|||", 0.5}, {";", 0.9}, {"\",\"", 0.5}, {"{\"", 0.5}};
    enum { SEPARATORS = sizeof separators / sizeof *separators };
    struct qkv_lines lines;
    struct qkv_error ignored; /* reading it as pairs reports the same */
    *text = (struct init_text){0};
    if (qkv_ends_in(path, ".yaml") || qkv_lines_open(&lines, path, &ignored)) return false;
    int64_t commas = 0; /* lines with one */
    bool found, is_text;
    while ((is_text = !qkv_lines_next(&lines, &found, &ignored)) && found) {
        text->characters++;
        for (size_t i = 0; i < lines.size; i++) text->characters += (lines.line[i] & 0xC0) != 0x80;
        text->lines += lines.size > 0;
        commas += strchr(lines.line, ',') != NULL;
        for (int s = 0; s < SEPARATORS; s++)
            separators[s].lines += strstr(lines.line, separators[s].text) != NULL;
    }
    qkv_lines_close(&lines);
    for (int s = 0; s < SEPARATORS; s++)
        if ((double)separators[s].lines > separators[s].share * (double)text->lines) is_text = false;
    return is_text && text->characters >= LEAST && (commas * 10 < text->lines * 9 || !is_csv(path));
}

/* ---- the config ---- */

static bool is_large(const struct init_text *text)
{
    return text->characters >= LARGE;
}

/* Updates between two validations. */
static int64_t validation_freq(int64_t updates)
{
    return updates / VALIDATIONS > 50 ? updates / VALIDATIONS : 50;
}

static void write_config(FILE *file, const struct init *init, const struct init_text *text, const char *train,
                         int64_t updates)
{
    bool large = is_large(text);
    double share = 0.1 * (double)text->characters > DEV_MAX ? DEV_MAX / (double)text->characters : 0.1;
    fprintf(file,
            "# A language model of %s, made by `qkv init`. Train it: qkv train %s\n"
            "# The help of all keys: qkv config --reference\n"
            "name: %s\n\n"
            "data:\n"
            "  train: %s\n"
            "  text: running  # one text; lines, paragraphs: many short ones\n"
            "  context: 128  # tokens that the model sees at once\n"
            "  dev_share: %.2g  # of the end of the text, for validation\n"
            "  trg:\n"
            "    lang: %s\n",
            init->origin, init->file, init->name, train, share, init->lang[1]);
    if (large)
        fputs("    level: bpe  # frequent words are tokens; rare ones are cut into frequent pieces\n"
              "    num_merges: 4000  # more: longer pieces and a larger vocabulary\n"
              "    split_punctuation: true\n",
              file);
    else
        fputs("    level: char  # every character is a token; bpe suits large texts\n", file);
    fprintf(file,
            "\nmodel:\n"
            "  tied_softmax: true\n"
            "  init_depth_scaling: true\n"
            "  embed_init_gain: 0.25\n"
            "  decoder:\n"
            "    type: decoder_only\n"
            "    num_layers: 4\n"
            "    num_heads: %d\n"
            "    hidden_size: %d\n"
            "    ff_size: %d\n"
            "    dropout: 0.1  # more keeps a model from learning little text by heart\n"
            "    activation: gelu\n"
            "    embeddings: {scale: false}\n"
            "    positions: {type: rotary}\n"
            "\ntraining:\n"
            "  optimizer: adamw\n"
            "  adam_betas: [0.9, 0.99]\n"
            "  weight_decay: 0.1\n"
            "  scheduling: cosine\n"
            "  learning_rate: %s\n"
            "  learning_rate_min: 0.0001\n"
            "  learning_rate_warmup: 100\n"
            "  clip_grad_norm: 1.0\n"
            "  batch_size: 16  # windows\n"
            "  precision: auto  # float32 or bfloat16, whichever is faster on this machine\n"
            "  updates: %lld\n"
            "  validation_freq: %lld\n",
            large ? 8 : 4, large ? 256 : 128, large ? 1024 : 512, large ? "0.001" : "0.002",
            (long long)updates, (long long)validation_freq(updates));
}

static enum qkv_status write_file(const struct init *init, const struct init_text *text, int64_t updates,
                                  struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_file_writer writer;
    const char *relative, *absolute, *folder = *init->folder ? init->folder : ".";
    const char *train = qkv_path_in_folder(&arena, folder, init->origin, &relative, &absolute)
                            ? qkv_yaml_text(relative, &arena)
                            : NULL;
    enum qkv_status status = train ? qkv_file_begin(&writer, init->file, error)
                                   : qkv_error_set(error, "%s: cannot be named in a config", init->origin);
    if (!status) {
        write_config(writer.file, init, text, train, updates);
        status = qkv_file_commit(&writer, error);
    }
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status init_text_make(struct init *init, const struct init_text *text, struct qkv_error *error)
{
    const struct init_options *options = init->options;
    struct qkv_train_cost cost = {0};
    struct progress_bar bar = progress_bar_on(stderr);
    int64_t updates = options->updates;
    if (!options->overwrite && qkv_path_exists(init->file))
        return qkv_error_set(error, "%s: exists already: choose another with -o, or give --overwrite",
                             init->file);
    snprintf(init->lang[1], sizeof init->lang[1], "%s", options->lang[1] ? options->lang[1] : "en");
    enum qkv_status status = init_make_folder_of(init->file, error);
    if (!status) status = write_file(init, text, updates ? updates : TRIAL_UPDATES, error);
    if (!status && !updates) {
        if (!options->quiet) progress_bar_show(&bar, -1, "measuring how fast this machine trains");
        status = init_measure_config(init->file, (int)options->threads, &cost, error);
        progress_bar_clear(&bar);
        if (status) remove(init->file); /* there was none, or it was to be replaced */
        if (!status)
            status = write_file(
                init, text,
                updates = init_fitting_updates(&cost, 60 * options->minutes, VALIDATIONS, MAX_EPOCHS), error);
    }
    if (status || options->quiet) return status;
    printf("%s: running text, %lld lines, %lld characters; its lines are no pairs, so this is for a language "
           "model\n",
           init->origin, (long long)text->lines, (long long)text->characters);
    printf("tokens: %s\n",
           is_large(text) ? "pieces of words (byte-pair encoding, 4000 merges)" : "characters");
    printf("training: %lld updates\nwrote ", (long long)updates);
    print_result(stdout, init->file);
    print_command(stdout, "\nnext: qkv train %s\n", init->file);
    return QKV_OK;
}
