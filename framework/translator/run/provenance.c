#include "run/provenance.h"

#include "config/config_keys.h"

#include <stdio.h>
#include <string.h>

enum { CHECKSUM_SIZE = 9, SIDES = 2 }; /* 8 hexadecimal digits with the NUL; source and target */

static const char *const VOCABULARY_KEYS[SIDES] = {"train.source_vocabulary", "train.target_vocabulary"};

static const char *const CODES_KEYS[SIDES] = {"train.source_codes", "train.target_codes"};

static void format_checksum(const struct qkv_vocabulary *vocabulary, char text[CHECKSUM_SIZE])
{
    snprintf(text, CHECKSUM_SIZE, "%08lx", (unsigned long)qkv_vocabulary_checksum(vocabulary));
}

/* The checksum of the merges of a side; "none" when its level is not bpe. */
static void format_codes(const struct qkv_config *config, int side, char text[CHECKSUM_SIZE])
{
    const struct qkv_bpe *bpe = side ? config->data.trg.bpe : config->data.src.bpe;
    snprintf(text, CHECKSUM_SIZE, "none");
    if (bpe) snprintf(text, CHECKSUM_SIZE, "%08lx", (unsigned long)qkv_bpe_checksum(bpe));
}

/* The key of the state for a key of the config. */
static const char *config_key(struct qkv_arena *arena, const char *path)
{
    return qkv_arena_format(arena, "config.%s", path);
}

/* ---- saving ---- */

static bool save_key(void *context, const char *path, const char *value)
{
    struct qkv_state *state = context;
    const char *key = config_key(&state->arena, path);
    if (!key) return false;
    qkv_state_set(state, key, value);
    return true;
}

void qkv_provenance_save(struct qkv_state *state, const struct qkv_config *config,
                         const struct qkv_vocabulary *source, const struct qkv_vocabulary *target)
{
    const struct qkv_vocabulary *vocabularies[SIDES] = {source, target};
    char text[CHECKSUM_SIZE];
    if (qkv_config_each(config, QKV_KEYS_FIXED_ON_RESUME, save_key, state)) state->failed = true;
    for (int i = 0; i < SIDES; i++) {
        format_checksum(vocabularies[i], text);
        qkv_state_set(state, VOCABULARY_KEYS[i], text);
        format_codes(config, i, text);
        if (strcmp(text, "none") != 0) qkv_state_set(state, CODES_KEYS[i], text);
    }
}

/* Size of the description of a corpus, such as "80 pairs, checksum 1a2b3c4d". */
enum { DESCRIPTION_SIZE = 64 };

static void describe_corpus(const struct qkv_corpus *corpus, char text[DESCRIPTION_SIZE])
{
    snprintf(text, DESCRIPTION_SIZE, "%lld pairs, checksum %08lx", (long long)corpus->count,
             (unsigned long)qkv_corpus_checksum(corpus));
}

static const char *file_key(struct qkv_arena *arena, const char *key)
{
    return qkv_arena_format(arena, "file.%s", key);
}

static const char *text_key(struct qkv_arena *arena, const char *key)
{
    return qkv_arena_format(arena, "text.%s", key);
}

static void describe_links(const struct qkv_token_links *links, char text[DESCRIPTION_SIZE])
{
    snprintf(text, DESCRIPTION_SIZE, "%lld pairs, checksum %08lx", (long long)links->pairs,
             (unsigned long)qkv_token_links_checksum(links));
}

static void save_description(struct qkv_state *state, const char *key, const char *file, const char *text)
{
    const char *of_file = file_key(&state->arena, key), *of_text = text_key(&state->arena, key);
    state->failed = state->failed || !of_file || !of_text;
    if (state->failed) return;
    qkv_state_set(state, of_file, file);
    qkv_state_set(state, of_text, text);
}

void qkv_provenance_save_text(struct qkv_state *state, const char *key, const char *file,
                              const struct qkv_corpus *corpus)
{
    char text[DESCRIPTION_SIZE];
    describe_corpus(corpus, text);
    save_description(state, key, file, text);
}

void qkv_provenance_save_links(struct qkv_state *state, const char *key, const char *file,
                               const struct qkv_token_links *links)
{
    char text[DESCRIPTION_SIZE];
    describe_links(links, text);
    save_description(state, key, file, text);
}

/* ---- checking ---- */

struct checking {
    const struct qkv_state *state;
    const struct qkv_config *config;
    const char *path;
    struct qkv_arena arena;
    struct qkv_error *error;
    bool refused;
};

static bool check_key(void *context, const char *path, const char *value)
{
    struct checking *checking = context;
    const char *key = config_key(&checking->arena, path);
    const char *trained = key ? qkv_state_get(checking->state, key) : NULL;
    if (!trained || !strcmp(trained, value)) return true;
    enum qkv_key_role role = qkv_schema_find(&qkv_config_schema, path)->role;
    bool is_of_model = role == QKV_ROLE_MODEL;
    bool is_of_schedule = role == QKV_ROLE_FREE; /* fixed because the schedule depends on it */
    qkv_error_set(
        checking->error,
        "%s: was trained with %s %s, but the config has %s%s%s%s: put it back, or train a new run%s",
        checking->path, path, trained, value,
        is_of_schedule ? ", which changes the learning rates of the " : "",
        is_of_schedule ? qkv_schedule_kind_choices.list[checking->config->training.scheduling].name : "",
        is_of_schedule ? " schedule" : "",
        is_of_model ? "" : ", which --from can start with these parameters");
    checking->refused = true;
    return false;
}

enum qkv_status qkv_provenance_check(const struct qkv_state *state, const struct qkv_config *config,
                                     enum qkv_config_selection when, const struct qkv_vocabulary *source,
                                     const struct qkv_vocabulary *target, const char *path,
                                     struct qkv_error *error)
{
    static const char *const NAMES[SIDES] = {"source", "target"};
    const struct qkv_vocabulary *vocabularies[SIDES] = {source, target};
    struct checking checking = {.state = state, .config = config, .path = path, .error = error};
    enum qkv_status status = qkv_config_each(config, when, check_key, &checking);
    qkv_arena_release(&checking.arena);
    if (status) return checking.refused ? QKV_INVALID : qkv_error_set(error, "%s: out of memory", path);
    for (int i = 0; i < SIDES; i++) {
        char text[CHECKSUM_SIZE];
        const char *codes = qkv_state_get(state, CODES_KEYS[i]);
        int64_t min_freq = i ? config->data.trg.bpe_min_freq : config->data.src.bpe_min_freq;
        format_codes(config, i, text);
        if (codes && strcmp(codes, text) != 0)
            return qkv_error_set(error,
                                 "%s: was trained with other %s merges: their checksum was %s, but that of "
                                 "%s.codes%s is %s: put them back",
                                 path, NAMES[i], codes, NAMES[i], min_freq > 0 ? " with its pieces" : "",
                                 text);
        const char *trained = qkv_state_get(state, VOCABULARY_KEYS[i]);
        format_checksum(vocabularies[i], text);
        if (trained && strcmp(trained, text) != 0)
            return qkv_error_set(
                error,
                "%s: was trained with another %s vocabulary: its checksum was %s, but that of "
                "%s.vocabulary is %s: put it back",
                path, NAMES[i], trained, NAMES[i], text);
    }
    return QKV_OK;
}

static enum qkv_status check_description(const struct qkv_state *state, const char *key, const char *file,
                                         const char *text, const char *path, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    const char *of_file = file_key(&arena, key), *of_text = text_key(&arena, key);
    const char *old_file = of_file ? qkv_state_get(state, of_file) : NULL;
    const char *old_text = of_text ? qkv_state_get(state, of_text) : NULL;
    enum qkv_status status = QKV_OK;
    if (!of_file || !of_text)
        status = qkv_error_set(error, "%s: out of memory", path);
    else if (old_file && old_text && strcmp(old_text, text) != 0)
        status =
            qkv_error_set(error,
                          "%s: was trained with %s %s (%s), but now %s holds other text (%s): put it back, "
                          "or train a new run, which --from can start with these parameters",
                          path, key, old_file, old_text, file, text);
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status qkv_provenance_check_text(const struct qkv_state *state, const char *key, const char *file,
                                          const struct qkv_corpus *corpus, const char *path,
                                          struct qkv_error *error)
{
    char text[DESCRIPTION_SIZE];
    describe_corpus(corpus, text);
    return check_description(state, key, file, text, path, error);
}

enum qkv_status qkv_provenance_check_links(const struct qkv_state *state, const char *key, const char *file,
                                           const struct qkv_token_links *links, const char *path,
                                           struct qkv_error *error)
{
    char text[DESCRIPTION_SIZE];
    describe_links(links, text);
    return check_description(state, key, file, text, path, error);
}
