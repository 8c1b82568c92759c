// Scripts: text that runs from right to left, and Chinese, Japanese and Korean, which stand upright in a column.
'use strict';

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const UPRIGHT = /[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u{20000}-\u{3ffff}]/u;
const SHORT = /^(.|[\u2e80-\u9fff\uac00-\ud7af]{1,2})$/u; // words that stay horizontal above a column

// The direction of a text: that of its first letter. (dir="auto" does not look into the words, which have a dir of their own.)
function directionOf(text) {
    return RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? '') ? 'rtl' : 'ltr';
}

// A word in a sentence of the page: isolated, so that a word from right to left does not reorder the numbers beside it.
function isolated(word) {
    return RIGHT_TO_LEFT.test(word) ? `\u2068${word}\u2069` : word;
}

// How a word stands above the column of a map.
function columnClass(text) {
    return SHORT.test(text) ? 'short' : UPRIGHT.test(text) ? 'upright' : '';
}
