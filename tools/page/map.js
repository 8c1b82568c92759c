// The large map: a table with the words of queries and keys, and one sentence about what is under the pointer.
'use strict';

const MENTIONED = 0.05, MOST_MENTIONED = 3; // weights in the sentence under the map

const SMALLEST_CELL = 14, LARGEST_CELL = 38, TALLEST_MAP = 640; // pixels

const SHORT = /^(.|[\u3000-\u9fff\uac00-\ud7af]{1,2})$/u; // words that stay upright above a column

let cells = []; // [row][column] of the table

// A word at the edge of the table: a handle like the words of the sentence pair.
function headerCell(head, axis, index, text) {
    const cell = make('th', { scope: axis === 'row' ? 'row' : 'col', className: axis },
        make('span', { textContent: text, dir: 'auto' }));
    cell.classList.toggle('short', SHORT.test(text));
    const word = wordOf(head, axis, index);
    cell.addEventListener('pointerenter', () => change({ hover: word, cell: null }));
    cell.addEventListener('pointerleave', () => change({ hover: null }));
    return cell;
}

function weightCell(head, row, column) {
    const weight = head.weights[row * head.columns + column], hidden = isHidden(weight);
    const cell = make('td', { tabIndex: -1, 'data-test': `cell-${row}-${column}` });
    const words = `${head.rowWords[row]}, ${head.columnWords[column]}`;
    cell.setAttribute('aria-label', `${words}, ${hidden ? 'cannot be seen' : weight.toFixed(4)}`);
    if (hidden) cell.className = 'hidden-cell';
    else cell.style.backgroundColor = `rgb(${colorOf(weight)})`;
    const light = () => change({ cell: { row, column }, hover: wordOf(head, 'row', row) });
    cell.addEventListener('pointerenter', light);
    cell.addEventListener('focus', light);
    return cell;
}

// The side of a cell in pixels, so that the map fits if it can.
function cellSize(head, table) {
    table.style.setProperty('--cell', '0px');
    const free = element('map').clientWidth - table.querySelector('tbody th').offsetWidth - 8;
    return Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL, Math.floor(free / head.columns), Math.floor(TALLEST_MAP / head.rows)));
}

function showMap() {
    const head = selectedHead();
    element('large').hidden = !head;
    cells = [];
    if (!head) return;
    const title = `${head.kind[0].toUpperCase()}${head.kind.slice(1)} attention, layer ${head.layer}, head ${head.head}`;
    element('map-title').textContent = title;
    const top = make('tr', {}, make('td', { className: 'corner' }),
        ...head.columnWords.map((text, i) => headerCell(head, 'column', i, text)));
    const rows = head.rowWords.map((text, row) => {
        cells.push(head.columnWords.map((_, column) => weightCell(head, row, column)));
        return make('tr', {}, headerCell(head, 'row', row, text), ...cells[row]);
    });
    const table = make('table', { 'aria-label': `${title}: weights of queries (rows) on keys (columns)` },
        make('thead', {}, top), make('tbody', {}, ...rows));
    element('map').replaceChildren(table);
    table.style.setProperty('--cell', `${cellSize(head, table)}px`);
    moveByArrows(table, 'td[data-test]', () => head.columns);
    stopAt(cells.flat(), 0);
}

element('map').addEventListener('pointerleave', () => change({ cell: null, hover: null }));

function lightMap() {
    const head = selectedHead();
    if (!head || !cells.length) return;
    const lit = state.hover ? placeOf(head, state.hover) : { row: -1, column: -1 };
    if (state.cell) Object.assign(lit, state.cell);
    const table = element('map').firstChild;
    for (const old of table.querySelectorAll('.lit')) old.classList.remove('lit');
    const light = cell => cell?.classList.add('lit');
    if (lit.row >= 0) table.querySelectorAll('tbody th')[lit.row]?.classList.add('lit');
    if (lit.column >= 0) table.querySelectorAll('thead th')[lit.column]?.classList.add('lit');
    for (let column = 0; column < head.columns; column++) light(cells[lit.row]?.[column]);
    for (let row = 0; row < head.rows; row++) light(cells[row][lit.column]);
}

// ---- the sentence under the map ----

// “gato takes 0.97 of its attention from cat, 0.02 from the”
function sentenceOfRow(head, row) {
    const weights = [...head.weights.subarray(row * head.columns, (row + 1) * head.columns)];
    const order = weights.map((weight, column) => ({ weight, column })).sort((a, b) => b.weight - a.weight);
    const parts = order.filter((part, i) => !i || part.weight >= MENTIONED).slice(0, MOST_MENTIONED);
    const [first, ...rest] = parts.map(({ weight, column }) => [weight.toFixed(2), head.columnWords[column]]);
    return `${head.rowWords[row]} takes ${first[0]} of its attention from ${first[1]}` +
        rest.map(([weight, word]) => `, ${weight} from ${word}`).join('');
}

// “cat gets 0.97 of the attention of gato”
function sentenceOfColumn(head, column) {
    const takers = [];
    for (let row = 0; row < head.rows; row++)
        takers.push({ weight: head.weights[row * head.columns + column], row });
    takers.sort((a, b) => b.weight - a.weight);
    const parts = takers.filter((part, i) => !i || part.weight >= MENTIONED).slice(0, MOST_MENTIONED);
    return `${head.columnWords[column]} gets ` +
        parts.map(({ weight, row }) => `${weight.toFixed(2)} of the attention of ${head.rowWords[row]}`).join(', ');
}

function sentenceOfCell(head, { row, column }) {
    const weight = head.weights[row * head.columns + column];
    const [query, key] = [head.rowWords[row], head.columnWords[column]];
    return isHidden(weight) ? `${query} cannot see ${key}` : `${query} takes ${weight.toFixed(4)} of its attention from ${key}`;
}

// What the whole map does, when nothing is under the pointer.
function sentenceOfHead(head) {
    const kinds = head.entropy < 0.5 ? 'looks at few words' : head.entropy < 1.5 ? 'looks at some words' : 'looks at many words';
    return `This head ${kinds}: the mean entropy of its rows is ${head.entropy.toFixed(2)} nats. Point at a word or a cell.`;
}

function caption() {
    const head = selectedHead();
    if (!head) return '';
    if (state.cell) return sentenceOfCell(head, state.cell);
    const lit = state.hover ? placeOf(head, state.hover) : { row: -1, column: -1 };
    if (lit.row >= 0) return sentenceOfRow(head, lit.row);
    return lit.column >= 0 ? sentenceOfColumn(head, lit.column) : sentenceOfHead(head);
}

listen(changed => {
    if (!state.view) return;
    const rebuilds = ['view', 'head', 'theme'].some(name => changed.has(name));
    if (rebuilds) showMap();
    if (rebuilds || changed.has('hover') || changed.has('cell')) {
        lightMap();
        element('caption').textContent = caption();
    }
});
