// The overview: every head of every layer and kind as a small map; a click makes it the large one. A hovered word is a
// mark at the edges of all maps, so that no map is drawn again.
'use strict';

const SMALL_MAP = 68;   // pixels, about: cells are whole pixels
const MANY_HEADS = 5;   // in a layer: their labels are short, and the overview is wide
const MIN_MAP_SIZE = 30, LAYER_LABEL = 58, HEAD_MARGIN = 20, NARROW = 440; // pixels: see style.css

const KIND_TITLES = { cross: 'translation looks at sentence', decoder: 'translation looks at itself', encoder: 'sentence looks at itself' };

function headTitle(head) {
    if (scenes) return state.view.heads.length < 2 ? 'attention weights' : `attention weights, head ${head.head}`;
    return `${head.kind} attention, layer ${head.layer}, head ${head.head}`;
}

// Orders of the heads of a kind, beside that by layers: the number that is shown, the lowest first, and what it means.
const ORDERS = {
    entropy: { value: head => head.entropy, text: value => value.toFixed(2),
        note: 'Number: mean entropy of the rows in nats; 0: each word looks at one word only.' },
    error: { value: head => errorAt(learning.moments[momentNumber()], head.name), text: value => value === null ? '–' : errorText(value),
        note: 'Number: alignment error rate; 0 %: each word looks most at the words that gold links name. –: it looks at its own text.' },
};
if (learning.moments.at(-1).errors) element('order').append(make('option', { value: 'error', textContent: 'best aligned first' }));

function shownNumber() {
    return ORDERS[state.order] ?? ORDERS.entropy;
}

let overviewWidth = null; // in pixels; measured when it is needed: that takes the browser a layout

// The size of small maps in pixels, so that all heads of a layer stand in one row if they can.
function smallSize(heads) {
    const headCount = Math.max(...heads.map(head => head.head)), whole = SMALL_MAP * textScale();
    if (headCount < MANY_HEADS) return whole;
    overviewWidth ??= element('overview').clientWidth;
    const label = overviewWidth < NARROW ? 0 : LAYER_LABEL * textScale();
    return Math.max(MIN_MAP_SIZE, Math.min(whole, (overviewWidth - label) / headCount - HEAD_MARGIN));
}

new ResizeObserver(() => { overviewWidth = null; }).observe(element('overview'));

// What a head says of itself beside its map.
function nameHead({ button, label, number }, head) {
    const error = ORDERS.error.value(head), said = error === null ? '' : `, alignment error ${errorText(error)}`;
    button.title = `${headTitle(head)}, mean entropy ${head.entropy.toFixed(2)} nats${said}${head.isSilent ? ', silent' : ''}`;
    button.setAttribute('aria-label', `${label} ${number.textContent}: ${button.title}`); // begins with what is seen, for speech input
}

function makeHead(head, size, withLayer) {
    const isShort = size < SMALL_MAP * textScale();
    const label = withLayer ? `L${head.layer} H${head.head}` : isShort ? String(head.head) : `head ${head.head}`;
    const canvas = make('canvas', { className: 'small' }), number = make('span', { className: 'number' });
    const rowMark = make('span', { className: 'row-mark' }), columnMark = make('span', { className: 'column-mark' });
    const frame = make('span', { className: 'frame' }, canvas, rowMark, columnMark), silencer = makeSilencer(head);
    const button = make('button', { type: 'button', className: 'head', 'data-test': `head-${head.name}`, tabIndex: -1,
        'aria-keyshortcuts': 'S' },
        frame, make('span', { className: 'head-label', textContent: label }), ' ', number);
    button.dataset.name = head.name;
    button.style.setProperty('--rows', head.rows);
    button.style.setProperty('--columns', head.columns);
    button.addEventListener('click', () => {
        change({ head: head.name, cell: null });
        writeAddress(true);
    });
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
    markSilencer(parts.silencer, head);
}

function cellOfSmallMap(head, size) {
    return Math.max(1, Math.floor(size / Math.max(head.rows, head.columns)));
}

// The maps of one kind: a row for each layer, the last on top, or one list from the sharpest head on.
function makeKind(kind, heads, size) {
    const title = scenes ? ['a map for each head'] : [make('strong', { textContent: kind }), ` ${KIND_TITLES[kind]}`];
    const box = make('div', { className: 'kind' }, make('h3', {}, ...title));
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
    const size = smallSize(state.view.heads);
    for (const head of state.view.heads) if (shownHeads.get(head.name).isInView) drawHead(shownHeads.get(head.name), head, size);
    doLater('heads', () => {
        for (const head of state.view.heads) {
            const parts = shownHeads.get(head.name);
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
    const hadFocus = element('overview').contains(document.activeElement) && document.activeElement.dataset.test;
    const { heads } = state.view;
    const kinds = Object.keys(KIND_TITLES).filter(kind => heads.some(head => head.kind === kind));
    const size = heads.length ? smallSize(heads) : 0;
    const boxes = kinds.map(kind => makeKind(kind, heads.filter(head => head.kind === kind), size));
    if (!boxes.length) boxes.push(make('p', { textContent: 'This model has no attention.' }));
    element('overview').replaceChildren(...boxes);
    element('heads-note').textContent = `${shownNumber().note}${sayHowToSilence()}`;
    const focused = hadFocus && element('overview').querySelector(`[data-test="${hadFocus}"]`);
    if (focused) focused.focus();
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

listen(changed => {
    if (!state.view) return;
    if (['view', 'theme', 'order'].some(name => changed.has(name))) showHeads();
    else if (changed.has('head')) markSelected();
    if (['hover', 'cell', 'head', 'view', 'theme', 'order'].some(name => changed.has(name))) lightHeads();
});
