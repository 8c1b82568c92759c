#include "input_lines.h"

#include "data/bpe.h"
#include "data/unicode.h"
#include "report/collect.h"

enum qkv_status input_lines_open(struct input_lines *input, const struct qkv_run *run, const char *path,
                                 struct qkv_error *error)
{
    bool interactive = !strcmp(path, "-") && isatty(STDIN_FILENO);
    *input =
        (struct input_lines){.run = run, .interactive = interactive, .unknown_words.shows_all = interactive};
    return qkv_lines_open(&input->lines, path, error);
}

/* Copies the tokens of the current sentence into the arena, `length` at most. */
static bool copy_tokens(const struct qkv_sentence *sentence, int64_t length, struct qkv_arena *arena,
                        struct input_tokens *copy)
{
    int32_t *ids = qkv_arena_allocate(arena, (size_t)length * sizeof *ids);
    const char **texts = qkv_arena_allocate(arena, (size_t)length * sizeof *texts);
    if (!ids || !texts) return false;
    for (int64_t i = 0; i < length; i++) {
        ids[i] = sentence->ids[i];
        if (!(texts[i] = qkv_arena_string(arena, sentence->tokens.token[i]))) return false;
    }
    *copy = (struct input_tokens){{length, ids}, texts, NULL};
    return true;
}

/* Sets the words of the source: tokenizes the line again, without cutting words into pieces or changing their case, and counts
 * the pieces of each word. */
static bool add_words(const struct input_lines *input, const char *text, size_t size, struct qkv_arena *arena,
                      struct input_tokens *source)
{
    struct qkv_text_config config = input->run->config.data.src;
    bool has_pieces = config.level == QKV_LEVEL_BPE;
    source->words = source->texts;
    if (config.level == QKV_LEVEL_CHAR) return true;
    struct qkv_tokens spelled = {0};
    const char **words = qkv_arena_allocate(arena, (size_t)source->ids.length * sizeof *words), *word = NULL;
    const struct qkv_text_config *target = &input->run->config.data.trg;
    config.level = QKV_LEVEL_WORD;
    config.lowercase = false;
    /* They may become tokens of the target. */
    config.plain_marks |= !target->split_punctuation || target->level == QKV_LEVEL_CHAR;
    bool done = words && !qkv_tokenize(&spelled, &config, text, size, NULL);
    for (int64_t i = 0, w = 0; done && i < source->ids.length; i++) {
        const char *token = source->texts[i];
        if (!word) word = qkv_arena_string(arena, w < spelled.count ? spelled.token[w] : token);
        words[i] = word;
        done = word != NULL;
        if (has_pieces && qkv_length_in_word(token) < strlen(token)) continue;
        word = NULL;
        w++;
    }
    source->words = words;
    qkv_tokens_release(&spelled);
    return done;
}

/* How --as-trained would read the source, if more of its words are known then and a warning is going to be printed; NULL
 * otherwise. It lives in `other`. */
static const char *as_trained(const struct input_lines *input, const char *text, size_t size,
                              struct qkv_sentence *other)
{
    const struct qkv_run *run = input->run;
    const struct qkv_sentence *sentence = &input->sentence;
    other->as_trained = true;
    bool is_asked =
        sentence->unknown && !sentence->as_trained && unknown_words_are_named(&input->unknown_words);
    if (!is_asked || qkv_sentence_encode(other, &run->config.data.src, &run->source, text, size, NULL))
        return NULL;
    return other->unknown < sentence->unknown ? other->respelled : NULL;
}

/* Says which words of the current column are unknown. At the prompt, also says how the sentence is read. */
static void note_words(struct input_lines *input, const char *place, const char *text, size_t size,
                       bool is_prefix)
{
    const struct qkv_run *run = input->run;
    const struct qkv_sentence *sentence = &input->sentence;
    struct qkv_sentence other = {0};
    const char *read_as = is_prefix ? NULL : as_trained(input, text, size, &other);
    bool is_first = sentence->unknown && !input->has_unknown;
    input->has_unknown |= sentence->unknown > 0;
    if (input->interactive && sentence->as_trained && sentence->respelled)
        say(stderr, "qkv: %s: read in the case and with the punctuation of the training text: %s\n", place,
            sentence->respelled);
    unknown_words_note(&input->unknown_words, place, sentence, run, is_prefix, read_as, input->lines.number);
    if (input->interactive && is_first) note_known_words(run);
    qkv_sentence_release(&other);
}

/* Encodes one column of the current line; messages call the line `place`. */
static enum qkv_status read_column(struct input_lines *input, const char *place, const char *text,
                                   size_t size, bool is_prefix, struct qkv_error *error)
{
    const struct qkv_data_config *data = &input->run->config.data;
    input->sentence.as_trained = input->as_trained && !is_prefix;
    /* The line is valid text, so only memory can be missing. */
    if (qkv_sentence_encode(&input->sentence, is_prefix ? &data->trg : &data->src,
                            is_prefix ? &input->run->target : &input->run->source, text, size, NULL))
        return qkv_no_memory(error);
    if (!input->quiet) note_words(input, place, text, size, is_prefix);
    return QKV_OK;
}

/* A copy without white space (of ASCII) around it. */
static const char *trimmed(const char *text, struct qkv_arena *arena)
{
    static const char space[] = " \t\r\n\v\f";
    text += strspn(text, space);
    size_t size = strlen(text);
    while (size && strchr(space, text[size - 1])) size--;
    return qkv_arena_format(arena, "%.*s", (int)size, text);
}

static enum qkv_status read_prefix(struct input_lines *input, const char *place, const char *text,
                                   struct qkv_arena *arena, struct input_line *line, struct qkv_error *error)
{
    if (strchr(text, '\t'))
        return qkv_error_set(error, "%s: has more than two columns, but must be a source, a tab and a prefix",
                             place);
    if (read_column(input, place, text, strlen(text), true, error)) return QKV_INVALID;
    int64_t length = input->sentence.tokens.count;
    if (length && !line->source.ids.length)
        return qkv_error_set(error, "%s: has a prefix, but no source", place);
    if (length > input->longest_prefix)
        return qkv_error_set(error, "%s: the prefix has %lld tokens, but a translation has at most %lld (%s)",
                             place, (long long)length, (long long)input->longest_prefix, input->prefix_limit);
    line->prefix_text = trimmed(text, arena);
    if (line->prefix_text && copy_tokens(&input->sentence, length, arena, &line->prefix)) return QKV_OK;
    return qkv_no_memory(error);
}

enum qkv_status input_lines_encode(struct input_lines *input, const char *place, const char *text,
                                   struct qkv_arena *arena, struct input_line *line, struct qkv_error *error)
{
    const char *tab = strchr(text, '\t');
    if (tab && !input->has_prefixes) {
        if (!input->quiet && !input->has_told_of_tab)
            print_error("%s: has a tab, but a line is one sentence: give one column (cut -f1), or pairs to "
                        "`qkv evaluate`",
                        place);
        input->has_told_of_tab = true;
        tab = NULL;
    }
    size_t size = tab ? (size_t)(tab - text) : strlen(text);
    const int64_t words = qkv_utf8_count_words(text, text + size, true);
    const char *source = qkv_arena_format(arena, "%.*s", (int)size, text);
    if (read_column(input, place, text, size, false, error)) return QKV_INVALID;
    if (input->sentence.respelled) {
        text = input->sentence.respelled;
        size = strlen(text);
        if (qkv_utf8_count_words(text, text + size, true) == words) source = qkv_arena_string(arena, text);
    }
    int64_t length = input->sentence.tokens.count;
    if (length > input->longest) {
        char subject[320];
        struct qkv_error cut;
        snprintf(subject, sizeof subject, "%s:", place);
        qkv_too_many_tokens(subject, length, input->longest, &cut);
        const char *path = input->limited_by;
        print_error("%s%s%s; the rest of the line is ignored", cut.message, path ? ", a limit of " : "",
                    path ? path : "");
        length = input->longest;
    }
    *line = (struct input_line){.number = ++input->count, .text = source};
    if (!source || !copy_tokens(&input->sentence, length, arena, &line->source) ||
        (input->needs_words && !add_words(input, text, size, arena, &line->source)))
        return qkv_no_memory(error);
    return tab ? read_prefix(input, place, tab + 1, arena, line, error) : QKV_OK;
}

enum qkv_status input_lines_next(struct input_lines *input, struct qkv_arena *arena, struct input_line *line,
                                 bool *found, struct qkv_error *error)
{
    struct qkv_lines *lines = &input->lines;
    if (qkv_lines_next(lines, found, error)) return QKV_INVALID;
    if (!*found) return QKV_OK;
    *found = false;
    char place[300];
    snprintf(place, sizeof place, "%.250s:%lld", lines->path, (long long)lines->number);
    if (input_lines_encode(input, place, lines->line, arena, line, error)) return QKV_INVALID;
    *found = true;
    return QKV_OK;
}

void input_lines_close(struct input_lines *input)
{
    unknown_words_end(&input->unknown_words);
    if (input->has_unknown && !input->interactive) note_known_words(input->run);
    qkv_sentence_release(&input->sentence);
    qkv_lines_close(&input->lines);
}
