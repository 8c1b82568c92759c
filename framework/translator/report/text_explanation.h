/* Private to report: explanations in the terminal, a part of the text format. */
#ifndef QKV_TEXT_EXPLANATION_H
#define QKV_TEXT_EXPLANATION_H

#include "report/writer.h"

/* Writes a numbered section per step; matrices stand side by side if they fit. */
write_explanations_function qkv_text_explanations;

#endif
