#include "datasets/generate/sentence.h"

/* FEWEST_WORDS: what is left for a conjunction and a last clause; fewer, and all would end with "and we
 * sing". */
enum { MOST_ATTEMPTS = 200, FEWEST_WORDS = 6 };

/* "and" joins anything; the others claim a reason, a time, a contrast. */
static int draw_conjunction(struct drawing *d)
{
    return dice_percent(&d->dice, 30) ? 0 : (int)dice_below(&d->dice, CONJUNCTIONS);
}

/* Adds a clause that leaves room for another one, or none. The clause that has English word `held_out_at` is
 * the one with held-out combinations. */
static bool add_clause(struct drawing *d, int words, int held_out_at, struct phrase *sentence)
{
    int begin = sentence->source_count, conjunction = begin ? draw_conjunction(d) : -1;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        struct clause clause;
        struct phrase phrase;
        if (!draw_clause(d, &clause)) continue;
        /* So that "i see the cat and the dog and the cow can sleep" has one reading. */
        if (conjunction == 0 && clause.subject.nouns.joined) continue;
        phrase_clear(&phrase);
        if (conjunction >= 0) grammar_conjunction(conjunction, &phrase);
        grammar_clause(&clause, &phrase);
        int end = begin + phrase.source_count;
        bool holds = held_out_at >= begin && held_out_at < end;
        if (holds != (d->held_out > 0) || end > words || (end < words && words - end < FEWEST_WORDS))
            continue;
        if (sentence->target_count + phrase.target_count > PHRASE_WORDS) return false;
        phrase_place(sentence, &phrase);
        return true;
    }
    return false;
}

bool draw_sentence(struct drawing *drawing, int words, bool held_out, struct phrase *sentence)
{
    int held_out_at = held_out ? (int)dice_below(&drawing->dice, words) : -1;
    while (sentence->source_count < words)
        if (!add_clause(drawing, words, held_out_at, sentence)) return false;
    return true;
}
