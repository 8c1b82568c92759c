// The overview: every head of every layer and kind as a small map; a click makes it the large one. A hovered word is a
// mark at the edges of all maps, so that no map is drawn again. Below it, what `qkv page` has measured on sentence pairs; and silence,
// of heads and of words.
'use strict';

const SMALL_MAP = 68;   // pixels, about: cells are whole pixels
const MANY_HEADS = 5;   // in a layer: their labels are short, and the overview is wide
const MIN_MAP_SIZE = 30, LAYER_LABEL = 58, HEAD_MARGIN = 20, NARROW = 440; // pixels: see style.css

const KIND_TITLES = { cross: 'translation looks at sentence', decoder: `${hasSource ? 'translation' : 'text'} looks at itself`, encoder: 'sentence looks at itself' };

function headTitle(head) {
    if (scenes) return state.view.heads.length < 2 ? 'attention weights' : `attention weights, head ${head.head}`;
    return `${head.kind} attention, layer ${head.layer}, head ${head.head}`;
}

// Over how many words the rows of a head are spread: as many as would have the entropy with equal weights.
function spread(entropy) {
    return Math.exp(entropy).toFixed(1);
}

// Orders of the heads of a kind, beside that by layers: the number that is shown, the lowest first, and what it means.
const ORDERS = {
    entropy: { value: head => head.entropy, text: value => spread(value),
        note: 'Number: over how many words a row is spread; 1.0: each word looks at one word only.' },
    error: { value: head => errorAt(learning.moments[momentNumber()], head.name), text: value => value === null ? '–' : errorText(value),
        note: 'Number: alignment error rate; 0 %: each word looks most at the words that gold links name. –: it looks at its own text.' },
};
if (learning.moments.at(-1).errors) element('order').append(make('option', { value: 'error', textContent: 'best aligned first' }));

function shownNumber() {
    return ORDERS[state.order] ?? ORDERS.entropy;
}

let overviewWidth = null; // in pixels; null: not measured yet

// The size of small maps in pixels, so that all heads of a layer stand in one row if they can.
function smallSize(heads) {
    const headCount = Math.max(...heads.map(head => head.head)), whole = SMALL_MAP * textScale();
    if (headCount < MANY_HEADS) return whole;
    overviewWidth ??= element('overview').clientWidth;
    const label = overviewWidth < NARROW ? 0 : LAYER_LABEL * textScale();
    return Math.max(MIN_MAP_SIZE, Math.min(whole, (overviewWidth - label) / headCount - HEAD_MARGIN));
}

new ResizeObserver(([{ contentRect: { width } }]) => { overviewWidth = width; }).observe(element('overview'));

// What a head says of itself beside its map.
function nameHead({ button, label, number }, head) {
    const error = ORDERS.error.value(head), said = error === null ? '' : `, alignment error ${errorText(error)}`;
    button.title = `${headTitle(head)}, spread over ${spread(head.entropy)} words${said}${head.isSilent ? ', silent' : ''}`;
    button.setAttribute('aria-label', `${label} ${number.textContent}: ${button.title}`); // begins with what is seen, for speech input
}

function makeHead(head, size, withLayer) {
    const isShort = size < SMALL_MAP * textScale();
    const label = withLayer ? `L${head.layer} H${head.head}` : isShort ? String(head.head) : `head ${head.head}`;
    const canvas = make('canvas', { className: 'small' }), number = make('span', { className: 'number' });
    const rowMark = make('span', { className: 'row-mark' }), columnMark = make('span', { className: 'column-mark' });
    const frame = make('span', { className: 'frame' }, canvas, rowMark, columnMark);
    const silencer = makeSilencer('silent', head.name, headTitle(head), `silence-${head.name}`);
    const button = make('button', { type: 'button', className: 'head', 'data-test': `head-${head.name}`, tabIndex: -1,
        'aria-keyshortcuts': 'S' },
        frame, make('span', { className: 'head-label', textContent: label }), ' ', number);
    button.dataset.name = head.name;
    button.style.setProperty('--rows', head.rows);
    button.style.setProperty('--columns', head.columns);
    button.addEventListener('click', () => go({ head: head.name, cell: null }, true));
    const parts = { button, label, number, frame, canvas, rowMark, columnMark, silencer, isInView: true };
    shownHeads.set(head.name, parts);
    headsInView.observe(button);
    drawHead(parts, head, size);
    nameHead(parts, head);
    return make('div', { className: 'head-box' }, button, silencer);
}

const headsInView = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
        const parts = shownHeads.get(target.dataset.name);
        if (parts) parts.isInView = isIntersecting;
    }
}, { rootMargin: '100px' });

function drawHead(parts, head, size) {
    drawMap(parts.canvas, head, cellOfSmallMap(head, size));
    parts.number.textContent = shownNumber().text(shownNumber().value(head));
    parts.frame.classList.toggle('silent', head.isSilent);
    markSilencer(parts.silencer, head.isSilent, 'head', '');
}

function cellOfSmallMap(head, size) {
    return Math.max(1, Math.floor(size / Math.max(head.rows, head.columns)));
}

// The maps of one kind: a row for each layer, the last on top, or one list from the sharpest head on.
function makeKind(kind, heads, size) {
    const title = scenes ? ['a map for each head'] : [make('strong', { textContent: kind }), ` ${KIND_TITLES[kind]}`];
    const box = make('div', { className: 'kind' }, make('div', { className: 'kind-title' }, make('h3', {}, ...title), ...silencerOfKind(heads)));
    box.dataset.kind = kind;
    const { value } = shownNumber();
    if (state.order !== 'layer' && heads.some(head => value(head) !== null)) {
        const sorted = [...heads].sort((a, b) => value(a) - value(b));
        box.append(make('div', { className: 'layer' }, ...sorted.map(head => makeHead(head, size, true))));
        return box;
    }
    const layers = [...new Set(heads.map(head => head.layer))].sort((a, b) => b - a);
    for (const layer of layers)
        box.append(make('div', { className: 'layer', role: 'group', 'aria-label': `layer ${layer}` },
            make('span', { className: 'layer-label', textContent: `layer ${layer}` }),
            ...heads.filter(head => head.layer === layer).map(head => makeHead(head, size, false))));
    return box;
}

// What the boxes of the overview depend on: as long as it stays, new maps are drawn into the old boxes, which is what sliding
// over training needs.
function layoutOfHeads() {
    const size = state.view.heads.length ? smallSize(state.view.heads) : 0;
    return JSON.stringify([size, state.order === 'layer', ...state.view.heads.map(({ name, rows, columns }) => [name, rows, columns])]);
}

let shownLayout = null;
const shownHeads = new Map(); // by name: the parts of a head's box (makeHead)

// Draws the maps that are in view; the others, and the names of all, when no view follows this one.
function redrawHeads() {
    const size = smallSize(state.view.heads), all = state.view.heads.map(head => [shownHeads.get(head.name), head]);
    for (const [parts, head] of all) if (parts.isInView) drawHead(parts, head, size);
    doLater('heads', () => {
        for (const [parts, head] of all) {
            drawHead(parts, head, size);
            nameHead(parts, head);
        }
    });
}

function showHeads() {
    document.body.classList.toggle('many-heads', state.view.heads.some(head => head.head >= MANY_HEADS));
    const layout = layoutOfHeads();
    if (layout === shownLayout && state.order === 'layer') return redrawHeads();
    shownLayout = layout;
    shownHeads.clear();
    headsInView.disconnect();
    forget('heads');
    const { heads } = state.view;
    const kinds = Object.keys(KIND_TITLES).filter(kind => heads.some(head => head.kind === kind));
    const size = heads.length ? smallSize(heads) : 0;
    const boxes = kinds.map(kind => makeKind(kind, heads.filter(head => head.kind === kind), size));
    if (!boxes.length) boxes.push(make('p', { textContent: 'This model has no attention.' }));
    replaceChildren(element('overview'), ...boxes);
    element('heads-note').textContent = `${shownNumber().note}${sayHowToSilence()}`;
    markSelected();
}

function markSelected() {
    const buttons = [...element('overview').querySelectorAll('.head')];
    for (const button of buttons) button.setAttribute('aria-pressed', button.dataset.name === state.head);
    stopAt(buttons, Math.max(0, buttons.findIndex(button => button.dataset.name === state.head)));
}

// Moves the marks at the edges of all maps of a kind. They are elements of their own, and only moved: anything else takes the
// browser longer than a frame where there are many heads.
function moveMarks(box, lit) {
    const { row, column } = lit;
    const heads = state.view.heads.filter(head => head.kind === box.dataset.kind).map(head => shownHeads.get(head.name));
    if (row >= 0) for (const { rowMark } of heads) rowMark.style.transform = `translateY(${100 * row}%)`;
    if (column >= 0) for (const { columnMark } of heads) columnMark.style.transform = `translateX(${100 * column}%)`;
    box.classList.toggle('row-lit', row >= 0);
    box.classList.toggle('column-lit', column >= 0);
}

function lightHeads() {
    for (const box of element('overview').querySelectorAll('.kind'))
        moveMarks(box, litPlace(state.view.heads.find(head => head.kind === box.dataset.kind)));
}

// Heads in one row of the overview, for the arrow keys.
function headsInRow() {
    const buttons = [...element('overview').querySelectorAll('.head')];
    const top = button => button.getBoundingClientRect().top;
    return Math.max(1, buttons.filter(button => top(button) === top(buttons[0])).length);
}

moveByArrows(element('overview'), '.head', headsInRow);
element('order').addEventListener('change', () => change({ order: element('order').value }));

onChange('view order isDark colors', showHeads);
onChange('head', markSelected);
onChange('hover cell head view order isDark colors', lightHeads);

// ---- what silencing each head changes ----

function signed(number, digits) {
    return `${number < 0 ? '−' : '+'}${Math.abs(number).toFixed(digits)}`;
}

function makeEffect(head) {
    const silent = make('span', { className: 'effect-silent unseen', textContent: ', silent' }); // to hear; to see, the name is struck through
    const button = make('button', { type: 'button', textContent: wordsOfHead(head.name) });
    button.addEventListener('click', () => go({ head: head.name, cell: null }, true));
    const row = make('tr', { 'data-test': `effect-${head.name}` }, make('th', { scope: 'row' }, button, silent),
        make('td', { textContent: signed(head.loss, 4) }), make('td', { textContent: signed(head.bleu, 2) }));
    row.dataset.name = head.name;
    return row;
}

// The table, with the heads that the model needs most on top.
function showEffects() {
    const { pairs, file, loss, bleu, heads } = measured;
    element('effects-note').textContent = `Measured on ${pairs} pairs of ${file} with the learned weights: loss ${loss.toFixed(4)} ` +
        `nats a token, BLEU ${bleu.toFixed(2)}. What changes when one head alone is silent, from the head that the model needs most to the one that it needs least:`;
    element('effects-rows').append(...[...heads].sort((a, b) => b.loss - a.loss).map(makeEffect));
    element('effects').hidden = false;
}

function markEffects() {
    for (const row of element('effects-rows').children) {
        const { name } = row.dataset;
        row.classList.toggle('silenced', Boolean(state.view.heads.find(head => head.name === name)?.isSilent));
        row.firstChild.firstChild.setAttribute('aria-pressed', name === state.head);
    }
}

if (measured) {
    showEffects();
    onChange('view head', markEffects);
}

// ---- silence ----

// A silent head passes on nothing, and nothing attends to a silent word of the sentence. A cross at each small map and at each word, or
// the key S there, silences it or lets it speak again; translation, probabilities and maps follow. `field` is that of the state:
// 'silent' for heads, 'silentWords'. An address may hold anything there.

const silentSide = hasSource ? 'source' : 'target'; // whose words can be silent

// The silent heads as the engine reads them: [kind, layer, head].
function silentHeads() {
    const parts = state.silent.split(',').map(name => /^([a-z]+)-(\d{1,5})-(\d{1,5})$/.exec(name));
    return parts.filter(part => part && KINDS.includes(part[1]))
        .map(([, kind, layer, head]) => [KINDS.indexOf(kind), Number(layer), Number(head)]);
}

// The numbers of the silent words from 0, as the engine reads them.
function silentWords() {
    return state.silentWords.split(',').filter(number => /^[1-9]\d{0,5}$/.test(number)).map(number => number - 1);
}

function isSilentWord(index) {
    return Boolean(state.view.silent_words[state.view.before[0] + index]);
}

// Networks without attention, and the score local_p, cannot.
function canSilenceWords() {
    return state.view.silent_words.length > 0;
}

function setSilent(field, names) {
    go({ [field]: names.join(), choice: 0 });
}

function toggleSilence(field, name) {
    const names = state[field].split(',').filter(Boolean);
    setSilent(field, names.includes(name) ? names.filter(other => other !== name) : [...names, name]);
}

// The button that silences all heads of a kind: when one is silent, others may do its work.
function silencerOfKind(heads) {
    if (scenes || heads.length < 2) return [];
    const button = make('button', { type: 'button', className: 'all-silent', textContent: `silence all ${heads.length}`, 'data-test': `silence-all-${heads[0].kind}` });
    button.addEventListener('click', () => setSilent('silent', [...new Set([...state.silent.split(',').filter(Boolean), ...heads.map(head => head.name)])]));
    return [button];
}

// The toggle of a head or a word. The keyboard has the key S instead, so that Tab does not stop twice at each.
function makeSilencer(field, name, label, test) {
    const button = make('button', { type: 'button', className: 'silencer', textContent: '×', tabIndex: -1,
        'aria-label': `silence ${label}`, 'data-test': test });
    button.addEventListener('click', () => toggleSilence(field, name));
    return button;
}

function markSilencer(button, isSilent, what, meaning) {
    button.setAttribute('aria-pressed', isSilent);
    button.title = isSilent ? `let this ${what} speak again (S)` : `silence this ${what}${meaning} (S)`;
}

// A word of the sentence, or of the text, with its toggle; the word alone where the model cannot silence words.
function withSilencer(word, index) {
    if (!canSilenceWords()) return word;
    word.dataset.name = state.view.before[0] + index + 1;
    word.setAttribute('aria-keyshortcuts', 'S');
    const silencer = makeSilencer('silentWords', word.dataset.name, word.firstChild.data, `silence-word-${index}`);
    for (const type of ['pointerenter', 'pointerleave']) silencer.addEventListener(type, () => word.dispatchEvent(new Event(type)));
    return make('span', { className: 'word-box' }, word, silencer);
}

// Keys do not show.
function sayHowToSilence() {
    if (scenes || !state.view.heads.length) return '';
    return ` × or the key S silences a head${canSilenceWords() ? `, also a word of the ${hasSource ? 'sentence' : 'text'}` : ''}.`;
}

// Says what is silent. The button that lets all speak hides; the focus of the keyboard then goes on to what the button was for.
function saySilence(text, note, button, group) {
    const hadFocus = !text && element(button).matches(':focus-visible');
    element(note).textContent = text;
    element(button).hidden = !text;
    if (hadFocus) element(group).querySelector('[tabindex="0"]')?.focus();
}

for (const [group, button, field] of [['overview', 'speak', 'silent'], [`${silentSide}-words`, 'words-speak', 'silentWords']]) {
    element(group).addEventListener('keydown', event => {
        const { name } = event.target.dataset;
        if (!isKey(event, 's') || !name) return;
        event.preventDefault();
        toggleSilence(field, name);
    });
    element(button).addEventListener('click', () => setSilent(field, []));
}

onChange('view', () => {
    const { view } = state, heads = view.heads.filter(head => head.isSilent), words = (hasSource ? view.source_tokens : view.target_outputs).filter((_, index) => isSilentWord(index));
    const isRead = hasSource && view.heads.every(head => head.kind !== 'encoder'); // by a recurrent encoder
    const ofHeads = heads.length > 1 ? `${heads.length} heads are silent` : heads.map(head => `silent: ${headTitle(head)}`).join();
    const ofWords = `silent: ${words.map(quoted).join(', ')}. Nothing attends to a silent word${isRead ? ', but the encoder reads it' : ''}.`;
    saySilence(ofHeads, 'silent', 'speak', 'overview');
    saySilence(words.length ? ofWords : '', 'silent-words', 'words-speak', `${silentSide}-words`);
});
