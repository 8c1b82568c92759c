// What a word of the translation rests on: how its probability falls when a word is left out, beside where heads look; and how it moves
// when the output of a head, or the state of a word after a layer, is that of another sentence. The engine computes it, after a click
// and never while one types; see module/explain.c.
'use strict';

const SMALLEST_FALL = 0.05; // nats

// Asks about the word of a step, with another sentence about patching from it.
function askRest(step, other = '') {
    if (!element('rests').open || !state.view.target_outputs.length) return;
    change({ askedWord: [step, other] });
    ask();
}

function readRest(answer) {
    const [step, other] = state.askedWord;
    if (other) return { ...state.rests, patch: answer.error ? answer : { ...answer, tables: readWalk(answer) } };
    element('rests-other').value = answer.suggestion?.[0] ?? '';
    return { ...answer, step };
}

// What can be left out, in two parts: [{title, word, fall, weight}] of the sentence, and of the words that the decoder has read.
function partsOfRest() {
    const { view, rests: { step, falls } } = state, sources = view.source_tokens;
    const part = (title, kind, words, first) => {
        const heads = view.tokenHeads.filter(head => head.kind === kind);
        return { title, words: words.map((word, i) => ({ word, fall: falls[first + i],
            weight: heads.reduce((sum, { weights, columns }) => sum + Math.max(0, weights[step * columns + i]) / heads.length, heads.length ? 0 : NaN) })) };
    };
    return [part('word of the sentence', 'cross', sources, 0), part('word before', 'decoder', view.target_inputs.slice(0, step + 1), sources.length)].filter(({ words }) => words.length);
}

function shortText(value) {
    return cellText(value, Math.abs(value) < 0.005 ? 0 : 2);
}

function makeFalls({ title, words }, greatest) {
    const head = make('tr', {}, ...[title, 'nats lost', 'mean attention'].map(textContent => make('th', { scope: 'col', textContent })));
    return makeTermList(title, [head, ...words.map(({ word, fall, weight }) => {
        const row = makeTermRow(word, [shortText(fall), weight >= 0 ? weightText(weight) : '–'], Math.abs(fall) / greatest, fall < 0 ? 'negative' : '');
        const color = colorOf(weight);
        row.lastChild.style.cssText = `background:rgb(${color});color:${inkOn(pixelOf(color))}`;
        return row;
    })]);
}

// A matrix of changes of a probability, with their numbers: orange rises, blue falls, by 1 at most.
function makeHeat(table, pixels) {
    const names = table.columnNames ?? Array.from({ length: table.columns }, (_, i) => `head ${i + 1}`);
    const cell = value => {
        const pixel = pixels[Math.round(SHADES * (1 + value))], made = make('td', { textContent: shortText(value) });
        made.style.cssText = `background:rgb(${[pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255]});color:${inkOn(pixel)}`;
        return made;
    };
    const rows = Array.from({ length: table.rows }, (_, row) => make('tr', {}, make('th', { scope: 'row', textContent: `layer ${row + 1}` }),
        ...[...table.values.subarray(row * table.columns, (row + 1) * table.columns)].map(cell)));
    return make('div', { className: 'heat', role: 'group', 'aria-label': table.title, tabIndex: table.columns > 5 ? 0 : -1, 'data-test': `heat-${table.name}` },
        make('table', {}, make('caption', { textContent: table.title }), make('thead', {}, make('tr', {}, make('td'), ...names.map(textContent => make('th', { scope: 'col', textContent, dir: 'auto' })))),
            make('tbody', {}, ...rows)));
}

function sentenceOfRest(parts) {
    const word = quoted(state.view.target_outputs[state.rests.step]), most = parts.flatMap(({ words }) => words).sort((a, b) => b.fall - a.fall)[0];
    if (most.fall < SMALLEST_FALL) return `Whatever single word is left out, ${word} stays about as probable.`;
    return `${word} rests most on ${quoted(most.word)}: without it, its log-probability falls by ${most.fall.toFixed(2)} nats.`;
}

function showRests() {
    const { rests, view } = state, isFound = Boolean(rests?.falls), parts = isFound ? partsOfRest() : [];
    element('rests').hidden = !view.target_outputs.length;
    if (!element('rests').open) return;
    const words = view.target_outputs.map((textContent, i) => {
        const word = make('button', { type: 'button', className: 'word', textContent, dir: 'auto', 'aria-pressed': i === rests?.step, 'data-test': `rests-word-${i}` });
        word.addEventListener('click', () => askRest(i));
        return word;
    });
    replaceChildren(element('rests-words'), ...words);
    stopAt(words, rests?.step ?? 0);
    element('rests-found').hidden = !isFound;
    element('rests-say').textContent = isFound ? sentenceOfRest(parts) : rests?.error ?? 'Click one of these words.';
    if (!isFound) return;
    const greatest = Math.max(1, ...parts.flatMap(({ words }) => words.map(({ fall }) => Math.abs(fall)))), { patch } = rests;
    element('rests-falls').replaceChildren(...parts.map(part => makeFalls(part, greatest)));
    element('rests-about').textContent = patch ? patch.error ?? patch.about + (patch.unknown[0] ? ' A word of the other sentence is not in the vocabulary.' : '') : 'Patching shows which part of the model carries what differs between both sentences.';
    const pixels = makePixels();
    element('rests-tables').replaceChildren(...(patch?.tables ?? []).map(table => makeHeat(table, pixels)));
}

moveByArrows(element('rests-words'), '.word');
onChange('rests view isDark colors', showRests);
onChange('held', () => state.held?.side === 'target' && askRest(state.held.index));
element('rests').addEventListener('toggle', () => {
    if (state.view) showRests();
    if (state.view) askRest(state.held?.side === 'target' ? state.held.index : state.step);
});
element('rests-form').addEventListener('submit', event => {
    event.preventDefault();
    askRest(state.rests.step, element('rests-other').value);
});
