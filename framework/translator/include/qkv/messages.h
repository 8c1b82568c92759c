/* All errors of one YAML file, for qkv_config_read and qkv_scene_read.
 *
 * Example:
 *     struct qkv_messages messages = {1, {"configs/x.yaml:14:7: unknown key naem; did you mean name"}};
 *     for (int i = 0; i < messages.count; i++) fprintf(stderr, "%s\n", messages.text[i]);
 */
#ifndef QKV_MESSAGES_H
#define QKV_MESSAGES_H

enum { QKV_MESSAGES_MAX = 100 };

/* Each text is one line, `configs/x.yaml:14:7: sentence`, without a newline or full stop. Lines and columns count from 1,
 * columns in characters. Texts are in the order of their lines; errors about the whole file and about overrides come last.
 * They live in the arena that was passed to the reader. When a file has more errors than `text` can hold, the last text
 * gives the number of omitted errors. */
struct qkv_messages {
    int count;
    const char *text[QKV_MESSAGES_MAX];
};

#endif
