// Words in place of tokens: pieces of byte-pair encoding, characters, or punctuation marks. The maps may show each word as one
// row and one column, as `qkv attention --words` does: the columns of its tokens are summed and their rows averaged (Clark et
// al. 2019), so that the sum of a row stays. The sentence pair always shows tokens, because the model chooses these.
'use strict';

const CONTINUES = '@@'; // the end of a piece whose word goes on

// The numbers of the words, token by token. The decoder reads <s> and then the target, but not its last token.
function wordNumbers(view) {
    const source = [...view.source_words], target = [...view.target_words];
    return { source, target, read: [0, ...target.slice(0, -1).map(number => number + 1)] };
}

// The texts of words, without the marks between their pieces.
function mergedTexts(texts, numbers) {
    const merged = [];
    texts.forEach((text, i) => {
        const goesOn = numbers[i + 1] === numbers[i] && text.length > CONTINUES.length && text.endsWith(CONTINUES);
        merged[numbers[i]] = (merged[numbers[i]] ?? '') + (goesOn ? text.slice(0, -CONTINUES.length) : text);
    });
    return merged;
}

// The mean entropy of rows, in nats.
function entropyOfRows(weights, rows) {
    return weights.reduce((sum, weight) => (weight > 0 ? sum - weight * Math.log(weight) : sum), 0) / rows;
}

// A cell of words is hidden if all cells of their tokens are.
function mergedHead(head, rowNumbers, columnNumbers, rowWords, columnWords) {
    const rows = rowWords.length, columns = columnWords.length, weights = new Float32Array(rows * columns).fill(-1);
    const tokens = rowWords.map((_, row) => rowNumbers.filter(number => number === row).length);
    head.weights.forEach((weight, i) => {
        if (isHidden(weight)) return;
        const row = rowNumbers[Math.floor(i / head.columns)], at = row * columns + columnNumbers[i % head.columns];
        weights[at] = Math.max(0, weights[at]) + weight / tokens[row];
    });
    return { ...head, rows, columns, weights, rowWords, columnWords, entropy: entropyOfRows(weights, rows) };
}

// A view as the state wants it: with heads of words, or with those of tokens.
function viewInWords(view) {
    if (!state.words) return { ...view, heads: view.tokenHeads };
    const { source, target, read } = wordNumbers(view);
    const sources = mergedTexts(view.source_tokens, source), outputs = mergedTexts(view.target_outputs, target);
    const inputs = mergedTexts(view.target_inputs, read);
    const axes = { cross: [target, source, outputs, sources], encoder: [source, source, sources, sources],
        decoder: [read, read, inputs, inputs] };
    return { ...view, heads: view.tokenHeads.map(head => mergedHead(head, ...axes[head.kind])) };
}

// The row or column of the maps for a token of the sentence pair, and the first token of a row or column.
function indexInMap({ side, index }) {
    return state.words ? state.view[`${side}_words`][index] : index;
}

function firstToken(side, index) {
    return state.words ? state.view[`${side}_words`].indexOf(index) : index;
}

// The numbers of the tokens that are shown as one with this token.
function tokensOf({ side, index }) {
    if (!state.words) return [index];
    const numbers = state.view[`${side}_words`];
    return [...numbers.keys()].filter(other => numbers[other] === numbers[index]);
}

element('words').addEventListener('change', () => {
    change({ words: element('words').checked });
    writeAddress(true);
});
listen(changed => {
    if (!state.view || !(changed.has('view') || changed.has('words'))) return;
    const { source_words: source, target_words: target } = state.view;
    const hasParts = [source, target].some(numbers => numbers.some((number, i) => i && number === numbers[i - 1]));
    element('words').checked = state.words;
    element('words-row').hidden = !hasParts && !state.words;
    if (changed.has('words') && !changed.has('view')) {
        points = null; // the lines have other ends
        change({ view: viewInWords(state.view), hover: null, held: null, cell: null });
    }
});
