// What the page says in words about a map: one line about its axes, and one sentence about what is lit up.
'use strict';

const MENTIONED = 0.05, MAX_MENTIONED = 3; // weights in a sentence
const UNMENTIONED = 0.005; // the rest of a row that is too little to say

const AXES = {
    cross: 'Each row: where a word of the translation looks in the sentence.',
    encoder: 'Each row: where a word of the sentence looks in the sentence.',
    decoder: 'Each row: where the decoder looks in what it has read, when it reads the left word and chooses the right one.',
    words: 'Each row: where the decoder looks in what it has read, when it reads a word.',
};

// Two decimals; a weight that is not quite 1 is not said to be 1.
function weightText(weight) {
    return weight < 1 && weight >= 0.995 ? '>0.99' : weight.toFixed(2);
}

function quoted(word) {
    return `“${isolated(word)}”`;
}

// The greatest weights of cells, [{weight, word}]: at least one.
function greatest(cells) {
    const order = cells.filter(cell => !isHidden(cell.weight)).sort((a, b) => b.weight - a.weight);
    return order.filter((part, i) => !i || part.weight >= MENTIONED).slice(0, MAX_MENTIONED);
}

function sumOf(cells) {
    return cells.reduce((sum, { weight }) => sum + (isHidden(weight) ? 0 : weight), 0);
}

function cellsOfRow(head, row) {
    return head.columnWords.map((word, column) => ({ word, weight: head.weights[row * head.columns + column] }));
}

// The line above the large map. With the score local_p (Luong et al. 2015), rows sum to less than 1.
function axesText(head) {
    const isWhole = head.rowWords.every((_, row) => sumOf(cellsOfRow(head, row)) > 0.99);
    return (scenes ? 'Each row: how a query divides its attention among the keys.' : AXES[head.kind === 'decoder' && state.words ? 'words' : head.kind]) + (isWhole ? ' A row sums to 1.' : '');
}

// “gato” takes 0.90 of its attention from “cat”, 0.06 from “the”, 0.04 elsewhere
function sentenceOfRow(head, row) {
    const weights = cellsOfRow(head, row);
    const parts = greatest(weights), rest = sumOf(weights) - sumOf(parts);
    if (!parts.length) return `${quoted(head.rowWords[row])} attends to nothing: all its words are masked`;
    const [first, ...others] = parts.map(({ weight, word }) => [weightText(weight), quoted(word)]);
    return `${quoted(head.rowWords[row])} takes ${first[0]} of its attention from ${first[1]}` +
        others.map(([weight, word]) => `, ${weight} from ${word}`).join('') +
        (rest >= UNMENTIONED ? `, ${weightText(rest)} elsewhere` : '');
}

// “cat” gets 0.97 of the attention of “gato”
function sentenceOfColumn(head, column) {
    const weights = head.rowWords.map((word, row) => ({ word, weight: head.weights[row * head.columns + column] }));
    const parts = greatest(weights);
    if (!parts.length) return `${quoted(head.columnWords[column])} is silent: nothing attends to it`;
    return `${quoted(head.columnWords[column])} gets ` +
        parts.map(({ weight, word }) => `${weightText(weight)} of the attention of ${quoted(word)}`).join(', ');
}

function sentenceOfCell(head, { row, column }) {
    const weight = head.weights[row * head.columns + column];
    const query = quoted(head.rowWords[row]), key = quoted(head.columnWords[column]);
    return isHidden(weight) ? `${key} is masked for ${query}` : `${query} takes ${weightText(weight)} of its attention from ${key}`;
}

// What a silent head does not do.
function silenceText(head) {
    return head.isSilent ? 'This head is silent: it looks, but passes on nothing. ' : '';
}

// The whole map. A row of entropy H is as spread out as equal weights on exp(H) words.
function sentenceOfHead(head) {
    return `This head’s rows have a mean entropy of ${head.entropy.toFixed(2)} nats: they are as spread ` +
        `out as equal weights on ${Math.exp(head.entropy).toFixed(1)} words. Point at a word or a cell.`;
}

function sentenceOf(head) {
    if (state.cell) return sentenceOfCell(head, state.cell);
    const { row, column } = litPlace(head);
    if (row >= 0) return sentenceOfRow(head, row);
    return column >= 0 ? sentenceOfColumn(head, column) : sentenceOfHead(head);
}

// The sentence under the large map.
function caption() {
    const head = selectedHead();
    return head ? silenceText(head) + sentenceOf(head) : '';
}
