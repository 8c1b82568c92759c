// The one state of the page, who listens to it, and the address that holds it.
'use strict';

const state = {
    source: '',       // the sentence
    scene: 0,         // in a page of scenes (scenes.js): which one
    seed: null,       // of the random numbers of the scene; null: its own
    own: null,        // a translation of the user's own; null: the model translates
    update: null,     // of training, whose parameters translate; null: the learned ones
    beam: 1,          // hypotheses of the search
    choice: 0,        // number of the translation that is shown
    head: null,       // name of the selected head, such as 'cross-2-1'
    silent: '',       // names of the silent heads, in the order of the model, with commas between
    silentWords: '',  // numbers from 1 of the words of the sentence to which nothing attends, with commas between
    words: false,     // the maps show words in place of tokens (words.js)
    colors: null,     // name of the colormap of weights; null: the usual one
    hover: null,      // {side: 'source' or 'target', index}: the word that is lit up
    held: null,       // the word that was clicked: lit up while the pointer is on no other
    cell: null,       // {row, column} of the large map under the pointer
    step: 0,          // the target word whose alternatives are listed
    view: null,       // what the engine says: see readView
    order: 'layer',   // of the heads in the overview
    isWalking: false, // the steps through the selected head's layer are shown
    walk: null,       // these steps: see readWalk
    number: null,     // {name of a step, row, column}: the number whose sum is shown
    terms: null,      // {of: number, value, sum, terms: [name, x, y, value]}: that sum
};

const listeners = [];

// Calls listener(changed) after each change; `changed` is the set of names of the fields that have changed.
function listen(listener) {
    listeners.push(listener);
}

function change(fields) {
    const changed = new Set(Object.keys(fields).filter(name => state[name] !== fields[name]));
    if (!changed.size) return;
    Object.assign(state, fields);
    for (const listener of listeners) listener(changed);
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

// The text of a script element in base64.
function textOf(id) {
    return new TextDecoder().decode(Uint8Array.from(atob(element(id).textContent), character => character.charCodeAt(0)));
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

function readAddress() {
    const fields = new URLSearchParams(location.hash.slice(1));
    if (scenes) return readSceneAddress(fields);
    const beam = Number(fields.get('beam'));
    return { source: fields.get('s') ?? '', own: fields.get('t'), beam: beam >= 1 && beam <= 100 ? Math.floor(beam) : 1,
        choice: Number(fields.get('n')) || 0, head: fields.get('head'), silent: fields.get('silent') ?? '',
        silentWords: fields.get('silent-words') ?? '', colors: readColors(fields.get('colors')),
        words: fields.get('words') === '1', update: readUpdate(fields.get('update')), isWalking: fields.get('steps') === '1' };
}

// After the last of several changes that follow one another fast, as while one types or slides: a new address costs the
// browser more than a frame has time for.
function writeAddressLater() {
    doLater('address', () => writeAddress(false));
}

// isStep: the back button returns to the address before.
function writeAddress(isStep) {
    const fields = new URLSearchParams();
    if (scenes) writeSceneAddress(fields);
    if (state.source) fields.set('s', state.source);
    if (state.own !== null) fields.set('t', state.own);
    if (state.update !== null) fields.set('update', state.update);
    if (state.beam > 1) fields.set('beam', state.beam);
    if (state.choice) fields.set('n', state.choice);
    if (state.head) fields.set('head', state.head);
    if (state.silent) fields.set('silent', state.silent);
    if (state.silentWords) fields.set('silent-words', state.silentWords);
    if (state.words) fields.set('words', 1);
    if (state.colors !== null) fields.set('colors', state.colors);
    if (state.isWalking && !scenes) fields.set('steps', 1);
    const address = '#' + fields;
    forget('address');
    if (address === location.hash) return;
    try {
        if (isStep) history.pushState(null, '', address);
        else history.replaceState(null, '', address);
    } catch { /* browsers limit how often the address may change: the next change writes it */ }
}

// ---- what the engine says ----

const KINDS = ['encoder', 'decoder', 'cross']; // as enum qkv_attention_kind

// The engine's answer with the words of each map: rows are queries, columns are keys.
function readView(answer) {
    const view = { ...answer, heads: [] };
    for (let i = 0, offset = 0; i < answer.maps.length; i += 5) {
        const [kind, layer, head, rows, columns] = answer.maps.subarray(i, i + 5);
        const name = KINDS[kind];
        view.heads.push({
            name: `${name}-${layer}-${head}`, kind: name, layer, head, rows, columns,
            entropy: answer.entropies[i / 5], isSilent: Boolean(answer.silent[i / 5]),
            weights: answer.weights.subarray(offset, offset + rows * columns),
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
    const { side } = word, index = indexInMap(word);
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
