/* Sentences of any length: clauses beside each other, with relative clauses inside them. */
#ifndef QKV_DATASETS_SENTENCE_H
#define QKV_DATASETS_SENTENCE_H

#include "datasets/generate/draw.h"

/* Draws a sentence of so many English words into an empty phrase; `held_out` says whether one of its clauses
 * has combinations of words that are held out, or none. False when the choices made do not lead to one. */
bool draw_sentence(struct drawing *drawing, int words, bool held_out, struct phrase *sentence);

#endif
