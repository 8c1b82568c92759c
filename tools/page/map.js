// The large map: a table with the words of queries and keys.
'use strict';

const SMALLEST_CELL = 14, LARGEST_CELL = 38; // pixels
const AROUND_MAP = 330, LOWEST_MAP = 320, TALLEST_MAP = 640; // pixels: what stands around the map, which should fit the window

let cells = []; // [row][column] of the table
let cellColors = []; // [row * columns + column]; '': a masked cell
let shownMap = null; // the words and the place of the map that the table was made for, as a text

// A word at the edge of the table: a handle like the words of the sentence pair.
function headerCell(head, axis, index, text) {
    const cell = make('th', { scope: axis === 'row' ? 'row' : 'col', className: `${axis} ${columnClass(text)}` },
        make('span', { textContent: text, dir: 'auto' }));
    const word = wordOf(head, axis, index);
    cell.classList.toggle('silent-word', word?.side === 'source' && tokensOf(word).every(isSilentWord));
    cell.addEventListener('pointerenter', () => change({ hover: word, cell: null }));
    cell.addEventListener('pointerleave', unlight);
    return cell;
}

// A row of the decoder's own attention is a step, which reads one token and chooses the next.
function rowTitle(head, row) {
    return head.kind === 'decoder' && !state.words ? `${isolated(head.columnWords[row])} → ${isolated(head.rowWords[row])}` : head.rowWords[row];
}

// Shows the weights in their cells. Their names follow when no view follows this one.
function fillCells(head) {
    head.weights.forEach((weight, i) => {
        const hidden = isHidden(weight), color = hidden ? '' : paletteTexts[shadeOfWeight(weight)];
        if (color === cellColors[i]) return;
        const cell = cells[Math.floor(i / head.columns)][i % head.columns];
        if (hidden || cellColors[i] === '') cell.classList.toggle('hidden-cell', hidden);
        cell.style.backgroundColor = cellColors[i] = color;
    });
    doLater('cell names', nameCells);
}

function nameCells() {
    const head = selectedHead();
    if (!head) return; // an address without a head has been opened meanwhile
    cells.forEach((line, row) => line.forEach((cell, column) => {
        const weight = head.weights[row * head.columns + column];
        cell.setAttribute('aria-label', `${head.rowWords[row]}, ${head.columnWords[column]}, ${isHidden(weight) ? 'masked' : weight.toFixed(4)}`);
    }));
}

// The pointer or the focus is on a cell.
function lightCell({ target }) {
    const [, row, column] = /^cell-(\d+)-(\d+)$/.exec(target.dataset.test ?? '') ?? [];
    if (row === undefined) return;
    if (postponed.has('cell names')) nameCells();
    target.title = target.getAttribute('aria-label');
    change({ cell: { row: Number(row), column: Number(column) }, hover: wordOf(selectedHead(), 'row', Number(row)) });
}

// The side of a cell in pixels, so that the map fits if it can.
function cellSize(head, table) {
    table.style.setProperty('--cell', '0px');
    const free = element('map').clientWidth - table.querySelector('tbody th').offsetWidth - 8, scale = textScale();
    const height = Math.max(LOWEST_MAP, Math.min(TALLEST_MAP * scale, innerHeight - AROUND_MAP * scale));
    return Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL * scale, Math.floor(free / head.columns), Math.floor(height / head.rows)));
}

function showMap() {
    const head = selectedHead();
    element('large').hidden = !head;
    if (!head) return;
    const name = headTitle(head), title = `${name[0].toUpperCase()}${name.slice(1)}${head.isSilent ? ', silent' : ''}`;
    element('map-title').textContent = title;
    element('axes').textContent = axesText(head);
    element('masked').hidden = !head.weights.some(isHidden);
    const map = JSON.stringify([head.name, head.rowWords, head.columnWords, [...state.view.silent_sources]]);
    const labels = `${title}: weights of queries (rows) on keys (columns)`;
    if (map === shownMap) {
        element('map').firstChild.setAttribute('aria-label', labels);
        return fillCells(head);
    }
    shownMap = map;
    cells = [];
    cellColors = [];
    const top = make('tr', {}, make('td', { className: 'corner' }),
        ...head.columnWords.map((text, i) => headerCell(head, 'column', i, text)));
    const rows = head.rowWords.map((_, row) => {
        cells.push(head.columnWords.map((_, column) => make('td', { tabIndex: -1, 'data-test': `cell-${row}-${column}` })));
        return make('tr', {}, headerCell(head, 'row', row, rowTitle(head, row)), ...cells[row]);
    });
    const table = make('table', { 'aria-label': labels },
        make('thead', {}, top), make('tbody', {}, ...rows));
    fillCells(head);
    nameCells();
    element('map').replaceChildren(table);
    table.style.setProperty('--cell', `${cellSize(head, table)}px`);
    table.addEventListener('pointerover', lightCell);
    table.addEventListener('focusin', lightCell);
    moveByArrows(table, 'td[data-test]', () => head.columns);
    stopAt(cells.flat(), 0);
}

element('map').addEventListener('pointerleave', unlight);
new ResizeObserver(() => {
    const head = selectedHead(), table = element('map').firstChild;
    if (head && table) table.style.setProperty('--cell', `${cellSize(head, table)}px`);
}).observe(element('map'));

function lightMap() {
    const head = selectedHead();
    if (!head || !cells.length) return;
    const lit = litPlace(head);
    const table = element('map').firstChild;
    for (const old of table.querySelectorAll('.lit')) old.classList.remove('lit');
    const light = cell => cell?.classList.add('lit');
    if (lit.row >= 0) table.querySelectorAll('tbody th')[lit.row]?.classList.add('lit');
    if (lit.column >= 0) table.querySelectorAll('thead th')[lit.column]?.classList.add('lit');
    for (let column = 0; column < head.columns; column++) light(cells[lit.row]?.[column]);
    for (let row = 0; row < head.rows; row++) light(cells[row][lit.column]);
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
