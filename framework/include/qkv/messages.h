/* All that is wrong with one input file, not only the first thing: a list of finished sentences, place first,
 * for readers of YAML files. */
#ifndef QKV_MESSAGES_H
#define QKV_MESSAGES_H

enum { QKV_MESSAGES_MOST = 100 };

/* Each text is one line without a newline or full stop, `configs/x.yaml:14:7: sentence`, in the order of the
 * file's lines; those about the file as a whole and about overrides follow. Lines and columns count from 1,
 * columns in characters. The texts live in the arena that the reader was given. When a file has more errors
 * than there is room for, the last text says how many are left out. */
struct qkv_messages {
    int count;
    const char *text[QKV_MESSAGES_MOST];
};

#endif
