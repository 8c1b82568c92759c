/* NumPy arrays: one per map or step, and the tokens, in a zip file of .npy arrays without compression. */
#include "core/memory.h"
#include "report/explanation.h"

#include <stdarg.h>
#include <zlib.h>

/* ---- the archive ---- */

/* An archive under construction: members are in `out`, and the directory will follow them. All times are
 * 1980-01-01, so that equal arrays give equal bytes. */
struct archive {
    struct bytes *out, directory;
    int members;
};

/* Appends numbers (unsigned), lowest byte first; sizes: the bytes of each, one digit a number. */
static void append_fields(struct bytes *bytes, const char *sizes, ...)
{
    va_list numbers;
    va_start(numbers, sizes);
    for (; *sizes; sizes++) qkv_bytes_little_endian(bytes, va_arg(numbers, unsigned), *sizes - '0');
    va_end(numbers);
}

/* Appends what the header of a member and its entry in the directory have in common. */
static void append_entry(struct bytes *bytes, const char *name, const struct bytes *content)
{
    unsigned checksum = (unsigned)crc32(0, (const unsigned char *)content->data, (uInt)content->size),
             size = (unsigned)content->size;
    /* Version 2.0 to extract; names are UTF-8; stored; 00:00:00, 1980-01-01. The sizes are with and without compression; no
     * extra field. */
    append_fields(bytes, "22222", 20, 0x0800, 0, 0, 1 << 5 | 1);
    append_fields(bytes, "44422", checksum, size, size, (unsigned)strlen(name), 0);
}

/* Appends a member, and frees its content. */
static void append_member(struct archive *archive, const char *name, struct bytes *content)
{
    unsigned offset = (unsigned)archive->out->size;
    if (content->failed) archive->out->failed = true;
    append_fields(archive->out, "4", 0x04034B50);
    append_entry(archive->out, name, content);
    qkv_bytes_text(archive->out, name);
    qkv_bytes_append(archive->out, content->data, content->size);

    append_fields(&archive->directory, "42", 0x02014B50, 20); /* made by version 2.0 */
    append_entry(&archive->directory, name, content);
    append_fields(&archive->directory, "22244", 0, 0, 0, 0, offset); /* no comment, disk and attributes */
    qkv_bytes_text(&archive->directory, name);
    archive->members++;
    free(content->data);
}

/* Appends the header of .npy 1.0: magic, version, length, and a Python dict that is padded with spaces and a
 * line end so that the data starts at a multiple of 64. */
static void append_header(struct bytes *content, const char *type, const char *shape)
{
    enum { PREFIX = 10 };
    qkv_bytes_append(content, "\x93NUMPY\x01\x00", 8);
    char dictionary[192];
    int length = snprintf(dictionary, sizeof dictionary,
                          "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    int padded = (PREFIX + length + 1 + 63) / 64 * 64;
    qkv_bytes_little_endian(content, (uint64_t)(padded - PREFIX), 2);
    qkv_bytes_format(content, "%-*s\n", padded - PREFIX - 1, dictionary);
}

/* Appends an array of float64: [rows, columns], or [heads, rows, columns] unless `heads` is 0. The name must end with ".npy". */
static void append_numbers(struct archive *archive, const char *name, int64_t heads, int64_t rows,
                           int64_t columns, const double *values)
{
    struct bytes content = {0};
    char shape[96], first[32] = "";
    if (heads) snprintf(first, sizeof first, "%lld, ", (long long)heads);
    snprintf(shape, sizeof shape, "(%s%lld, %lld)", first, (long long)rows, (long long)columns);
    append_header(&content, "<f8", shape);
    for (int64_t i = 0; i < (heads ? heads : 1) * rows * columns; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        qkv_bytes_little_endian(&content, bits, 8);
    }
    append_member(archive, name, &content);
}

/* Appends an array of Unicode strings: UTF-32 of fixed width, padded with zeros. */
static void append_tokens(struct archive *archive, const char *name, const char *const *tokens, int64_t count)
{
    struct bytes content = {0};
    char type[32], shape[32];
    int longest = 1;
    for (int64_t i = 0; i < count; i++) {
        int length = 0;
        for (const char *rest = tokens[i]; qkv_utf8_next(&rest);) length++;
        if (length > longest) longest = length;
    }
    snprintf(type, sizeof type, "<U%d", longest);
    snprintf(shape, sizeof shape, "(%lld,)", (long long)count);
    append_header(&content, type, shape);
    for (int64_t i = 0; i < count; i++) {
        const char *rest = tokens[i];
        for (int at = 0; at < longest; at++) qkv_bytes_little_endian(&content, qkv_utf8_next(&rest), 4);
    }
    append_member(archive, name, &content);
}

/* Appends the directory and frees it. Fails if there are more arrays or bytes than the format can hold. */
static enum qkv_status finish(struct archive *archive, struct qkv_error *error)
{
    unsigned offset = (unsigned)archive->out->size, size = (unsigned)archive->directory.size;
    qkv_bytes_append(archive->out, archive->directory.data, archive->directory.size);
    /* The second number: disks; the last: no comment. */
    append_fields(archive->out, "4422442", 0x06054B50, 0, archive->members, archive->members, size, offset,
                  0);
    if (archive->directory.failed) archive->out->failed = true;
    free(archive->directory.data);
    if (archive->members <= UINT16_MAX && archive->out->size <= UINT32_MAX) return QKV_OK;
    return qkv_error_set(error, "%d arrays of %zu bytes are too many for one npz: choose some of them",
                         archive->members, archive->out->size);
}

/* ---- its content ---- */

static enum qkv_status write_maps(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    const char *const value = qkv_report_value_name(report);
    struct archive archive = {.out = out};
    append_tokens(&archive, "source.npy", report->source, report->source_length);
    append_tokens(&archive, "target_input.npy", report->target_input, report->target_length);
    append_tokens(&archive, "target_output.npy", report->target_output, report->target_length);
    append_tokens(&archive, "value.npy", &value, 1);
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        char name[64];
        qkv_attention_map_name(map, name, sizeof name - 4);
        strcat(name, ".npy");
        append_numbers(&archive, name, 0, map->rows, map->columns, map->weights);
    }
    return finish(&archive, error);
}

static void append_step(const struct format_job *job, int index, const struct qkv_step *step,
                        struct archive *archive)
{
    const struct qkv_explanation *explanation = &job->explanations[index];
    int64_t heads = qkv_step_has_heads(explanation, step) ? step->heads : 0;
    bool tokens = step->column_names && step->content == QKV_STEP_TOKENS;
    bool has_label = job->count > 1 && explanation->label && *explanation->label && !tokens;
    const char *name = qkv_arena_format(job->arena, "%s%s%s.npy", has_label ? explanation->label : "",
                                        has_label ? "." : "", step->name);
    if (!name)
        archive->out->failed = true;
    else if (!tokens)
        append_numbers(archive, name, heads, step->rows, step->columns, step->values);
    else if (index == 0) /* all explanations have the same tokens */
        append_tokens(archive, name, step->column_names, step->columns);
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    struct archive archive = {.out = out};
    for (int index = 0; index < job->count; index++)
        for (int64_t i = 0; i < job->explanations[index].step_count; i++)
            append_step(job, index, &job->explanations[index].steps[i], &archive);
    return finish(&archive, error);
}

const struct qkv_format_writer qkv_writer_npz = {
    .format = {"npz", "npz", "arrays of NumPy: numpy.load(file)['cross.1.2']", QKV_FORMAT_DATA,
               .binary = true},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
