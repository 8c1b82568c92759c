/* What is made from a training text before training: merges, and a prepared corpus. */
#include "core/file.h"
#include "core/memory.h"
#include "data/bpe.h"
#include "data/corpus.h"
#include "data/prepared.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <zlib.h>

/* ---- merges: learned from the text, or read from codes files ---- */

static bool learns(const struct qkv_text_config *text)
{
    return text->level == QKV_LEVEL_BPE && !*text->bpe_codes;
}

/* Merges are those of words without joiners. */
static void set_level_word(struct qkv_text_config *text)
{
    if (text->level == QKV_LEVEL_BPE) text->level = QKV_LEVEL_WORD;
    text->plain_marks = true;
}

/* Refuses a text that can be read only once. */
static enum qkv_status check_is_file(const char *path, struct qkv_error *error)
{
    if (strcmp(path, "-") != 0 && !qkv_is_open_file(path)) return QKV_OK;
    return qkv_error_set(error,
                         "%s: level bpe reads the training text twice, once to learn merges: give a file, or "
                         "merges in data.src.bpe_codes and data.trg.bpe_codes, without bpe_min_freq",
                         path);
}

/* Counts the words of a text. The caller releases the corpus. */
static enum qkv_status count_words(struct qkv_corpus *corpus, const char *path,
                                   const struct qkv_data_config *data, struct qkv_corpus_options options,
                                   struct qkv_error *error)
{
    struct qkv_data_config words = *data;
    set_level_word(&words.src);
    set_level_word(&words.trg);
    options.types_only = true;
    if (check_is_file(path, error)) return QKV_INVALID;
    return qkv_corpus_read(corpus, path, &words, options, error);
}

/* Learns the merges of one side; of both sides together when `other` is not NULL. */
static enum qkv_status learn(struct qkv_bpe **bpe, const struct qkv_types *words,
                             const struct qkv_types *other, int64_t merges, const char *key,
                             struct qkv_error *error)
{
    struct qkv_error inner = {""};
    const struct qkv_types *const texts[2] = {words, other};
    *bpe = qkv_bpe_learn(other ? 2 : 1, texts, merges, &inner);
    return *bpe ? QKV_OK : qkv_error_set(error, "%s: %s", key, inner.message);
}

/* Cuts the text with all merges, then keeps on each side only the pieces that occur at least bpe_min_freq times. */
static enum qkv_status keep_frequent(const char *path, const struct qkv_data_config *data,
                                     struct qkv_bpe *bpe[2], struct qkv_corpus_options options,
                                     struct qkv_error *error)
{
    static const char *const keys[2] = {"data.src.bpe_min_freq", "data.trg.bpe_min_freq"};
    const struct qkv_text_config *texts[2] = {&data->src, &data->trg};
    struct qkv_corpus corpus = {0};
    struct qkv_error inner = {""};
    struct qkv_data_config plain = *data;
    plain.src.plain_marks = plain.trg.plain_marks = true;
    options.drop_long = options.bpe_dropout = false;
    options.types_only = true;
    enum qkv_status status = check_is_file(path, error);
    if (!status) status = qkv_corpus_read(&corpus, path, &plain, options, error);
    const struct qkv_types *pieces[2] = {&corpus.source.types, &corpus.target.types};
    for (int side = 0; side < 2 && !status; side++)
        if (bpe[side] && texts[side]->bpe_min_freq > 0 &&
            qkv_bpe_restrict(bpe[side], pieces[side], texts[side]->bpe_min_freq, &inner))
            status = qkv_error_set(error, "%s: %s", keys[side], inner.message);
    qkv_corpus_release(&corpus);
    return status;
}

enum qkv_status qkv_corpus_merges(const char *path, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                                  struct qkv_corpus_options options, struct qkv_error *error)
{
    struct qkv_text_config *texts[2] = {&data->src, &data->trg};
    static const char *const keys[2] = {"data.src.num_merges", "data.trg.num_merges"};
    struct qkv_corpus corpus = {0};
    bool learns_source = learns(texts[0]), learns_target = learns(texts[1]);
    enum qkv_status status = QKV_OK;
    bpe[0] = bpe[1] = NULL;
    if (qkv_is_prepared(path)) return qkv_prepared_merges(path, data, bpe, error);
    if (learns_source || learns_target) status = count_words(&corpus, path, data, options, error);
    const struct qkv_types *words[2] = {&corpus.source.types, &corpus.target.types};
    bool joint = data->joint_vocabulary && learns_source && learns_target;
    for (int side = 0; side < 2 && !status; side++) {
        struct qkv_text_config *text = texts[side];
        if (text->level != QKV_LEVEL_BPE) continue;
        if (!learns(text))
            bpe[side] = qkv_bpe_load(text->bpe_codes, error);
        else if (joint && side)
            bpe[1] = qkv_bpe_copy(bpe[0]);
        else
            status =
                learn(&bpe[side], words[side], joint ? words[1] : NULL, text->num_merges, keys[side], error);
        if (!status && !bpe[side]) status = learns(text) ? qkv_no_memory(error) : QKV_INVALID;
        text->bpe = bpe[side];
    }
    qkv_corpus_release(&corpus);
    bool filters = (bpe[0] && texts[0]->bpe_min_freq > 0) || (bpe[1] && texts[1]->bpe_min_freq > 0);
    if (!status && filters) status = keep_frequent(path, data, bpe, options, error);
    return status;
}

/* ---- a prepared corpus, in two passes over the text: one counts its types and tokens, one writes their ids ---- */

struct writing {
    const char *path, *text_path; /* of the prepared corpus, of the text */
    const struct qkv_data_config *data;
    struct qkv_corpus counted; /* by the first pass; types only */
    const struct qkv_vocabulary *vocabulary[2];
    struct qkv_vocabulary built[2]; /* from the text, if the caller gives none */
    struct qkv_prepared_header header;
    struct qkv_file_writer writer;
    unsigned char *bytes;                    /* of the file, which is mapped into memory */
    uint64_t written[QKV_PREPARED_SECTIONS]; /* bytes of each section */
    uLong checksum[2];                       /* qkv_ids_checksum of each side */
    int32_t *ids;                            /* of the current sentence */
    int64_t ids_capacity;
};

static enum qkv_status cannot_write(const struct writing *writing, int code, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: cannot be written: %s", writing->path, strerror(code ? code : EIO));
}

static enum qkv_status has_changed(const struct writing *writing, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: the text has changed while it was read", writing->text_path);
}

/* Builds the vocabularies that the caller does not give from the types of the text. */
static enum qkv_status build_vocabularies(struct writing *writing, struct qkv_error *error)
{
    struct qkv_vocabulary *built = writing->built;
    if (writing->vocabulary[0]) return QKV_OK;
    if (qkv_corpus_vocabularies(&writing->counted, writing->data, &built[0], &built[1], error))
        return QKV_INVALID;
    for (int side = 0; side < 2; side++) writing->vocabulary[side] = &built[side];
    return QKV_OK;
}

/* The first pass: collects types, builds vocabularies from them, and counts tokens. */
static enum qkv_status count_text(struct writing *writing, struct qkv_error *error)
{
    const struct qkv_data_config *data = writing->data;
    const struct qkv_bpe *merges[2] = {data->src.bpe, data->trg.bpe};
    const struct qkv_corpus_options options = {.drop_long = true, .types_only = true, .key = "data.train"};
    struct qkv_corpus *counted = &writing->counted;
    if (qkv_corpus_read(counted, writing->text_path, data, options, error)) return QKV_INVALID;
    if (build_vocabularies(writing, error)) return QKV_INVALID;
    const struct qkv_corpus_side *sides[2] = {&counted->source, &counted->target};
    struct qkv_prepared_header *header = &writing->header;
    *header = (struct qkv_prepared_header){.magic = QKV_PREPARED_MAGIC,
                                           .byte_order = QKV_PREPARED_BYTE_ORDER,
                                           .count = counted->count,
                                           .read = counted->read,
                                           .long_sources = counted->long_sources,
                                           .long_targets = counted->long_targets};
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < sides[side]->types.size; i++)
            header->side[side].tokens += sides[side]->types.frequency[i];
        header->side[side].longest = sides[side]->longest;
        header->side[side].vocabulary_size = writing->vocabulary[side]->size;
        header->side[side].merges_checksum = merges[side] ? qkv_bpe_checksum(merges[side]) : 0;
    }
    qkv_corpus_release(counted);
    return QKV_OK;
}

/* The text of a section, in memory that the caller frees; NULL: no memory. */
static char *text_of(const struct writing *writing, int section)
{
    const struct qkv_bpe *merges[2] = {writing->data->src.bpe, writing->data->trg.bpe};
    int side = (section - QKV_PREPARED_VOCABULARY) % 2;
    if (section == QKV_PREPARED_SETTINGS) return qkv_prepared_settings(writing->data);
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (!file) return NULL;
    if (section < QKV_PREPARED_MERGES)
        qkv_vocabulary_write(writing->vocabulary[side], file);
    else if (merges[side] && section < QKV_PREPARED_PIECES)
        qkv_bpe_write(merges[side], file);
    else if (merges[side])
        qkv_bpe_write_pieces(merges[side], file);
    bool failed = ferror(file);
    if (!fclose(file) && !failed) return text; /* NULL: out of memory in fclose, which does not report it */
    free(text);
    return NULL;
}

/* Allocates the disk space of the complete file, so that a full disk is noticed before the second pass, and maps it. */
static enum qkv_status map(struct writing *writing, uint64_t size, struct qkv_error *error)
{
    int descriptor = fileno(writing->writer.file);
    int code = posix_fallocate(descriptor, 0, (off_t)size);
    if (code) return cannot_write(writing, code, error);
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED) return cannot_write(writing, errno, error);
    writing->bytes = bytes;
    return QKV_OK;
}

/* Appends bytes to a section. */
static enum qkv_status add_part(struct writing *writing, int number, const void *bytes, size_t size,
                                struct qkv_error *error)
{
    const struct qkv_prepared_section *section = &writing->header.section[number];
    if (size > section->size - writing->written[number]) return has_changed(writing, error);
    if (size) memcpy(writing->bytes + section->offset + writing->written[number], bytes, size);
    writing->written[number] += size;
    return QKV_OK;
}

static enum qkv_status add_sentence(struct writing *writing, int side, const struct qkv_tokens *tokens,
                                    struct qkv_error *error)
{
    if (!QKV_RESERVE(writing->ids, writing->ids_capacity, tokens->count)) return qkv_no_memory(error);
    for (int64_t i = 0; i < tokens->count; i++) {
        writing->ids[i] = qkv_vocabulary_id(writing->vocabulary[side], tokens->token[i]);
        writing->header.side[side].unknown += writing->ids[i] == QKV_UNKNOWN;
    }
    writing->checksum[side] = qkv_ids_checksum(writing->checksum[side], writing->ids, tokens->count);
    size_t bytes = (size_t)tokens->count * sizeof *writing->ids;
    if (add_part(writing, QKV_PREPARED_IDS + side, writing->ids, bytes, error)) return QKV_INVALID;
    int64_t end = (int64_t)(writing->written[QKV_PREPARED_IDS + side] / sizeof *writing->ids);
    return add_part(writing, QKV_PREPARED_STARTS + side, &end, sizeof end, error);
}

/* The second pass. */
static enum qkv_status add_pairs(struct writing *writing, struct qkv_error *error)
{
    const struct qkv_data_config *data = writing->data;
    const int64_t first = 0;
    struct qkv_parallel_text text = {.path = writing->text_path,
                                     .data = data,
                                     .options = {.drop_long = true},
                                     .config = {&data->src, &data->trg}};
    bool found = true;
    enum qkv_status status = add_part(writing, QKV_PREPARED_STARTS, &first, sizeof first, error);
    if (!status) status = add_part(writing, QKV_PREPARED_STARTS + 1, &first, sizeof first, error);
    while (!status && !(status = qkv_parallel_text_next(&text, &found, error)) && found) {
        int64_t line = text.pairs.source.number;
        status = add_part(writing, QKV_PREPARED_LINES, &line, sizeof line, error);
        for (int side = 0; side < 2 && !status; side++)
            status = add_sentence(writing, side, &text.tokens[side], error);
    }
    bool same = text.read == writing->header.read;
    for (int i = 0; i < QKV_PREPARED_SECTIONS; i++)
        same = same && writing->written[i] == writing->header.section[i].size;
    qkv_parallel_text_release(&text);
    return status || same ? status : has_changed(writing, error);
}

/* Writes all sections at their places, and then the header. The counts of the header are known. */
static enum qkv_status write_sections(struct writing *writing, struct qkv_error *error)
{
    struct qkv_prepared_header *header = &writing->header;
    char *text[QKV_PREPARED_LINES] = {NULL};
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < QKV_PREPARED_LINES && !status; i++) {
        if (!(text[i] = text_of(writing, i))) status = qkv_no_memory(error);
        if (text[i]) header->section[i].size = strlen(text[i]);
    }
    const uint64_t size = qkv_prepared_lay_out(header);
    if (!status) status = map(writing, size, error);
    for (int i = 0; i < QKV_PREPARED_LINES; i++) {
        if (!status) status = add_part(writing, i, text[i], header->section[i].size, error);
        free(text[i]);
    }
    if (!status) status = add_pairs(writing, error);
    z_off_t target_size = (z_off_t)((header->side[1].tokens + header->count) * (int64_t)sizeof(int32_t));
    header->corpus_checksum = crc32_combine(writing->checksum[0], writing->checksum[1], target_size);
    for (int i = 0; i < QKV_PREPARED_SECTIONS && !status; i++)
        header->section[i].checksum =
            crc32_z(0, writing->bytes + header->section[i].offset, header->section[i].size);
    header->checksum = qkv_prepared_checksum(header);
    if (!status) memcpy(writing->bytes, header, sizeof *header);
    if (writing->bytes) munmap(writing->bytes, size);
    return status;
}

static enum qkv_status check_arguments(const char *file, const char *path, const struct qkv_data_config *data,
                                       struct qkv_error *error)
{
    if (!qkv_is_prepared(file))
        return qkv_error_set(error, "%s: the name of a prepared corpus must end in " QKV_PREPARED_SUFFIX,
                             file);
    if (qkv_is_prepared(path))
        return qkv_error_set(error, "%s: is prepared already: data.train must be the text", path);
    if (!strcmp(path, "-") || qkv_is_open_file(path))
        return qkv_error_set(error, "%s: the text is read twice: data.train must be a file", path);
    return qkv_prepared_check_dropout(file, data, error);
}

/* Runs both passes. The merges of `data` must be known. */
static enum qkv_status write_file(struct writing *writing, struct qkv_error *error)
{
    if (count_text(writing, error) || qkv_file_begin(&writing->writer, writing->path, error))
        return QKV_INVALID;
    if (!write_sections(writing, error)) return qkv_file_commit(&writing->writer, error);
    qkv_file_abandon(&writing->writer);
    return QKV_INVALID;
}

enum qkv_status qkv_corpus_prepare(const char *file, const char *path, const struct qkv_data_config *data,
                                   const struct qkv_vocabulary *const vocabularies[2],
                                   struct qkv_prepared_header *header, struct qkv_error *error)
{
    struct qkv_data_config with_merges = *data;
    struct qkv_bpe *bpe[2] = {NULL, NULL};
    const struct qkv_corpus_options options = {.key = "data.train"};
    struct writing writing = {.path = file, .text_path = path, .data = vocabularies ? data : &with_merges};
    enum qkv_status status = check_arguments(file, path, data, error);
    for (int side = 0; side < 2; side++) writing.vocabulary[side] = vocabularies ? vocabularies[side] : NULL;
    if (!status && !vocabularies) status = qkv_corpus_merges(path, &with_merges, bpe, options, error);
    if (!status) status = write_file(&writing, error);
    *header = writing.header;
    for (int side = 0; side < 2; side++) {
        qkv_vocabulary_release(&writing.built[side]);
        qkv_bpe_free(bpe[side]);
    }
    qkv_corpus_release(&writing.counted);
    free(writing.ids);
    return status;
}
