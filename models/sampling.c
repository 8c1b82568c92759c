/* Sampling: draws the next token of each hypothesis from the probabilities of the model. */
#include "models/search_state.h"

#include "qkv/random.h"
#include "qkv/scalar_math.h"
#include "qkv/vocabulary.h"

#include <math.h>

/* Random numbers are indexed by sentence and position: the low POSITION_BITS bits are the position in a sample, the bits
 * above are the number of the sentence. */
enum { POSITION_BITS = 20 };

static bool comes_before(const struct choice *a, const struct choice *b)
{
    return a->logit > b->logit || (!(a->logit < b->logit) && a->token < b->token);
}

/* Restores a heap below `at`: each choice comes before those at 2 i + 1 and 2 i + 2. */
static void sift_down(struct choice *heap, int64_t count, int64_t at)
{
    struct choice moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_before(&heap[child + 1], &heap[child])) child++;
        if (!comes_before(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Removes the best choice from a heap of `count` choices and stores it after the others. */
static const struct choice *take_best(struct choice *heap, int64_t count)
{
    struct choice best = heap[0];
    heap[0] = heap[count - 1];
    sift_down(heap, count - 1, 0);
    heap[count - 1] = best;
    return &heap[count - 1];
}

/* Keeps the `top_k` best of `count` choices, and of these only the smallest set of best choices that has at least `top_p`
 * of their total weight (nucleus sampling, Holtzman et al. 2020). Moves them to the end of the array, best last, and
 * returns their number. */
static int64_t keep_best(struct choice *choices, int64_t count, int64_t top_k, double top_p)
{
    int64_t max = top_k && top_k < count ? top_k : count, kept = 0;
    double total = 0, nucleus = 0;
    for (int64_t i = count / 2 - 1; i >= 0; i--) sift_down(choices, count, i);
    if (max < count) /* the weight of the nucleus counts only the `max` best */
        for (; kept < max; kept++) total += take_best(choices, count - kept)->weight;
    else
        for (int64_t i = 0; i < count; i++) total += choices[i].weight;
    if (top_p >= 1) return max;
    for (int64_t i = 0; i < max; i++) {
        const struct choice *next = max < count ? &choices[count - 1 - i] : take_best(choices, count - i);
        nucleus += next->weight;
        if (nucleus >= top_p * total) return i + 1;
    }
    return max;
}

/* Stores the tokens that may follow a row in s->choices and returns their number; 0 if scores are not finite. `at`:
 * number of the row in `next`. */
static int64_t find_choices(struct search *s, const struct qkv_next_scores *next, int64_t at)
{
    double greatest = -HUGE_VAL, temperature = s->options->sampling.temperature;
    int64_t count = 0;
    for (int64_t token = 0; token < next->classes; token++) {
        double logit = qkv_dtype_get(next->dtype, next->logits, at * next->classes + token);
        if (token == QKV_BEGIN || token == s->excluded || logit <= -HUGE_VAL) continue;
        if (!isfinite(logit)) return 0;
        if (logit > greatest) greatest = logit;
        s->choices[count++] = (struct choice){logit, 0, (int32_t)token};
    }
    for (int64_t i = 0; i < count; i++)
        s->choices[i].weight = qkv_scalar_exp((s->choices[i].logit - greatest) / temperature);
    return count;
}

/* Draws a choice with a probability in proportion to its weight. */
static const struct choice *draw(const struct choice *choices, int64_t count, double uniform)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) total += choices[i].weight;
    const struct choice *drawn = NULL;
    for (int64_t i = 0; i < count; i++) {
        if (!(choices[i].weight > 0)) continue;
        drawn = &choices[i];
        sum += drawn->weight;
        if (sum > uniform * total) break;
    }
    return drawn;
}

static double random_number(const struct search *s, const struct live *live)
{
    const struct qkv_search_options *options = s->options;
    const struct qkv_random random = {options->sampling.seed, QKV_STREAM_SAMPLE, (uint32_t)live->sample};
    uint64_t number = (uint64_t)(options->numbers ? options->numbers[live->sentence] : live->sentence);
    return qkv_random_uniform(random, number << POSITION_BITS | (uint64_t)s->step);
}

int64_t qkv_search_draw(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end)
{
    const struct qkv_sampling_options *sampling = &s->options->sampling;
    for (int64_t row = first; row < end; row++) {
        const struct qkv_next_scores *scores = s->constrained ? qkv_search_constrain(s, next, row) : next;
        int64_t at = s->constrained ? 0 : row, count = find_choices(s, scores, at), kept = count;
        if (!count) return 0;
        if ((sampling->top_k > 0 && sampling->top_k < count) || sampling->top_p < 1)
            kept = keep_best(s->choices, count, sampling->top_k, sampling->top_p);
        const struct choice *drawn = draw(s->choices + count - kept, kept, random_number(s, &s->live[row]));
        double log_probability = 0;
        if (s->scored)
            log_probability = s->live[row].log_probability + drawn->logit -
                              qkv_dtype_get(scores->dtype, scores->log_sum_exp, at);
        if (!isfinite(log_probability)) return 0;
        s->candidates[row - first] = (struct candidate){row, drawn->token, log_probability};
    }
    return end - first;
}
