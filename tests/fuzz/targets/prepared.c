/* Fuzz target: a prepared corpus, x.prepared. The input changes a good one, whose checksums are then made right, or is the
 * whole file. */
#include "framework/translator/data/prepared.h"
#include "harness.h"

enum { BPE = 1, JOINT = 2, WRONG_CHECKSUMS = 4, WHOLE_FILE = 8, BY_TOKENS = 16 };

static struct qkv_data_config data_of(unsigned switches)
{
    struct qkv_text_config text = {
        .lang = "en", .level = QKV_LEVEL_WORD, .bpe_codes = "", .max_length = 6, .voc_min_freq = 1};
    if (switches & BPE) text.level = QKV_LEVEL_BPE, text.num_merges = 2, text.bpe_min_freq = 2;
    struct qkv_data_config data = {.src = text, .trg = text, .joint_vocabulary = switches & JOINT};
    data.trg.lang = "es";
    return data;
}

/* A file that qkv writes, with as many bytes behind it as an input may add. */
struct good_file {
    uint8_t *bytes;
    size_t size;
};

/* Prepares a text at the first call with these switches. */
static struct good_file good_file(unsigned switches)
{
    static const char pairs[] =
        "ab ab abc\tAB AB ABC\nabc c\tABC C\nab\tAB\nb c ab\tB C AB\nc\tC\nabc b\tABC B\n"
        "a b c d e f g\tA\nab abc\tAB ABC\n";
    static struct good_file files[4];
    struct good_file *file = &files[switches & (BPE | JOINT)];
    if (file->bytes) return *file;
    const struct qkv_data_config data = data_of(switches);
    struct qkv_prepared_header header;
    struct qkv_error error;
    const char *path = path_of("good.prepared");
    REQUIRE(!qkv_corpus_prepare(path, write_file("pairs.tsv", pairs, sizeof pairs - 1), &data, NULL, &header,
                                &error));
    file->bytes = (uint8_t *)read_whole(path, &file->size);
    return *file;
}

/* Makes the checksums right of the header and of all sections that lie in the file. */
static void correct(uint8_t *bytes, size_t size)
{
    struct qkv_prepared_header header;
    if (size < sizeof header) return;
    memcpy(&header, bytes, sizeof header);
    for (int i = 0; i < QKV_PREPARED_SECTIONS; i++) {
        struct qkv_prepared_section *section = &header.section[i];
        if (section->offset <= size && section->size <= size - section->offset)
            section->checksum = crc32_z(0, bytes + section->offset, section->size);
    }
    header.checksum = qkv_prepared_checksum(&header);
    memcpy(bytes, &header, sizeof header);
}

/* Applies one change: `PLACE BYTES` puts the bytes at this place, `-COUNT` cuts bytes off the end, and other bytes are added
 * there. `bytes` has room for them. */
static void change(uint8_t *bytes, size_t *size, struct input input)
{
    size_t place = 0, at = 0;
    bool cuts = input.size && *input.data == '-';
    for (at = cuts; at < input.size && input.data[at] >= '0' && input.data[at] <= '9' && place < 1 << 20;
         at++)
        place = place * 10 + (size_t)(input.data[at] - '0');
    if (cuts) {
        *size -= place < *size ? place : *size;
        return;
    }
    if (!at || place > *size) place = *size;
    if (at && at < input.size) at++; /* the space */
    if (at < input.size) memcpy(bytes + place, input.data + at, input.size - at);
    if (place + input.size - at > *size) *size = place + input.size - at;
}

static const char *write_input(struct input input, unsigned switches)
{
    if (switches & WHOLE_FILE) return write_file("x.prepared", input.data, input.size);
    struct good_file good = good_file(switches);
    size_t size = good.size;
    uint8_t *bytes RELEASED(free_memory) = malloc(size + input.size + 1);
    REQUIRE(bytes);
    memcpy(bytes, good.bytes, size);
    for (struct input part; take_part(&input, PART_END, &part);) change(bytes, &size, part);
    if (!(switches & WRONG_CHECKSUMS)) correct(bytes, size);
    return write_file("x.prepared", bytes, size);
}

/* All that training reads is inside the file and possible. */
static void check_side(const struct qkv_corpus_side *side, int64_t count, int64_t longest,
                       const struct qkv_vocabulary *vocabulary)
{
    REQUIRE(side->start[0] == 0 && side->longest <= longest);
    REQUIRE(side->unknown >= 0 && side->unknown <= side->start[count]);
    for (int64_t i = 0; i < count; i++) {
        int64_t length = side->start[i + 1] - side->start[i];
        REQUIRE(length > 0 && length <= side->longest);
        for (int64_t k = side->start[i]; k < side->start[i + 1]; k++)
            REQUIRE(side->ids[k] >= 0 && side->ids[k] < vocabulary->size);
    }
}

static void read_batches(const struct qkv_corpus *corpus, unsigned switches)
{
    const struct qkv_batches_options options = {switches & BY_TOKENS ? QKV_BATCH_TOKEN : QKV_BATCH_SENTENCE,
                                                3, QKV_BATCH_ORDER_SHUFFLED, 1};
    struct qkv_batches batches RELEASED(qkv_batches_release);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_error error;
    int64_t sentences = 0;
    REQUIRE(!qkv_batches_init(&batches, corpus, options, &error));
    for (int64_t i = 0; i < batches.count; i++) {
        REQUIRE(!qkv_batches_get(&batches, i, &batch, &error));
        sentences += batch.count;
    }
    REQUIRE(sentences == corpus->count);
}

static enum qkv_status read_corpus(struct qkv_corpus *corpus, struct qkv_vocabulary vocabulary[2],
                                   const char *path, const struct qkv_data_config *data,
                                   struct qkv_error *error)
{
    const struct qkv_corpus_options options = {.drop_long = true};
    if (qkv_corpus_read(corpus, path, data, options, error) ||
        qkv_corpus_vocabularies(corpus, data, &vocabulary[0], &vocabulary[1], error))
        return QKV_INVALID;
    return qkv_corpus_encode(corpus, &vocabulary[0], &vocabulary[1], error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    unsigned switches = take_switches(&input);
    struct qkv_data_config config = data_of(switches);
    struct qkv_corpus corpus RELEASED(qkv_corpus_release) = {0};
    struct qkv_vocabulary vocabulary[2] = {0};
    struct qkv_bpe *bpe[2];
    struct qkv_error error = {""};
    const char *path = write_input(input, switches);
    if (qkv_corpus_merges(path, &config, bpe, (struct qkv_corpus_options){0}, &error) ||
        read_corpus(&corpus, vocabulary, path, &config, &error)) {
        require_message(&error);
    } else {
        REQUIRE(corpus.count > 0 && corpus.count <= corpus.read);
        check_side(&corpus.source, corpus.count, config.src.max_length, &vocabulary[0]);
        check_side(&corpus.target, corpus.count, config.trg.max_length, &vocabulary[1]);
        read_batches(&corpus, switches);
    }
    for (int side = 0; side < 2; side++) {
        qkv_vocabulary_release(&vocabulary[side]);
        qkv_bpe_free(bpe[side]);
    }
    return 0;
}
