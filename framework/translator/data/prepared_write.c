/* Writes prepared corpora in two passes over the text: one counts its types and tokens, one writes their ids. */
#include "core/file.h"
#include "core/grow.h"
#include "data/bpe.h"
#include "data/file_parts.h"
#include "data/ids_checksum.h"
#include "data/parallel_text.h"
#include "data/prepared.h"
#include "qkv/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* A section that is written while the text is read: a stream that is positioned at the offset of the section. */
struct section_stream {
    FILE *file;
    uLong checksum;
};

struct writing {
    const char *path; /* of the prepared corpus */
    const struct qkv_data_config *data;
    struct qkv_corpus counted; /* by the first pass; types only */
    const struct qkv_vocabulary *vocabulary[2];
    struct qkv_vocabulary built[2]; /* from the text, if the caller gives none */
    struct qkv_prepared_header header;
    struct qkv_file_writer writer;
    struct section_stream stream[QKV_PREPARED_SECTIONS]; /* from QKV_PREPARED_LINES on */
    int64_t tokens[2];                                   /* written by the second pass */
    uLong checksum[2];                                   /* qkv_ids_checksum of each side */
    int32_t *ids;                                        /* of the current sentence */
    int64_t ids_capacity;
};

static enum qkv_status cannot_write(const struct writing *writing, int code, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: cannot be written: %s", writing->path, strerror(code ? code : EIO));
}

static enum qkv_status no_memory(const struct writing *writing, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: out of memory", writing->path);
}

static enum qkv_status write_at(struct writing *writing, uint64_t offset, const void *bytes, size_t size,
                                struct qkv_error *error)
{
    FILE *file = writing->writer.file;
    if (!fseeko(file, (off_t)offset, SEEK_SET) && fwrite(bytes, 1, size, file) == size) return QKV_OK;
    return cannot_write(writing, errno, error);
}

/* ---- texts ---- */

/* Writes the text of a section. False when there is no memory. */
static bool write_text(const struct writing *writing, int section, FILE *file)
{
    const struct qkv_bpe *merges[2] = {writing->data->src.bpe, writing->data->trg.bpe};
    if (section == QKV_PREPARED_SETTINGS) {
        char *settings = qkv_prepared_settings(writing->data);
        bool written = settings && fputs(settings, file) >= 0;
        free(settings);
        return written;
    }
    int side = (section - QKV_PREPARED_VOCABULARY) % 2;
    if (section < QKV_PREPARED_MERGES)
        qkv_vocabulary_write(writing->vocabulary[side], file);
    else if (merges[side] && section < QKV_PREPARED_PIECES)
        qkv_bpe_write(merges[side], file);
    else if (merges[side])
        qkv_bpe_write_pieces(merges[side], file);
    return true;
}

/* Writes the next section of text at the end of the file so far. */
static enum qkv_status add_text(struct writing *writing, int number, struct qkv_error *error)
{
    struct qkv_prepared_section *section = &writing->header.section[number];
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    bool complete = stream && write_text(writing, number, stream) && !ferror(stream);
    complete = stream && !fclose(stream) && complete &&
               text; /* NULL: out of memory in fclose, which does not report it */
    enum qkv_status status = complete ? QKV_OK : no_memory(writing, error);
    if (complete) {
        section->size = size;
        section->checksum = crc32_z(0, (const Bytef *)text, size);
        status = write_at(writing, section->offset, text, size, error);
    }
    free(text);
    return status;
}

/* ---- arrays ---- */

/* Allocates the disk space of the complete file, so that a full disk is noticed before the second pass. */
static enum qkv_status reserve_disk(struct writing *writing, uint64_t size, struct qkv_error *error)
{
    int descriptor = fileno(writing->writer.file);
    int code = posix_fallocate(descriptor, 0, (off_t)size);
    if (code == EOPNOTSUPP || code == EINVAL) code = ftruncate(descriptor, (off_t)size) ? errno : 0;
    return code ? cannot_write(writing, code, error) : QKV_OK;
}

/* Sets where the arrays are, and opens a stream for each. */
static enum qkv_status begin_arrays(struct writing *writing, struct qkv_error *error)
{
    struct qkv_prepared_header *header = &writing->header;
    uint64_t count = (uint64_t)header->count, end = header->section[QKV_PREPARED_LINES].offset;
    for (int i = QKV_PREPARED_LINES; i < QKV_PREPARED_SECTIONS; i++) {
        uint64_t size = i >= QKV_PREPARED_IDS
                            ? (uint64_t)header->side[i - QKV_PREPARED_IDS].tokens * sizeof(int32_t)
                            : (count + (i >= QKV_PREPARED_STARTS)) * sizeof(int64_t);
        header->section[i] = (struct qkv_prepared_section){.offset = end, .size = size};
        end = qkv_prepared_padded(end + size);
    }
    if (reserve_disk(writing, end, error)) return QKV_INVALID;
    for (int i = QKV_PREPARED_LINES; i < QKV_PREPARED_SECTIONS; i++) {
        FILE *file = writing->stream[i].file = fopen(writing->writer.temporary, "r+b");
        if (!file || fseeko(file, (off_t)header->section[i].offset, SEEK_SET))
            return cannot_write(writing, errno, error);
    }
    return QKV_OK;
}

static bool add(struct writing *writing, int section, const void *bytes, size_t size)
{
    struct section_stream *stream = &writing->stream[section];
    stream->checksum = crc32_z(stream->checksum, bytes, size);
    return fwrite(bytes, 1, size, stream->file) == size;
}

static enum qkv_status has_changed(const char *text_path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: the text has changed while it was read", text_path);
}

static enum qkv_status add_sentence(struct writing *writing, int side, const struct qkv_tokens *tokens,
                                    const char *text_path, struct qkv_error *error)
{
    if (!QKV_RESERVE(writing->ids, writing->ids_capacity, tokens->count)) return no_memory(writing, error);
    for (int64_t i = 0; i < tokens->count; i++) {
        writing->ids[i] = qkv_vocabulary_id(writing->vocabulary[side], tokens->token[i]);
        writing->header.side[side].unknown += writing->ids[i] == QKV_UNKNOWN;
    }
    writing->checksum[side] = qkv_ids_checksum(writing->checksum[side], writing->ids, tokens->count);
    int64_t end = writing->tokens[side] += tokens->count;
    if (end <= writing->header.side[side].tokens &&
        add(writing, QKV_PREPARED_IDS + side, writing->ids, (size_t)tokens->count * sizeof *writing->ids) &&
        add(writing, QKV_PREPARED_STARTS + side, &end, sizeof end))
        return QKV_OK;
    return end > writing->header.side[side].tokens ? has_changed(text_path, error)
                                                   : cannot_write(writing, errno, error);
}

static enum qkv_status add_pair(struct qkv_parallel_text *text, struct qkv_error *error)
{
    struct writing *writing = text->context;
    if (text->kept > writing->header.count) return has_changed(text->path, error);
    if (!add(writing, QKV_PREPARED_LINES, &text->line, sizeof text->line))
        return cannot_write(writing, errno, error);
    if (add_sentence(writing, 0, &text->source.tokens, text->path, error)) return QKV_INVALID;
    return add_sentence(writing, 1, &text->target.tokens, text->path, error);
}

/* The second pass. */
static enum qkv_status add_pairs(struct writing *writing, const char *path, struct qkv_error *error)
{
    const struct qkv_data_config *data = writing->data;
    const struct qkv_prepared_header *header = &writing->header;
    const int64_t first = 0;
    struct qkv_parallel_text text = {
        .path = path,
        .options = {.drop_long = true},
        .source = {.text = &data->src},
        .target = {.text = &data->trg},
        .add = add_pair,
        .context = writing,
    };
    for (int side = 0; side < 2; side++) add(writing, QKV_PREPARED_STARTS + side, &first, sizeof first);
    enum qkv_status status = qkv_parallel_text_read(&text, error);
    bool same = text.read == header->read && text.kept == header->count &&
                writing->tokens[0] == header->side[0].tokens && writing->tokens[1] == header->side[1].tokens;
    if (!status && !same) status = has_changed(path, error);
    qkv_parallel_text_release(&text);
    return status;
}

/* ---- the file ---- */

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
static enum qkv_status count_text(struct writing *writing, const char *path, struct qkv_error *error)
{
    const struct qkv_data_config *data = writing->data;
    const struct qkv_bpe *merges[2] = {data->src.bpe, data->trg.bpe};
    const struct qkv_corpus_options options = {.drop_long = true, .types_only = true, .key = "data.train"};
    struct qkv_corpus *counted = &writing->counted;
    if (qkv_corpus_read(counted, path, data, options, error)) return QKV_INVALID;
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

/* Closes the streams of the arrays; false when a write failed. */
static bool end_arrays(struct writing *writing)
{
    bool good = true;
    for (int i = QKV_PREPARED_LINES; i < QKV_PREPARED_SECTIONS; i++) {
        struct section_stream *stream = &writing->stream[i];
        if (!stream->file) continue;
        good = !ferror(stream->file) && good;
        good = !fclose(stream->file) && good;
        stream->file = NULL;
        writing->header.section[i].checksum = stream->checksum;
    }
    return good;
}

static enum qkv_status write_sections(struct writing *writing, const char *path, struct qkv_error *error)
{
    struct qkv_prepared_header *header = &writing->header;
    header->section[0].offset = sizeof *header;
    for (int i = 0; i < QKV_PREPARED_LINES; i++) {
        if (add_text(writing, i, error)) return QKV_INVALID;
        header->section[i + 1].offset =
            qkv_prepared_padded(header->section[i].offset + header->section[i].size);
    }
    if (begin_arrays(writing, error) || add_pairs(writing, path, error)) return QKV_INVALID;
    errno = 0;
    if (!end_arrays(writing)) return cannot_write(writing, errno, error);
    z_off_t target_size = (z_off_t)((writing->tokens[1] + header->count) * (int64_t)sizeof(int32_t));
    header->corpus_checksum = crc32_combine(writing->checksum[0], writing->checksum[1], target_size);
    header->checksum = qkv_prepared_checksum(header);
    return write_at(writing, 0, header, sizeof *header, error);
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
static enum qkv_status write_file(struct writing *writing, const char *path, struct qkv_error *error)
{
    if (count_text(writing, path, error) || qkv_file_begin(&writing->writer, writing->path, error))
        return QKV_INVALID;
    enum qkv_status status = write_sections(writing, path, error);
    end_arrays(writing);
    if (!status) return qkv_file_commit(&writing->writer, error);
    qkv_file_abandon(&writing->writer);
    return QKV_INVALID;
}

enum qkv_status qkv_corpus_prepare(const char *file, const char *path, const struct qkv_data_config *data,
                                   const struct qkv_vocabulary *const vocabularies[2],
                                   struct qkv_prepared_counts *counts, struct qkv_error *error)
{
    struct qkv_data_config with_merges = *data;
    struct qkv_bpe *bpe[2] = {NULL, NULL};
    const struct qkv_corpus_options options = {.key = "data.train"};
    struct writing writing = {.path = file, .data = vocabularies ? data : &with_merges};
    const struct qkv_prepared_header *header = &writing.header;
    const struct qkv_prepared_section *last = &header->section[QKV_PREPARED_SECTIONS - 1];
    enum qkv_status status = check_arguments(file, path, data, error);
    for (int side = 0; side < 2; side++) writing.vocabulary[side] = vocabularies ? vocabularies[side] : NULL;
    if (!status && !vocabularies) status = qkv_corpus_merges(path, &with_merges, bpe, options, error);
    if (!status) status = write_file(&writing, path, error);
    *counts = (struct qkv_prepared_counts){.read = header->read,
                                           .count = header->count,
                                           .long_sources = header->long_sources,
                                           .long_targets = header->long_targets,
                                           .bytes = (int64_t)qkv_prepared_padded(last->offset + last->size)};
    for (int side = 0; side < 2; side++) {
        counts->tokens[side] = header->side[side].tokens;
        counts->unknown[side] = header->side[side].unknown;
        counts->vocabulary_size[side] = header->side[side].vocabulary_size;
        qkv_vocabulary_release(&writing.built[side]);
        qkv_bpe_free(bpe[side]);
    }
    qkv_corpus_release(&writing.counted);
    free(writing.ids);
    return status;
}
