#include "framework/translator/data/lines.h"

#include "support.h"

#include <sys/stat.h>
#include <zlib.h>

/* The text of a file, each line followed by '|', or the message of the failure after the lines that were read. */
static const char *read_all(const char *path)
{
    struct qkv_lines lines = {0};
    const char *text = "";
    bool found;
    enum qkv_status status = qkv_lines_open(&lines, path, &error);
    while (!status && !(status = qkv_lines_next(&lines, &found, &error)) && found) {
        cr_assert_eq(strlen(lines.line), lines.size);
        text = format("%s%s|", text, lines.line);
    }
    if (status) text = format("%s%s", text, error.message);
    qkv_lines_close(&lines);
    return text;
}

/* Writes bytes as one member of a gzip file, which may have others. */
static void add_member(const char *path, const void *bytes, size_t size)
{
    gzFile file = gzopen(path, "ab");
    cr_assert_eq(gzwrite(file, bytes, (unsigned)size), (int)size);
    cr_assert_eq(gzclose(file), Z_OK);
}

Test(lines, reads_plain_and_gzip_text_in_the_same_way)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"\n", "|"},
        {"a", "a|"},
        {"a\nb c\n", "a|b c|"},
        {"a\r\n\r\nb\r", "a||b\r|"},
        {"\uFEFFa\n\uFEFFb\n", "a|\uFEFFb|"},
        {"\uFEFF", ""},
        {"\x1F\n", "\x1F|"},
        {"\xEF\n", "/in:1:1: byte 0xEF is not valid UTF-8"},
        {"\xFF", "/in:1:1: byte 0xFF is not valid UTF-8"},
        {"ab\nH\xF6re\n", "ab|/in:2:2: byte 0xF6 is not valid UTF-8; if the text is in Latin-1 or "
                          "Windows-1252, convert it: iconv -f WINDOWS-1252 -t UTF-8"},
        {"vas\xA0?\n", "/in:1:4: byte 0xA0 is not valid UTF-8; if the text is in Latin-1 or Windows-1252, "
                       "convert it: iconv -f WINDOWS-1252 -t UTF-8"},
        {"a\nb\xFF\n", "a|/in:2:2: byte 0xFF is not valid UTF-8"},
    };
    const char *folder = scratch("same");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *plain = write_text(folder, "in", cases[i][0]), *packed = format("%s/packed", folder);
        bool fails = strchr(cases[i][1], '/');
        const char *wanted = fails ? format("%.*s%s%s", (int)strcspn(cases[i][1], "/"), cases[i][1], folder,
                                            strchr(cases[i][1], '/'))
                                   : cases[i][1];
        cr_expect_str_eq(read_all(plain), wanted);
        unlink(packed);
        add_member(packed, cases[i][0], strlen(cases[i][0]));
        if (!fails) cr_expect_str_eq(read_all(packed), wanted);
    }
}

/* A text of ASCII and of code points below and above 0x10000 as UTF-16, without byte order mark. */
static size_t utf16_of(const uint16_t *units, size_t count, bool big_endian, unsigned char *bytes)
{
    for (size_t i = 0; i < count; i++) {
        bytes[2 * i + !big_endian] = (unsigned char)(units[i] >> 8);
        bytes[2 * i + big_endian] = (unsigned char)units[i];
    }
    return 2 * count;
}

Test(lines, converts_utf16_of_both_byte_orders)
{
    /* a, CR, LF, \u20AC, U+1F600, \u00E9 */
    static const uint16_t text[] = {0xFEFF, 'a', '\r', '\n', 0x20AC, 0xD83D, 0xDE00, 0xE9};
    const char *folder = scratch("utf16");
    unsigned char bytes[64];
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        size_t size = utf16_of(text, 8, big_endian, bytes);
        cr_expect_str_eq(read_all(write_bytes(folder, "in", bytes, size)), "a|\u20AC\U0001F600\u00E9|");
        const char *packed = format("%s/packed%d", folder, big_endian);
        add_member(packed, bytes, size);
        cr_expect_str_eq(read_all(packed), "a|\u20AC\U0001F600\u00E9|");
        const char *cut = write_bytes(folder, "cut", bytes, size - 1);
        cr_expect_str_eq(read_all(cut), format("a|%s: is not valid UTF-16 (it ends within a character), "
                                               "although it begins like it; save it as UTF-8",
                                               cut));
        cr_expect_str_eq(read_all(write_bytes(folder, "mark", bytes, 2)), "");
    }
    static const uint16_t halves[][3] = {{0xFEFF, 0xD83D, 'a'}, {0xFEFF, 0xDE00, 'a'}};
    for (int i = 0; i < 2; i++) {
        const char *half = write_bytes(folder, "half", bytes, utf16_of(halves[i], 3, false, bytes));
        cr_expect_str_eq(read_all(half), format("%s: is not valid UTF-16 (half of a pair of surrogates is "
                                                "missing), although it begins like it; save it as UTF-8",
                                                half));
    }
    /* UTF-32 begins like UTF-16. */
    const char *wide = write_bytes(folder, "wide", "\xFF\xFE\0\0a\0\0\0", 8);
    cr_expect_str_eq(read_all(wide), format("%s:1:1: a NUL byte is not allowed in text", wide));
}

Test(lines, refuses_utf16_without_byte_order_mark)
{
    /* "a dog", TAB, "ein", U+00E4; U+732B, TAB, U+72AC U+3002, LF; one letter in each line */
    static const uint16_t texts[][10] = {
        {'a', ' ', 'd', 'o', 'g', '\t', 'e', 'i', 'n', 0xE4},
        {0x732B, '\t', 0x72AC, 0x3002, '\n', 0x732B, '\t', 0x72AC, 0x3002, '\n'},
        {'a', '\n', 'b', '\n', 'c', '\n', 'd', '\n', 'e', '\n'}};
    const char *folder = scratch("unmarked");
    unsigned char bytes[64];
    for (int i = 0; i < 6; i++) {
        bool big_endian = i % 2;
        size_t size = utf16_of(texts[i / 2], 10, big_endian, bytes);
        const char *path = write_bytes(folder, "in", bytes, size), *packed = format("%s/packed%d", folder, i);
        const char *advice = "looks like UTF-16 without a byte order mark; convert it: iconv -f UTF-16";
        cr_expect_str_eq(read_all(path), format("%s: %s%s -t UTF-8", path, advice, big_endian ? "BE" : "LE"));
        add_member(packed, bytes, size);
        cr_expect_str_eq(read_all(packed),
                         format("%s: %s%s -t UTF-8", packed, advice, big_endian ? "BE" : "LE"));
    }
    /* One byte, or bytes with even and odd offsets, are mistakes of another kind. */
    const char *one = write_bytes(folder, "one", "dog\0cat\n", 8);
    cr_expect_str_eq(read_all(one), format("%s:1:4: a NUL byte is not allowed in text", one));
    const char *even = write_bytes(folder, "even", "dogs\0cat\n", 9);
    cr_expect_str_eq(read_all(even), format("%s:1:5: a NUL byte is not allowed in text", even));
    const char *both = write_bytes(folder, "both", "a\0\0\0b\0\0\0", 8);
    cr_expect_str_eq(read_all(both), format("%s:1:2: a NUL byte is not allowed in text", both));
}

/* Buffers end within pairs of surrogates. */
Test(lines, converts_utf16_that_is_longer_than_a_buffer)
{
    enum { UNITS = 100001 };
    unsigned char *bytes = remember(malloc(2 * UNITS));
    uint16_t *units = remember(malloc(UNITS * sizeof *units));
    units[0] = 0xFEFF;
    for (int i = 1; i < UNITS; i++) units[i] = i % 2 ? 0xD83D : 0xDE00;
    const char *path = write_bytes(scratch("long"), "in", bytes, utf16_of(units, UNITS, true, bytes)),
               *text = read_all(path);
    cr_assert_eq(strlen(text), 2 * (UNITS - 1) + 1);
    for (int i = 0; i < UNITS / 2; i++) cr_assert_eq(strncmp(text + 4 * i, "\U0001F600", 4), 0, "%d", i);
}

Test(lines, reads_a_gzip_file_of_several_members)
{
    const char *path = format("%s/members.gz", scratch("members"));
    add_member(path, "a\nb", 3);
    add_member(path, "c\nd\n", 4);
    cr_assert_str_eq(read_all(path), "a|bc|d|");
    size_t size;
    char *bytes = read_file(path, &size);
    const char *folder = scratch("rest");
    char *longer = remember(calloc(size + 8, 1));
    strcpy(memcpy(longer, bytes, size) + size, "garbage");
    const char *rest = write_bytes(folder, "rest.gz", longer, size + 7);
    cr_assert_str_eq(read_all(rest), "a|bc|d|");
    const char *cut = write_bytes(folder, "cut.gz", bytes, size - 5);
    cr_assert_str_eq(read_all(cut), format("a|bc|d|%s: the gzip file is truncated", cut));
    bytes[size - 6] ^= 1;
    const char *damaged = write_bytes(folder, "damaged.gz", bytes, size);
    cr_assert_str_eq(read_all(damaged),
                     format("a|%s: the gzip file is damaged: incorrect data check", damaged));
}

/* A line of 1 GB must not take memory in proportion, and a small file must not expand to fill it. */
Test(lines, refuses_endless_lines_and_files_that_expand_too_much)
{
    const char *folder = scratch("endless"), *path = format("%s/line.gz", folder);
    size_t size = QKV_LINE_MAX_BYTES + 100000, packed;
    char *text RELEASED(free_memory) = memset(malloc(size), 'a', size);
    text[1] = '\n';
    add_member(path, text, size);
    cr_expect_str_eq(
        read_all(path),
        format("a|%s:2: the line is longer than 4 MiB; a text has a sentence in each line", path));
    for (size_t i = 0; i < size; i++) text[i] = i % 1000 ? 'a' : '\n';
    path = format("%s/bomb.gz", folder);
    add_member(path, text, size);
    char *member = read_file(path, &packed);
    FILE *file = fopen(path, "ab");
    for (int i = 0; i < 79; i++) fwrite(member, 1, packed, file);
    fclose(file);
    struct qkv_lines lines;
    bool found = true;
    cr_assert_eq(qkv_lines_open(&lines, path, &error), QKV_OK);
    enum qkv_status status = QKV_OK;
    while (!status && found) status = qkv_lines_next(&lines, &found, &error);
    expect_refusal(status, format("%s: the gzip file expands to more than 200 times its size, which "
                                  "text does not; unpack it if that is right",
                                  path));
    qkv_lines_close(&lines);
}

Test(lines, refuses_what_is_no_text_file_without_waiting)
{
    const char *folder = scratch("kinds"), *pipe = format("%s/pipe", folder);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    cr_expect_str_eq(read_all(pipe), format("%s: cannot be read: it is a named pipe", pipe));
    cr_expect_str_eq(read_all(folder), format("%s: cannot be read: it is a folder", folder));
    cr_expect_str_eq(read_all(format("%s/none", folder)),
                     format("%s/none: cannot be read: No such file or directory", folder));
    cr_expect_str_eq(read_all("/dev/null"), "");
    cr_expect_str_eq(read_all("/dev/zero"),
                     "/dev/zero:1: the line is longer than 4 MiB; a text has a sentence in each line");
}

Test(lines, reads_nothing_before_it_is_opened_and_after_it_is_closed)
{
    struct qkv_lines lines = {0};
    bool found;
    qkv_lines_close(&lines);
    expect_refusal(qkv_lines_next(&lines, &found, &error), "no text is open");
    expect_refusal(qkv_lines_check_read(&lines, &error), "no text is open");
}
