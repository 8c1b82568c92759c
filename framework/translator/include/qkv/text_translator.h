/* A trained run behind one pointer: text in, translation and attention maps out. For programs that need only this, and for
 * other programming languages: all arguments are pointers, strings and numbers (examples/read_run.py calls it from Python).
 * The modules that it uses are public, too: qkv/run.h, qkv/corpus.h, qkv/translator.h, qkv/attention_collect.h.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_text_translator *translator = qkv_text_translator_open("runs/toy_en_es", NULL, &error);
 *     const char *translation =
 *         translator ? qkv_text_translator_run(translator, "the cat is sleeping", 0, &error) : NULL;
 *     const struct qkv_attention_report *report =
 *         translation ? qkv_text_translator_attention(translator, 1u << QKV_ATTENTION_CROSS, &error) : NULL;
 *     if (report)
 *         printf("%s: %d maps\n", translation, (int)report->map_count);
 *     else
 *         fprintf(stderr, "%s\n", error.message);
 *     qkv_text_translator_free(translator);
 *
 * Only one thread at a time may use a translator. */
#ifndef QKV_TEXT_TRANSLATOR_H
#define QKV_TEXT_TRANSLATOR_H

#include "qkv/attention_map.h"

struct qkv_text_translator;

/* Opens the run in `folder`, in float32; `checkpoint` as in qkv_run_open (NULL: its default). Returns NULL with a message
 * where qkv_run_open fails. */
QKV_API struct qkv_text_translator *qkv_text_translator_open(const char *folder, const char *checkpoint,
                                                             struct qkv_error *error);

/* Translates a sentence, UTF-8, by the search that the config of the run sets, with `beam_size` hypotheses, 1 to QKV_BEAM_MAX
 * (translator.h); 0: the beam size of the config. The text is tokenised as that of the run; tokens that the run does not know
 * are read as <unk>, without a message. The translation is valid until the next call, which may also take it as
 * its `text`. Returns NULL with a message when the text has no words, is longer than the model has positions, or is not UTF-8, when
 * qkv_translator_run fails, and when memory runs out. */
QKV_API const char *qkv_text_translator_run(struct qkv_text_translator *translator, const char *text,
                                            int64_t beam_size, struct qkv_error *error);

/* The maps of every layer and head of the last translation, of the attention kinds in `kinds` (bits 1u << kind; 0: all),
 * ordered by kind, layer, head. The report, its tokens and weights are valid until the next call of this function or of
 * qkv_text_translator_run. Returns NULL with a message when nothing was translated or the last translation failed, when
 * qkv_attention_collect fails, and when memory runs out. */
QKV_API const struct qkv_attention_report *
qkv_text_translator_attention(struct qkv_text_translator *translator, unsigned kinds,
                              struct qkv_error *error);

QKV_API void qkv_text_translator_free(struct qkv_text_translator *translator); /* NULL: does nothing */

#endif
