// The one state of the page, what draws it, the address that holds it, and what the engine says as maps between words.
'use strict';

const state = {
    source: '',       // the sentence
    scene: null,      // in a page of scenes (scenes.js): which one
    seed: null,       // of the random numbers of the scene; null: its own. Of the words that are drawn; null: they are searched for
    own: null,        // a translation of the user's own; null: the model translates
    update: null,     // of training, whose parameters translate; null: the learned ones
    isHeld: true,     // at other moments of training, the page shows the maps of the learned translation, so that they can be compared
    isBeside: false,  // the map of the other end of training stands beside the large map
    beam: 1,          // hypotheses of the search
    temperature: 1,   // of the probabilities of words
    length: 24,       // tokens that a language model writes, at most
    choice: 0,        // number of the translation that is shown
    head: null,       // name of the selected head, such as 'cross-2-1'
    silent: '',       // names of the silent heads, in the order of the model, with commas between
    silentWords: '',  // numbers from 1 of the words of the sentence to which nothing attends, with commas between
    words: false,     // the maps show words in place of tokens
    colors: null,     // name of the colormap of weights; null: the usual one
    isDark: null,     // the theme
    lesson: 0,        // the step of the lesson, from 1; 0: the page is without it
    language: navigator.language.startsWith('es') ? 'es' : 'en', // of the lesson
    isPresenting: false, // large text and three panels, for a projector
    hover: null,      // {side: 'source' or 'target', index}: the word that is lit up
    held: null,       // the word that was clicked: lit up while the pointer is on no other
    cell: null,       // {row, column} of the large map under the pointer
    step: null,       // the target word whose alternatives are listed; null, until there is a view: the first one that the model chooses
    facts: null,      // of the model: {vocabulary, choices, parameter_names, parameter_counts}; null in scenes, and until the engine is ready
    view: null,       // what the engine says: see readView
    order: 'layer',   // of the heads in the overview
    isWalking: false, // the steps through the selected head's layer are shown
    walk: null,       // these steps: see readWalk
    number: null,     // {name of a step, row, column, isOfMap}: the number whose sum is shown; isOfMap: chosen in the large map
    askedWord: null,  // [step, other sentence]: the word that was clicked while its panel was open (rests.js); '': not patched
    rests: null,      // {step, falls, suggestion, patch}: what it rests on, or {error}
    terms: null,      // {of: number, value, sum, terms: [name, x, y, value]}: that sum
};

const usual = { ...state };
const drawers = [];

// Calls draw(changed) after each change of one of these fields, which are listed with spaces between; `changed` is the set of the names of
// all fields that have changed.
function always(fields, draw) {
    drawers.push({ fields: fields.split(' '), draw });
}

// The same once there is a view.
function onChange(fields, draw) {
    always(fields, changed => state.view && draw(changed));
}

function change(fields) {
    const changed = new Set(Object.keys(fields).filter(name => state[name] !== fields[name]));
    Object.assign(state, fields);
    changes++;
    try {
        for (const { fields: drawn, draw } of drawers) if (drawn.some(name => changed.has(name))) draw(changed);
    } finally {
        changes--;
    }
    if (changes) return;
    const draws = [...measures].map(measure => measure());
    measures.clear();
    for (const draw of draws) draw();
}

let changes = 0; // under way: one inside another
const measures = new Set();

// Calls measure() when all that a change draws is drawn, and then the function that it returns, which draws with what was measured: the
// browser needs one layout for all that is measured.
function whenDrawn(measure) {
    if (changes) measures.add(measure);
    else measure()();
}

// Changes the state as a step to which the back button returns. Asks the engine for the view, unless it stays the same.
function go(fields, isSame) {
    change(fields);
    writeAddress(true);
    if (!isSame) ask();
}

function element(id) {
    return document.getElementById(id);
}

// Makes an element; `fields` are its properties, and attributes where their name has a dash.
function make(tag, fields = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(fields))
        if (name.includes('-') || name === 'role') made.setAttribute(name, value);
        else made[name] = value;
    made.append(...children);
    return made;
}

function makeSvg(tag, fields) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(fields)) made.setAttribute(name, value);
    return made;
}

// A line of a chart through points, [x, y] each.
function makeLine(name, points) {
    return makeSvg('polyline', { class: name, points: points.map(String).join(' ') });
}

// Makes children anew; the focus stays where it was, as named by data-test.
function replaceChildren(box, ...children) {
    const focused = box.contains(document.activeElement) && document.activeElement.dataset.test;
    box.replaceChildren(...children);
    if (focused) box.querySelector(`[data-test="${focused}"]`)?.focus();
}

// The text of a number with the sign of minus, which is as wide as a plus.
function minus(text) {
    return text.replaceAll('-', '−');
}

// How large text is beside 16 pixels: wide screens have larger text, and maps grow with it.
let scaleOfText = null; // measured when it is needed: that takes the browser a layout

function textScale() {
    scaleOfText ??= parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    return scaleOfText;
}

addEventListener('resize', () => { scaleOfText = null; });

// The JSON of a script element in base64; null: there is none.
function dataOf(id) {
    const bytes = Uint8Array.from(atob(element(id)?.textContent ?? ''), character => character.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes) || null);
}

// ---- what no frame needs ----

const LATER = 150; // milliseconds after the last change
const postponed = new Map(); // by name: the timer

// Works after the last of several calls with the same name, so that frames stay short while views follow one another fast.
function doLater(name, work) {
    forget(name);
    postponed.set(name, setTimeout(() => {
        postponed.delete(name);
        work();
    }, LATER));
}

function forget(name) {
    clearTimeout(postponed.get(name));
    postponed.delete(name);
}

// ---- the address ----

// [{tutorial, file, name, about, seed, isRandom}] of each scene, where isRandom says whether another seed gives it other numbers;
// null: the page holds a trained run.
const scenes = dataOf('scenes-data');
const LARGEST_SEED = 4294967295;

// {name, source, target, summary, sentence} of a run, with the languages of its texts and the first sentence; null: the page holds scenes.
const run = dataOf('run-data');
const hasSource = run?.source !== ''; // false: a language model, whose text is the target

const SEED = ['seed', text => (/^[0-9]{1,10}$/.test(text) && Number(text) <= LARGEST_SEED ? Number(text) : null)];

// The fields that the address holds: their names there, and how they are read from its text, which may be anything; null: none.
const HELD = scenes ? {
    scene: ['scene', text => Math.max(0, scenes.findIndex(({ file }) => file === text)), number => scenes[number].file],
    seed: SEED,
    head: ['head', text => text],
    colors: ['colors', text => readColors(text)],
} : {
    lesson: ['lesson', text => readStep(text)], // first: see writeAddress
    language: ['lang', text => (text in lessons ? text : usual.language)],
    source: ['s', text => text ?? ''],
    own: ['t', text => text],
    update: ['update', text => readUpdate(text)],
    isHeld: ['held', text => text !== '0', Number],
    isBeside: ['beside', text => text === '1', Number],
    isPresenting: ['present', text => text === '1', Number],
    beam: ['beam', text => (text >= 1 && text <= 100 ? Math.floor(text) : 1)],
    choice: ['n', text => Number(text) || 0],
    seed: SEED,
    temperature: ['temperature', text => Number(text) || usual.temperature], // brought into the range of its slider by showFields
    length: ['length', text => Number(text) || usual.length],
    head: ['head', text => text],
    silent: ['silent', text => text ?? ''],
    silentWords: ['silent-words', text => text ?? ''],
    words: ['words', text => text === '1', Number],
    colors: ['colors', text => readColors(text)],
    isWalking: ['steps', text => text === '1', Number],
};

function readAddress() {
    const texts = new URLSearchParams(location.hash.slice(1).replace(/^lesson-/, 'lesson='));
    return Object.fromEntries(Object.entries(HELD).map(([field, [name, read]]) => [field, read(texts.get(name))]));
}

// After the last of several changes that follow one another fast, as while one types or slides: a new address costs the
// browser more than a frame has time for.
function writeAddressLater() {
    doLater('address', () => writeAddress(false));
}

// isStep: the back button returns to the address before.
function writeAddress(isStep) {
    const texts = new URLSearchParams();
    for (const [field, [name, , write = value => value]] of Object.entries(HELD))
        if (state[field] !== usual[field]) texts.set(name, write(state[field]));
    const address = '#' + String(texts).replace(/^lesson=/, 'lesson-'); // as a link to a part of a page
    forget('address');
    if (address === location.hash) return;
    try {
        if (isStep) history.pushState(null, '', address);
        else history.replaceState(null, '', address);
    } catch { /* browsers limit how often the address may change: the next change writes it */ }
}

// ---- the keyboard ----

// One stop of Tab for a group of things: arrows move the focus among the children of `group` that match `selector`. columns(): number
// of things in a row, for up and down; 0: these keys are not used.
function moveByArrows(group, selector, columns = () => 0) {
    group.addEventListener('keydown', event => {
        const things = [...group.querySelectorAll(selector)], at = things.indexOf(event.target);
        const backwards = getComputedStyle(event.target).direction === 'rtl' ? -1 : 1;
        const step = { ArrowLeft: -backwards, ArrowRight: backwards, ArrowUp: -columns(), ArrowDown: columns() }[event.key];
        const to = event.key === 'Home' ? 0 : event.key === 'End' ? things.length - 1 : at + step;
        if (at < 0 || !things[to] || to === at) return;
        event.preventDefault();
        stopAt(things, to);
        things[to].focus();
    });
    group.addEventListener('focusin', event => {
        const things = [...group.querySelectorAll(selector)], at = things.indexOf(event.target);
        if (at >= 0) stopAt(things, at);
    });
}

// Makes one of the things the stop of Tab.
function stopAt(things, at) {
    things.forEach((thing, i) => { thing.tabIndex = i === at ? 0 : -1; });
}

// Whether a key was pressed alone.
function isKey(event, key) {
    return event.key.toLowerCase() === key && !event.ctrlKey && !event.metaKey && !event.altKey;
}

// Calls typed() when the text of a field has changed; while an input method composes a word, when the word is there.
function onText(field, typed) {
    field.addEventListener('input', event => {
        if (!event.isComposing) typed();
    });
    field.addEventListener('compositionend', typed);
}

document.addEventListener('keydown', event => {
    if (event.key !== 'Escape' || event.isComposing) return;
    closeOverlays();
    change({ hover: null, held: null, cell: null, number: null });
});

// Closes help and known words, which lie over the page; what holds `inside` stays.
function closeOverlays(inside = null) {
    for (const box of document.querySelectorAll('.overlay[open]')) if (!box.contains(inside)) box.open = false;
}

document.addEventListener('click', ({ target }) => closeOverlays(target), true); // before what the click opens

// ---- what the engine says ----

const KINDS = ['encoder', 'decoder', 'cross']; // as enum qkv_attention_kind

// The engine's answer with the words of each map: rows are queries, columns are keys. What a page does not have is empty.
// given: number of target words that the reader gave; before: number of words of the text before those that are shown.
function readView(answer) {
    const view = { source_tokens: [], target_outputs: [], translations: [], maps: [], source_words: [], target_words: [], silent_words: [],
        known_sources: [], known_targets: [], probabilities: [], unsilenced: [], itself: [], read_as: [], given: [0], before: [0], ...answer, heads: [] };
    for (let i = 0, offset = 0; i < view.maps.length; i += 5) {
        const [kind, layer, head, rows, columns] = view.maps.subarray(i, i + 5);
        const name = KINDS[kind];
        view.heads.push({
            name: `${name}-${layer}-${head}`, kind: name, layer, head, rows, columns,
            entropy: view.entropies[i / 5], isSilent: Boolean(view.silent[i / 5]),
            weights: view.weights.subarray(offset, offset + rows * columns),
            rowWords: name === 'encoder' ? view.source_tokens : view.target_outputs,
            columnWords: name === 'decoder' ? view.target_inputs : view.source_tokens,
        });
        offset += rows * columns;
    }
    view.tokenHeads = view.heads;
    return view;
}

function selectedHead() {
    return state.view?.heads.find(head => head.name === state.head) ?? null;
}

const NOWHERE = { row: -1, column: -1 };

// The row and the column of a head's map that belong to a word of the sentence pair; -1: none. In the decoder's own
// attention a word is the row of the step that chooses it, and the column of the next step, which reads it; where tokens are
// merged, both the row and the column of the steps that read it.
function placeOf(head, word) {
    const { side } = word, index = state.words ? state.view[`${side}_words`][word.index] : word.index;
    if (head.kind === 'cross') return side === 'source' ? { row: -1, column: index } : { row: index, column: -1 };
    if ((head.kind === 'encoder') !== (side === 'source')) return NOWHERE;
    if (side === 'source') return { row: index, column: index };
    const next = index + 1 < head.columns ? index + 1 : -1;
    return { row: state.words ? next : index, column: next };
}

// The word of the sentence pair that a row or a column of a head's map stands for; null: <s>.
function wordOf(head, axis, index) {
    if (head.kind === 'decoder' && (axis === 'column' || state.words))
        return index ? { side: 'target', index: firstToken('target', index - 1) } : null;
    const side = head.kind === 'encoder' || (head.kind === 'cross' && axis === 'column') ? 'source' : 'target';
    return { side, index: firstToken(side, index) };
}

// The row and the column of a head's map that are lit up: those of the cell under the pointer, in all maps of its kind;
// else those of the word.
function litPlace(head) {
    if (state.cell && head.kind === selectedHead()?.kind) return state.cell;
    return state.hover ? placeOf(head, state.hover) : NOWHERE;
}

// The pointer has left a word or a map.
function unlight() {
    change({ hover: state.held, cell: null });
}

// ---- words in place of tokens ----

// Tokens are pieces of byte-pair encoding, characters, or punctuation marks. The maps may show each word as one row and one column, as
// `qkv attention --words` does: the columns of its tokens are summed and their rows averaged (Clark et al. 2019), so that the sum of a
// row stays. The sentence pair always shows tokens, because the model chooses these.
const CONTINUES = '@@'; // the end of a piece whose word goes on

// The texts of words, without the marks between their pieces.
function mergedTexts(texts, numbers) {
    const merged = [];
    texts.forEach((text, i) => {
        const goesOn = numbers[i + 1] === numbers[i] && text.length > CONTINUES.length && text.endsWith(CONTINUES);
        merged[numbers[i]] = (merged[numbers[i]] ?? '') + (goesOn ? text.slice(0, -CONTINUES.length) : text);
    });
    return merged;
}

// A cell of words is hidden if all cells of their tokens are. The entropy is the mean of the rows, in nats.
function mergedHead(head, rowNumbers, columnNumbers, rowWords, columnWords) {
    const rows = rowWords.length, columns = columnWords.length, weights = new Float32Array(rows * columns).fill(-1);
    const tokens = rowWords.map((_, row) => rowNumbers.filter(number => number === row).length);
    head.weights.forEach((weight, i) => {
        if (isHidden(weight)) return;
        const row = rowNumbers[Math.floor(i / head.columns)], at = row * columns + columnNumbers[i % head.columns];
        weights[at] = Math.max(0, weights[at]) + weight / tokens[row];
    });
    const entropy = weights.reduce((sum, weight) => (weight > 0 ? sum - weight * Math.log(weight) : sum), 0) / rows;
    return { ...head, rows, columns, weights, rowWords, columnWords, entropy };
}

// A view as the state wants it: with heads of words, or with those of tokens. The decoder reads <s> and then the target, but not its
// last token.
function viewInWords(view) {
    if (!state.words) return { ...view, heads: view.tokenHeads };
    const source = [...view.source_words], target = [...view.target_words], read = [0, ...target.slice(0, -1).map(number => number + 1)];
    const sources = mergedTexts(view.source_tokens, source), outputs = mergedTexts(view.target_outputs, target);
    const inputs = mergedTexts(view.target_inputs, read);
    const axes = { cross: [target, source, outputs, sources], encoder: [source, source, sources, sources],
        decoder: [read, read, inputs, inputs] };
    return { ...view, heads: view.tokenHeads.map(head => mergedHead(head, ...axes[head.kind])) };
}

// The first token of a row or column.
function firstToken(side, index) {
    return state.words ? state.view[`${side}_words`].indexOf(index) : index;
}

// The numbers of the tokens that are shown as one with this token.
function tokensOf({ side, index }) {
    if (!state.words) return [index];
    const numbers = state.view[`${side}_words`];
    return [...numbers.keys()].filter(other => numbers[other] === numbers[index]);
}

element('words').addEventListener('change', () => go({ words: element('words').checked }, true));
onChange('view words', changed => {
    const hasParts = [state.view.source_words, state.view.target_words].some(numbers => numbers.some((number, i) => i && number === numbers[i - 1]));
    element('words').checked = state.words;
    element('words-row').hidden = !hasParts && !state.words;
    if (changed.has('view')) return;
    points = null; // the lines have other ends
    change({ view: viewInWords(state.view), hover: null, held: null, cell: null });
});
