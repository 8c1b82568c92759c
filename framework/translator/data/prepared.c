/* Prepared corpora: their layout, and opening them. Everything in a file is checked here, so that no user of the corpus reads
 * outside the map. */
#include "data/prepared.h"
#include "core/memory.h"
#include "data/corpus.h"

#include "config/config_keys.h"
#include "core/file.h"
#include "data/bpe.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

struct qkv_prepared {
    char *path;
    unsigned char *bytes; /* [size]: the mapped file */
    size_t size;
    const struct qkv_prepared_header *header; /* at the beginning of `bytes` */
};

static const char *const SIDES[2] = {"source", "target"};

/* ---- layout ---- */

/* The size of a section in bytes, which follows from the counts in the header, but for texts. */
static uint64_t implied_size(const struct qkv_prepared_header *header, int section)
{
    uint64_t count = (uint64_t)header->count;
    if (section == QKV_PREPARED_LINES) return count * sizeof(int64_t);
    if (section >= QKV_PREPARED_IDS)
        return (uint64_t)header->side[section - QKV_PREPARED_IDS].tokens * sizeof(int32_t);
    if (section >= QKV_PREPARED_STARTS) return (count + 1) * sizeof(int64_t);
    return header->section[section].size;
}

uint64_t qkv_prepared_lay_out(struct qkv_prepared_header *header)
{
    uint64_t end = sizeof *header;
    for (int i = 0; i < QKV_PREPARED_SECTIONS; i++) {
        header->section[i].offset = end;
        header->section[i].size = implied_size(header, i);
        end = (end + header->section[i].size + 7) / 8 * 8;
    }
    return end;
}

uint32_t qkv_prepared_checksum(const struct qkv_prepared_header *header)
{
    struct qkv_prepared_header copy = *header;
    copy.checksum = 0;
    return (uint32_t)crc32_z(0, (const Bytef *)&copy, sizeof copy);
}

char *qkv_prepared_settings(const struct qkv_data_config *data)
{
    const struct qkv_config config = {.data = *data};
    struct qkv_arena arena = {0};
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    bool good = stream;
    for (int i = 0; good && i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (key->is_path || strncmp(key->path, "data.", 5) != 0) continue;
        const char *value = qkv_value_text(key, &config, &arena);
        good = value && fprintf(stream, "%s=%s\n", key->path, value) >= 0;
    }
    bool has_marks = data->src.split_punctuation || data->trg.split_punctuation;
    if (good && has_marks && !data->src.plain_marks) good = fputs("joiners=true\n", stream) >= 0;
    good = stream && !fclose(stream) && good;
    qkv_arena_release(&arena);
    if (good) return text;
    free(text);
    return NULL;
}

enum qkv_status qkv_prepared_check_dropout(const char *path, const struct qkv_data_config *data,
                                           struct qkv_error *error)
{
    bool source = data->src.bpe_dropout > 0;
    if (!source && !(data->trg.bpe_dropout > 0)) return QKV_OK;
    return qkv_error_set(
        error,
        "%s: a prepared corpus has the same pieces in each epoch, so that data.%s.bpe_dropout "
        "(%g) must be 0: leave it out, or train from the text",
        path, source ? "src" : "trg", source ? data->src.bpe_dropout : data->trg.bpe_dropout);
}

/* ---- the file ---- */

static void unmap(struct qkv_prepared *prepared)
{
    if (!prepared) return;
    if (prepared->bytes) munmap(prepared->bytes, prepared->size);
    free(prepared->path);
    free(prepared);
}

static enum qkv_status map(struct qkv_prepared *prepared, int descriptor, struct qkv_error *error)
{
    struct stat status;
    if (fstat(descriptor, &status))
        return qkv_error_set(error, "%s: cannot be read: %s", prepared->path, strerror(errno));
    prepared->size = (size_t)status.st_size;
    if (!prepared->size) return qkv_error_set(error, "%s: the file is empty", prepared->path);
    void *bytes = mmap(NULL, prepared->size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED)
        return qkv_error_set(error, "%s: cannot be mapped into memory: %s", prepared->path, strerror(errno));
    prepared->bytes = bytes;
    prepared->header = bytes;
    return QKV_OK;
}

/* Whether the counts of the header are possible, each by itself and together. */
static bool are_counts(const struct qkv_prepared_header *header)
{
    const int64_t max = (int64_t)1 << 56;
    if (header->count <= 0 || header->count > header->read || header->read >= max) return false;
    int64_t dropped = header->read - header->count;
    bool good = header->long_sources >= 0 && header->long_sources <= dropped && header->long_targets >= 0 &&
                header->long_targets <= dropped;
    for (int side = 0; side < 2; side++)
        good = good && header->side[side].tokens > 0 && header->side[side].tokens < max &&
               header->side[side].longest > 0 && header->side[side].unknown >= 0 &&
               header->side[side].unknown <= header->side[side].tokens &&
               header->side[side].vocabulary_size <= INT32_MAX;
    return good;
}

/* Checks that the sections follow each other, have the sizes that the counts imply, and end with the file. */
static enum qkv_status check_layout(const struct qkv_prepared *prepared, struct qkv_error *error)
{
    const struct qkv_prepared_header *header = prepared->header;
    struct qkv_prepared_header expected = *header;
    uint64_t end = qkv_prepared_lay_out(&expected);
    bool good = are_counts(header) && !memcmp(&expected, header, sizeof expected);
    for (int i = 0; i < QKV_PREPARED_SECTIONS && good; i++)
        good = header->section[i].size < (uint64_t)1 << 58;
    if (!good)
        return qkv_error_set(error, "%s: is damaged: the numbers of its header contradict each other",
                             prepared->path);
    if (prepared->size == end) return QKV_OK;
    return qkv_error_set(error, "%s: has %zu bytes instead of %llu: %s; prepare the text again",
                         prepared->path, prepared->size, (unsigned long long)end,
                         prepared->size < end ? "it was cut short" : "something was appended to it");
}

static enum qkv_status other_version(const char *path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: was prepared by another version of qkv: prepare the text again", path);
}

static enum qkv_status check_header(const struct qkv_prepared *prepared, struct qkv_error *error)
{
    const struct qkv_prepared_header *header = prepared->header;
    const char *path = prepared->path;
    size_t known = strcspn(QKV_PREPARED_MAGIC, "123456789");
    if (prepared->size < sizeof header->magic || memcmp(header->magic, QKV_PREPARED_MAGIC, known) != 0)
        return qkv_error_set(error, "%s: is not a prepared corpus, which `qkv prepare` makes", path);
    if (memcmp(header->magic, QKV_PREPARED_MAGIC, sizeof header->magic) != 0)
        return other_version(path, error);
    if (prepared->size < sizeof *header)
        return qkv_error_set(error, "%s: has only %zu bytes: it was cut short; prepare the text again", path,
                             prepared->size);
    if (header->byte_order != QKV_PREPARED_BYTE_ORDER)
        return qkv_error_set(
            error, "%s: was prepared on a machine of another byte order: prepare the text again", path);
    if (header->checksum != qkv_prepared_checksum(header))
        return qkv_error_set(
            error, "%s: is damaged: the checksum of its header is wrong; prepare the text again", path);
    return check_layout(prepared, error);
}

static const void *section_bytes(const struct qkv_prepared *prepared, int section)
{
    return prepared->bytes + prepared->header->section[section].offset;
}

static enum qkv_status check_section(const struct qkv_prepared *prepared, int number, struct qkv_error *error)
{
    const struct qkv_prepared_section *section = &prepared->header->section[number];
    if (crc32_z(0, section_bytes(prepared, number), section->size) == section->checksum) return QKV_OK;
    return qkv_error_set(
        error, "%s: is damaged between bytes %llu and %llu, whose checksum is wrong; prepare the text again",
        prepared->path, (unsigned long long)section->offset,
        (unsigned long long)(section->offset + section->size));
}

/* Maps a file and checks its header and its texts. NULL with a message on failure. */
static struct qkv_prepared *open_file(const char *path, struct qkv_error *error)
{
    int descriptor = qkv_file_open(path, true, error);
    if (descriptor < 0) return NULL;
    struct qkv_prepared *prepared = calloc(1, sizeof *prepared);
    enum qkv_status status;
    if (prepared) prepared->path = strdup(path);
    status = prepared && prepared->path ? map(prepared, descriptor, error) : qkv_no_memory(error);
    close(descriptor);
    if (!status) status = check_header(prepared, error);
    for (int i = 0; !status && i < QKV_PREPARED_LINES; i++) status = check_section(prepared, i, error);
    if (!status) return prepared;
    unmap(prepared);
    return NULL;
}

static struct qkv_file_part part_of(const struct qkv_prepared *prepared, int section)
{
    return (struct qkv_file_part){prepared->path, section_bytes(prepared, section),
                                  prepared->header->section[section].size};
}

/* ---- settings and merges ---- */

/* Compares a line of the settings of the file, "key=value", with that at *wanted, which moves to the next one. */
static enum qkv_status compare_setting(void *wanted, const struct qkv_lines *lines, struct qkv_error *error)
{
    char **next = wanted, *setting = *next;
    size_t key = strcspn(setting, "="), size = strcspn(setting, "\n");
    if (!*setting) return QKV_OK;
    if (strncmp(lines->line, setting, key + 1) != 0) return other_version(lines->path, error);
    *next += size + 1;
    setting[size] = '\0';
    if (!strcmp(lines->line, setting)) return QKV_OK;
    return qkv_error_set(error,
                         "%s: was prepared with %.*s %s, but the config has %s: put it back, or prepare the "
                         "text again",
                         lines->path, (int)key, setting, lines->line + key + 1, setting + key + 1);
}

static enum qkv_status check_settings(const struct qkv_prepared *prepared, const struct qkv_data_config *data,
                                      struct qkv_error *error)
{
    if (qkv_prepared_check_dropout(prepared->path, data, error)) return QKV_INVALID;
    char *settings = qkv_prepared_settings(data), *next = settings;
    if (!settings) return qkv_no_memory(error);
    enum qkv_status status =
        qkv_lines_read_part(part_of(prepared, QKV_PREPARED_SETTINGS), compare_setting, &next, error);
    if (!status && *next) status = other_version(prepared->path, error);
    free(settings);
    return status;
}

/* Refuses a codes file whose merges are not those of the prepared corpus. */
static enum qkv_status check_codes(const struct qkv_prepared *prepared, const struct qkv_text_config *text,
                                   const struct qkv_bpe *bpe, struct qkv_error *error)
{
    if (!*text->bpe_codes) return QKV_OK;
    struct qkv_bpe *codes = qkv_bpe_load(text->bpe_codes, error);
    if (!codes) return QKV_INVALID;
    bool same = qkv_bpe_checksum(codes) == qkv_bpe_checksum(bpe);
    qkv_bpe_free(codes);
    if (same) return QKV_OK;
    return qkv_error_set(error, "%s: was prepared with other merges than those of %s: prepare the text again",
                         prepared->path, text->bpe_codes);
}

static enum qkv_status read_merges(const struct qkv_prepared *prepared, int side,
                                   struct qkv_text_config *text, struct qkv_bpe **bpe,
                                   struct qkv_error *error)
{
    struct qkv_file_part pieces = part_of(prepared, QKV_PREPARED_PIECES + side);
    if (text->level != QKV_LEVEL_BPE) return QKV_OK;
    text->bpe = *bpe = qkv_bpe_read(part_of(prepared, QKV_PREPARED_MERGES + side), error);
    if (!*bpe || check_codes(prepared, text, *bpe, error)) return QKV_INVALID;
    return pieces.size ? qkv_bpe_read_pieces(*bpe, pieces, error) : QKV_OK;
}

enum qkv_status qkv_prepared_merges(const char *path, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                                    struct qkv_error *error)
{
    struct qkv_prepared *prepared = open_file(path, error);
    if (!prepared) return QKV_INVALID;
    enum qkv_status status = check_settings(prepared, data, error);
    if (!status) status = read_merges(prepared, 0, &data->src, &bpe[0], error);
    if (!status) status = read_merges(prepared, 1, &data->trg, &bpe[1], error);
    unmap(prepared);
    return status;
}

/* Refuses merges, such as those of a run, other than those that the ids were made with. */
static enum qkv_status check_merges(const struct qkv_prepared *prepared, const struct qkv_data_config *data,
                                    struct qkv_error *error)
{
    const struct qkv_bpe *merges[2] = {data->src.bpe, data->trg.bpe};
    for (int side = 0; side < 2; side++) {
        uint64_t checksum = merges[side] ? qkv_bpe_checksum(merges[side]) : 0;
        if (checksum != prepared->header->side[side].merges_checksum)
            return qkv_error_set(error,
                                 "%s: was prepared with other %s merges than those of the run: prepare it "
                                 "with `qkv prepare --from RUN`",
                                 prepared->path, SIDES[side]);
    }
    return QKV_OK;
}

/* ---- sentences ---- */

/* Checks that sentences follow each other, have 1 to `longest` tokens, and end with the last token. */
static bool are_starts(const int64_t *start, int64_t count, int64_t tokens, int64_t longest)
{
    bool good = start[0] == 0 && start[count] == tokens;
    for (int64_t i = 0; i < count && good; i++)
        good = start[i + 1] > start[i] && start[i + 1] - start[i] <= longest;
    return good;
}

static bool are_ids(const int32_t *ids, int64_t count, int64_t size)
{
    uint32_t max = 0; /* a negative id is a large one */
    for (int64_t i = 0; i < count; i++) max = (uint32_t)ids[i] > max ? (uint32_t)ids[i] : max;
    return (int64_t)max < size;
}

static enum qkv_status check_sentences(const struct qkv_corpus *corpus, const struct qkv_data_config *data,
                                       struct qkv_error *error)
{
    const struct qkv_prepared *prepared = corpus->prepared;
    const struct qkv_prepared_header *header = prepared->header;
    const struct qkv_corpus_side *sides[2] = {&corpus->source, &corpus->target};
    const int64_t longest[2] = {data->src.max_length, data->trg.max_length};
    posix_madvise(prepared->bytes, prepared->size, POSIX_MADV_SEQUENTIAL);
    for (int i = QKV_PREPARED_LINES; i < QKV_PREPARED_SECTIONS; i++)
        if (check_section(prepared, i, error)) return QKV_INVALID;
    for (int i = 0; i < 2; i++) {
        int64_t tokens = header->side[i].tokens;
        if (sides[i]->longest > longest[i] ||
            !are_starts(sides[i]->start, corpus->count, tokens, sides[i]->longest) ||
            !are_ids(sides[i]->ids, tokens, header->side[i].vocabulary_size))
            return qkv_error_set(error, "%s: is damaged: its %s sentences are invalid", prepared->path,
                                 SIDES[i]);
    }
    posix_madvise(prepared->bytes, prepared->size, POSIX_MADV_RANDOM);
    return QKV_OK;
}

static void point_into_file(struct qkv_corpus *corpus)
{
    const struct qkv_prepared *prepared = corpus->prepared;
    const struct qkv_prepared_header *header = prepared->header;
    struct qkv_corpus_side *sides[2] = {&corpus->source, &corpus->target};
    corpus->count = header->count;
    corpus->read = header->read;
    corpus->long_sources = header->long_sources;
    corpus->long_targets = header->long_targets;
    corpus->line = (void *)(prepared->bytes + header->section[QKV_PREPARED_LINES].offset);
    for (int i = 0; i < 2; i++) {
        sides[i]->start = (void *)(prepared->bytes + header->section[QKV_PREPARED_STARTS + i].offset);
        sides[i]->ids = (void *)(prepared->bytes + header->section[QKV_PREPARED_IDS + i].offset);
        sides[i]->longest = header->side[i].longest;
        sides[i]->unknown = header->side[i].unknown;
    }
}

enum qkv_status qkv_prepared_open(struct qkv_corpus *corpus, const char *path,
                                  const struct qkv_data_config *data, struct qkv_corpus_options options,
                                  struct qkv_error *error)
{
    if (options.keep_words)
        return qkv_error_set(error,
                             "%s: a prepared corpus does not say which words its tokens are part of, which "
                             "training.guided_alignment needs: set data.train to the text",
                             path);
    if (!options.drop_long || options.keep_raw || options.types_only) return qkv_prepared_refuse(path, error);
    corpus->prepared = open_file(path, error);
    if (!corpus->prepared || check_settings(corpus->prepared, data, error) ||
        check_merges(corpus->prepared, data, error))
        return QKV_INVALID;
    point_into_file(corpus);
    return check_sentences(corpus, data, error);
}

enum qkv_status qkv_prepared_vocabularies(const struct qkv_corpus *corpus, struct qkv_vocabulary *source,
                                          struct qkv_vocabulary *target, struct qkv_error *error)
{
    const struct qkv_prepared *prepared = corpus->prepared;
    if (qkv_vocabulary_read(source, part_of(prepared, QKV_PREPARED_VOCABULARY), error)) return QKV_INVALID;
    if (!qkv_vocabulary_read(target, part_of(prepared, QKV_PREPARED_VOCABULARY + 1), error)) return QKV_OK;
    qkv_vocabulary_release(source);
    return QKV_INVALID;
}

enum qkv_status qkv_prepared_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                    const struct qkv_vocabulary *target, struct qkv_error *error)
{
    const struct qkv_prepared *prepared = corpus->prepared;
    const struct qkv_vocabulary *vocabularies[2] = {source, target};
    for (int side = 0; side < 2; side++) {
        /* The section has the bytes of a vocabulary file, and the checksum of a vocabulary is that of its file. */
        uint64_t checksum = prepared->header->section[QKV_PREPARED_VOCABULARY + side].checksum;
        if (vocabularies[side]->size != prepared->header->side[side].vocabulary_size ||
            qkv_vocabulary_checksum(vocabularies[side]) != checksum)
            return qkv_error_set(
                error,
                "%s: was prepared with another %s vocabulary (%lld tokens) than that of the run "
                "(%d tokens): prepare it with `qkv prepare --from RUN`",
                prepared->path, SIDES[side], (long long)prepared->header->side[side].vocabulary_size,
                vocabularies[side]->size);
    }
    corpus->encoded = true;
    corpus->checksum = (uint32_t)prepared->header->corpus_checksum;
    return QKV_OK;
}

void qkv_prepared_close(struct qkv_corpus *corpus)
{
    unmap(corpus->prepared);
    *corpus = (struct qkv_corpus){0};
}
