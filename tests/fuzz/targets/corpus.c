/* Fuzz target: parallel text, as one .tsv, as two files, as .gz of one or several members, and as the bytes of a .gz. */
#include "data/corpus.h"
#include "harness.h"

enum { DROP_LONG = 1, CHARACTERS = 2, SPLIT = 4, TWO_FILES = 8, COMPRESS = 16, RAW_GZIP = 32 };

/* Writes each part of an input as one member of a .gz. */
static const char *write_gzip(const char *name, struct input input)
{
    const char *path = write_file(name, "", 0);
    for (struct input part; take_part(&input, PART_END, &part);) {
        gzFile file = gzopen(path, "ab1");
        REQUIRE(file && gzwrite(file, part.data, (unsigned)part.size) == (int)part.size && !gzclose(file));
    }
    return path;
}

static const char *write_input(struct input input, unsigned switches)
{
    struct input source = {0};
    if (switches & RAW_GZIP) return write_file("pairs.tsv.gz", input.data, input.size);
    if (switches & COMPRESS) return write_gzip("pairs.tsv.gz", input);
    if (!(switches & TWO_FILES)) return write_file("pairs.tsv", input.data, input.size);
    take_part(&input, PART_END, &source);
    write_file("pairs.en", source.data, source.size);
    write_file("pairs.es", input.data, input.size);
    return path_of("pairs");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    unsigned switches = take_switches(&input);
    const struct qkv_text_config text = {.lang = "en",
                                         .level = switches & CHARACTERS ? QKV_LEVEL_CHAR : QKV_LEVEL_WORD,
                                         .lowercase = switches & SPLIT,
                                         .split_punctuation = switches & SPLIT,
                                         .max_length = 8,
                                         .voc_min_freq = 1};
    struct qkv_data_config texts = {.src = text, .trg = text, .joint_vocabulary = switches & DROP_LONG};
    struct qkv_corpus corpus RELEASED(qkv_corpus_release) = {0};
    struct qkv_vocabulary source RELEASED(qkv_vocabulary_release) = {0},
                                 target RELEASED(qkv_vocabulary_release) = {0};
    struct qkv_error error = {""};
    texts.trg.lang = "es";
    struct qkv_corpus_options options = {.drop_long = switches & DROP_LONG, .keep_raw = true};
    if (qkv_corpus_read(&corpus, write_input(input, switches), &texts, options, &error)) {
        require_message(&error);
    } else {
        REQUIRE(!qkv_corpus_vocabularies(&corpus, &texts, &source, &target, &error));
        REQUIRE(!qkv_corpus_encode(&corpus, &source, &target, &error));
        REQUIRE(corpus.count > 0 && corpus.count <= corpus.read);
        for (int64_t i = 0; i < corpus.count; i++)
            REQUIRE(*qkv_corpus_source(&corpus, i) && *qkv_corpus_target(&corpus, i));
        qkv_corpus_checksum(&corpus);
    }
    return 0;
}
