#include "datasets/generate/dice.h"

struct qkv_random generate_random(uint64_t seed, int stream, int step)
{
    return (struct qkv_random){.seed = seed,
                               .stream = (uint32_t)QKV_STREAM_GENERATE | (uint32_t)stream << 8,
                               .step = (uint32_t)step};
}

int64_t dice_below(struct dice *dice, int64_t bound)
{
    return (int64_t)qkv_random_below(dice->random, dice->rolls++, (uint64_t)bound);
}

bool dice_percent(struct dice *dice, int percent)
{
    return dice_below(dice, 100) < percent;
}

bool is_held_out(uint64_t seed, enum combination kind, int64_t first, int64_t second)
{
    uint64_t index = (uint64_t)first << 32 | (uint64_t)second;
    return qkv_random_below(generate_random(seed, STREAM_HELD_OUT, (int)kind), index, HELD_OUT_ONE_IN) == 0;
}
