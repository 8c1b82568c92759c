// What the steps of a walk (explain.h) are for: the group in which a step is shown, and one sentence about it.
'use strict';

const STEP_GROUPS = ['Words become vectors', 'Queries, keys and values', 'Scores become weights', 'Weights mix values',
    'The rest of the layer', 'The word is chosen'];

const STEPS = {
    tokens: [0, 'Each word has a number in the vocabulary.'],
    source_tokens: [0, 'Each word of the sentence has a number in the vocabulary.'],
    embeddings: [0, 'The number picks a row of a learned table.'],
    source_embeddings: [0, 'The number picks a row of a learned table.'],
    positions: [0, 'A pattern for each place in the sentence.'],
    inputs: [0, 'The word and its place in one vector.'],
    source_inputs: [0, 'The word and its place in one vector.'],
    previous_attentional: [0, 'The attentional vector of the step before.'],
    decoder_states: [0, 'What the decoder knows at each step.'],
    source_positions: [0, 'A pattern for each place in the sentence.'],
    layer_inputs: [0, 'What this layer reads.'],
    memory: [0, 'The sentence as the encoder has read it.'],
    query_weights: [1, 'Learned.'],
    query_bias: [1, 'Learned.'],
    key_weights: [1, 'Learned.'],
    key_bias: [1, 'Learned.'],
    value_weights: [1, 'Learned.'],
    value_bias: [1, 'Learned.'],
    queries: [1, 'What each word looks for.'],
    rotated_queries: [1, 'Each query is rotated by the position of its word.'],
    keys: [1, 'What each word can be found by.'],
    rotated_keys: [1, 'Each key is rotated by the position of its word.'],
    values: [1, 'What each word passes on.'],
    score_weights: [2, 'Learned.'],
    score_query: [2, 'Learned.'],
    score_key: [2, 'Learned.'],
    score_vector: [2, 'Learned.'],
    scores: [2, 'How well each query fits each key.'],
    scaled_scores: [2, 'Divided, so that the softmax does not become a maximum.'],
    distance_bias: [2, 'Learned or fixed for each distance.'],
    biased_scores: [2, 'Each score, with the bias for its distance.'],
    mask: [2, 'Which words may be seen.'],
    masked_scores: [2, 'Words that may not be seen get no weight.'],
    predictor_weights: [2, 'Learned.'],
    predictor_vector: [2, 'Learned.'],
    predicted_positions: [2, 'The position in the sentence on which each step centers.'],
    gaussian_window: [2, 'Words near that position count more.'],
    weights: [2, 'Softmax makes positive weights of the scores: a row sums to 1.'],
    context: [3, 'The values, mixed by the weights.'],
    concatenated: [3, 'The parts side by side.'],
    output_weights: [3, 'Learned.'],
    output_bias: [3, 'Learned.'],
    pre_activation: [3, 'A linear layer mixes state and context.'],
    output: [3, 'What this attention found.'],
    sum: [3, 'Numbers of the context, added up.'],
    residual: [4, 'What goes past the attention, to be added to its output.'],
    attention_sum: [4, 'What was there, and what attention found.'],
    attention_norm: [4, 'Each row is brought to the same mean and spread.'],
    inner_inputs: [4, 'Each row is brought to the same mean and spread.'],
    inner_weights: [4, 'Learned.'],
    inner_bias: [4, 'Learned.'],
    inner: [4, 'Each word by itself, in more numbers.'],
    activated: [4, 'Numbers below 0 are cut off or damped.'],
    outer_weights: [4, 'Learned.'],
    outer_bias: [4, 'Learned.'],
    outer: [4, 'Back to the width of the layer.'],
    layer_sum: [4, 'What was there, and what feed forward adds.'],
    layer_output: [4, 'Each row is brought to the same mean and spread.'],
    final_norm: [4, 'Each row is brought to the same mean and spread.'],
    word_vectors: [5, 'One column for each word that could be chosen.'],
    word_bias: [5, 'Learned.'],
    logits: [5, 'How well each word fits.'],
    probabilities: [5, 'Softmax makes probabilities of the logits.'],
    chosen: [5, 'The word with the greatest probability.'],
};

// In scenes, where the numbers are given or drawn.
const UNLEARNED = { 'Learned.': 'Given, or drawn at random.', 'Each word has a number in the vocabulary.': 'The words, numbered.',
    'Each word of the sentence has a number in the vocabulary.': 'The words, numbered.',
    'The number picks a row of a learned table.': 'A vector for each word, given or drawn at random.',
    'What each word looks for.': 'What each word looks for; one row for each query.' };

// The rules of step texts for steps that this table does not know.
function stepGroup(step) {
    return STEPS[step.name]?.[0] ?? STEP_GROUPS.length - 1;
}

function stepSentence(step) {
    const text = STEPS[step.name]?.[1];
    return [(scenes && UNLEARNED[text]) || text, step.note].filter(Boolean).join(' ');
}
