// The large map: the colours of weights, a table with the words of queries and keys, what the page says about it, and the map as a picture.
'use strict';

// ---- light and dark, and the colours of weights ----

// The strongest weight stands out from the background of either: it is the darkest in the light and the brightest in the dark, and
// the weakest weights fade into the background, which is the colour of 0.
let colormaps = []; // [{name, colors: [256] as 0xRRGGBB}]: those of the engine, the first of which is the usual one
let palette = []; // [256] colours of weights from 0 to 1, as [red, green, blue]
let paletteTexts = []; // the same for style sheets
let palettePixels = null; // the same as pixels of a canvas

const BACKGROUND = { light: [255, 255, 255], dark: [24, 26, 27] };
const COLORS = 256, FADED = { light: 24, dark: 100 }; // colours that fade into the background: dark red is strong on black

function partsOf(color) {
    return [color >> 16, color >> 8 & 255, color & 255];
}

// The luminance of a colour (WCAG 2.2).
function luminance(parts) {
    const [red, green, blue] = parts.map(part => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// A colour as a pixel of a canvas.
function pixelOf([red, green, blue]) {
    return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}

// The colormaps that the engine has, by their names and all their colours one after another.
function takeColormaps(names, colors) {
    colormaps = names.map((name, i) => ({ name, colors: colors.subarray(i * COLORS, (i + 1) * COLORS) }));
    element('colors').replaceChildren(...names.map(name => make('option', { value: name, textContent: name })));
    change({ colors: readColors(state.colors) });
    setPalette();
}

// The name of a colormap; null: the usual one, also for a name that the engine does not have.
function readColors(name) {
    return !colormaps.length || colormaps.slice(1).some(map => map.name === name) ? name : null;
}

function setPalette() {
    if (!colormaps.length) return; // the engine is not ready
    const { name, colors } = colormaps.find(map => map.name === state.colors) ?? colormaps[0];
    const theme = state.isDark ? 'dark' : 'light', background = BACKGROUND[theme];
    const growsBright = luminance(partsOf(colors[COLORS - 1])) > luminance(partsOf(colors[0]));
    palette = Array.from({ length: COLORS }, (_, i) => {
        const color = partsOf(colors[growsBright === state.isDark ? i : COLORS - 1 - i]), share = Math.min(1, i / FADED[theme]);
        return color.map((part, k) => Math.round(share * part + (1 - share) * background[k]));
    });
    palettePixels = Uint32Array.from(palette, pixelOf);
    paletteTexts = palette.map(color => `rgb(${color})`);
    element('colors').value = name;
    const image = new ImageData(COLORS, 1);
    new Uint32Array(image.data.buffer).set(palettePixels);
    element('scale').getContext('2d').putImageData(image, 0, 0);
}

// The number of a weight's colour.
function shadeOfWeight(weight) {
    return weight > 0 ? Math.min(COLORS - 1, Math.round(weight * (COLORS - 1))) : 0;
}

function colorOf(weight) {
    return palette[shadeOfWeight(weight)];
}

function setTheme(isDark) {
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
    element('theme').textContent = isDark ? 'light theme' : 'dark theme';
    change({ isDark });
}

// Hidden cells have a weight of -1 (PAGE_HIDDEN_CELL): no colour, but hatching.
function isHidden(weight) {
    return weight < 0;
}

let image = null; // of the last matrix that was drawn

// Draws a matrix: one pixel a cell, which the browser makes `width` by `height` pixels large. pixelOfCell(i) is 0 for a masked cell:
// behind it is the hatching of the canvas.
function paint(canvas, { rows, columns }, width, height, pixelOfCell) {
    const shape = `width:${columns * width}px;height:${rows * height}px`;
    if (canvas.dataset.shape !== shape || canvas.width !== columns || canvas.height !== rows) {
        canvas.width = columns;
        canvas.height = rows;
        canvas.style.cssText = canvas.dataset.shape = shape;
    }
    if (image?.width !== columns || image.height !== rows) image = new ImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = pixelOfCell(i);
    canvas.getContext('2d').putImageData(image, 0, 0);
}

function drawMap(canvas, head, size) {
    paint(canvas, head, size, size, i => (isHidden(head.weights[i]) ? 0 : palettePixels[shadeOfWeight(head.weights[i])]));
}

element('colors').addEventListener('change', () => go({ colors: readColors(element('colors').value) }, true));
always('colors isDark', setPalette);

// ---- the map ----

const SMALLEST_CELL = 16, LARGEST_CELL = 64; // pixels
const AROUND_MAP = 350, AROUND_PRESENTED = 290, LOWEST_MAP = 300; // pixels: what stands around the map, which should fit the window

let cells = []; // [row][column] of the table
let cellColors = []; // [row * columns + column]; '': a masked cell
let shownMap = null; // the words and the place of the map that the table was made for, as a text

// A word at the edge of the table: a handle like the words of the sentence pair.
function headerCell(head, axis, index, text) {
    const cell = make('th', { scope: axis === 'row' ? 'row' : 'col', className: `${axis} ${columnClass(text)}` },
        make('span', { textContent: text, dir: 'auto' }));
    const word = wordOf(head, axis, index);
    cell.classList.toggle('silent-word', word?.side === silentSide && tokensOf(word).every(isSilentWord));
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

// Sets the side of a cell in pixels, so that the map fits if it can.
function sizeCells() {
    const head = selectedHead(), table = element('map').firstChild;
    if (!head || !table) return () => {};
    const scale = textScale(), free = element('map').clientWidth - table.querySelector('tbody th').offsetWidth - 8;
    const height = Math.max(LOWEST_MAP, innerHeight - (state.isPresenting ? AROUND_PRESENTED : AROUND_MAP * scale));
    const size = Math.max(SMALLEST_CELL, Math.min(LARGEST_CELL * scale, Math.floor(free / head.columns), Math.floor(height / head.rows)));
    return () => element('maps').style.setProperty('--cell', `${size}px`);
}

// A map as a table with its words; cellOf(row, column) makes a cell.
function makeTable(head, label, cellOf) {
    const top = make('tr', {}, make('td', { className: 'corner' }), ...head.columnWords.map((text, i) => headerCell(head, 'column', i, text)));
    const rows = head.rowWords.map((_, row) => make('tr', {}, headerCell(head, 'row', row, rowTitle(head, row)), ...head.columnWords.map((_, column) => cellOf(row, column))));
    return make('table', { 'aria-label': label }, make('thead', {}, top), make('tbody', {}, ...rows));
}

function showMap() {
    const head = selectedHead();
    element('large').hidden = !head;
    if (!head) return;
    const name = headTitle(head), title = `${name[0].toUpperCase()}${name.slice(1)}${head.isSilent ? ', silent' : ''}`;
    element('map-title').textContent = title;
    element('axes').textContent = axesText(head);
    element('masked').hidden = !head.weights.some(isHidden);
    const map = JSON.stringify([head.name, head.rowWords, head.columnWords, [...state.view.silent_words]]);
    const labels = `${title}: weights of queries (rows) on keys (columns)`;
    element('map').dataset.moment = momentTitle(momentNumber());
    if (map === shownMap) {
        element('map').firstChild.setAttribute('aria-label', labels);
        return fillCells(head);
    }
    shownMap = map;
    cells = head.rowWords.map((_, row) => head.columnWords.map((_, column) => make('td', { tabIndex: -1, 'data-test': `cell-${row}-${column}` })));
    cellColors = [];
    const table = makeTable(head, labels, (row, column) => cells[row][column]);
    fillCells(head);
    nameCells();
    element('map').replaceChildren(table);
    whenDrawn(sizeCells);
    table.addEventListener('pointerover', lightCell);
    table.addEventListener('focusin', lightCell);
    table.addEventListener('click', showRow);
    table.addEventListener('keydown', event => isKey(event, 'enter') && showRow(event));
    moveByArrows(table, 'td[data-test]', () => head.columns);
    stopAt(cells.flat(), 0);
}

// What softmax did in the row of a cell. Merged tokens have no such row.
function showRow(event) {
    const [, row, column] = /^cell-(\d+)-(\d+)$/.exec(event.target.dataset.test ?? '') ?? [];
    if (row !== undefined && !state.words) change({ number: { name: 'weights', row: Number(row), column: Number(column), isOfMap: true } });
}

// The map of the same head at the other end of training.
function showBeside() {
    const head = selectedHead(), other = state.view.beside && viewInWords(state.view.beside).heads.find(({ name }) => name === head?.name);
    element('other').hidden = !other;
    const moment = element('other').dataset.moment = momentTitle(isAtEnd() ? 0 : learning.moments.length - 1);
    element('other').replaceChildren(...(other ? [makeTable(other, `the same map, ${moment}`, (row, column) => {
        const weight = other.weights[row * other.columns + column], cell = make('td', { className: isHidden(weight) ? 'hidden-cell' : '' });
        if (!isHidden(weight)) cell.style.backgroundColor = paletteTexts[shadeOfWeight(weight)];
        return cell;
    })] : []));
}

element('map').addEventListener('pointerleave', unlight);

let mapWidth = null; // the room for the map
new ResizeObserver(([{ contentRect: { width } }]) => {
    if (width !== mapWidth) whenDrawn(sizeCells);
    mapWidth = width;
}).observe(element('map'));
addEventListener('resize', () => whenDrawn(sizeCells));

function lightMap() {
    const head = selectedHead();
    if (!head || !cells.length) return;
    const lit = litPlace(head), explained = explainedCell(head);
    for (const old of element('maps').querySelectorAll('.lit, .clicked')) old.classList.remove('lit', 'clicked');
    const light = cell => cell?.classList.add('lit');
    for (const { rows } of element('maps').querySelectorAll('.map > table')) {
        if (lit.row >= 0) [...rows[lit.row + 1]?.cells ?? []].forEach(light);
        if (lit.column >= 0) for (const line of rows) light(line.cells[lit.column + 1]);
    }
    if (explained) cells[explained.row][explained.column].classList.add('clicked');
}

// The cell whose row of softmax is shown; null: none.
function explainedCell(head) {
    const of = state.words ? null : state.terms?.of;
    return of?.isOfMap && of.row < head.rows && of.column < head.columns ? of : null;
}

onChange('view head isDark colors', showBeside);
onChange('view head isDark colors', showMap);
onChange('view head isDark colors hover cell terms', () => {
    lightMap();
    element('caption').textContent = caption();
});

// ---- in words: one line about its axes, and one sentence about what is lit up ----

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

function sentenceOfHead(head) {
    return `This head’s rows are spread over ${spread(head.entropy)} words. Point at a word or a cell; a click on a cell shows how its row was computed.`;
}

function sentenceOf(head) {
    const cell = explainedCell(head) ?? state.cell;
    if (cell) return sentenceOfCell(head, cell);
    const { row, column } = litPlace(head);
    if (row >= 0) return sentenceOfRow(head, row);
    return column >= 0 ? sentenceOfColumn(head, column) : sentenceOfHead(head);
}

// The sentence under the large map.
function caption() {
    const head = selectedHead();
    return head ? silenceText(head) + sentenceOf(head) : '';
}

// ---- saving the map as a picture, and copying the address of the view ----

const PICTURE = { cell: 34, gap: 8, margin: 24, font: 15, title: 18, maxWordWidth: 160 }; // pixels; maxWordWidth: of a word's room
const PICTURE_FONT = 'system-ui, sans-serif';
const COLUMN_ANGLE = 45; // degrees

function escapeXml(text) {
    // Characters that XML does not allow become the replacement character.
    return text.replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu, '\ufffd')
        .replace(/[&<>"]/g, character => `&#${character.charCodeAt(0)};`);
}

const measuring = document.createElement('canvas').getContext('2d');

// A word that fits, shortened if it must be, and its width.
function fitted(text, size) {
    const width = shown => measuring.measureText(shown).width;
    measuring.font = `${size}px ${PICTURE_FONT}`;
    let shown = text;
    while (width(shown) > PICTURE.maxWordWidth && [...shown].length > 2) shown = [...shown].slice(0, -2).join('') + '…';
    return { text: shown, width: Math.ceil(width(shown)) };
}

function themeColor(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function svgText(x, y, text, fields) {
    return `<text x="${x}" y="${y}" ${fields}>${escapeXml(text)}</text>`;
}

// One cell: its colour, or the hatching of a masked one. Its title is the sentence of the page.
function svgCell(head, row, column, left, top) {
    const weight = head.weights[row * head.columns + column], { cell } = PICTURE;
    const fill = isHidden(weight) ? 'url(#masked)' : `rgb(${colorOf(weight)})`;
    return `<rect x="${left + column * cell}" y="${top + row * cell}" width="${cell}" height="${cell}" fill="${fill}">` +
        `<title>${escapeXml(sentenceOfCell(head, { row, column }))}</title></rect>`;
}

// The map of a head as the text of an SVG, in the colours of the theme: { svg, width, height }.
function svgOfHead(head) {
    const { cell, gap, margin, font, title } = PICTURE;
    const rows = head.rowWords.map((_, row) => fitted(rowTitle(head, row), font)), columns = head.columnWords.map(word => fitted(word, font));
    const slope = Math.sin(COLUMN_ANGLE * Math.PI / 180);
    const left = margin + Math.max(...rows.map(word => word.width)) + gap;
    const top = margin + title + gap + Math.ceil(slope * (Math.max(...columns.map(word => word.width)) + font)) + gap;
    const overhang = Math.max(...columns.map((word, i) => slope * word.width - (head.columns - i - 0.5) * cell));
    const heading = `${headTitle(head)}${head.isSilent ? ', silent' : ''}`;
    measuring.font = `600 ${title}px ${PICTURE_FONT}`;
    const width = Math.ceil(Math.max(left + head.columns * cell + Math.max(0, overhang), margin + measuring.measureText(heading).width)) + margin;
    const height = top + head.rows * cell + margin;
    const ink = `fill="${themeColor('--text')}"`;
    const parts = [
        `<rect width="${width}" height="${height}" fill="${themeColor('--background')}"/>`,
        svgText(margin, margin + title - 4, heading, `${ink} font-size="${title}" font-weight="600"`),
        ...columns.map((word, i) => {
            const x = left + (i + 0.5) * cell, y = top - gap;
            return svgText(x, y, word.text, `${ink} transform="rotate(${-COLUMN_ANGLE} ${x} ${y})"`);
        }),
        ...rows.map((word, i) => svgText(left - gap, top + (i + 0.5) * cell + font / 3, word.text, `${ink} text-anchor="end"`)),
        `<g stroke="${themeColor('--border')}">`,
        ...head.rowWords.flatMap((_, row) => head.columnWords.map((_, column) => svgCell(head, row, column, left, top))),
        '</g>',
    ];
    const hatching = '<pattern id="masked" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">' +
        `<path d="M0 0V5" stroke="${themeColor('--hatching')}" stroke-width="2"/></pattern>`;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
        `font-family="${PICTURE_FONT}" font-size="${font}"><defs>${hatching}</defs>${parts.join('\n')}</svg>\n`;
    return { svg, width, height };
}

// Hands a file to the browser, which saves it.
function saveFile(blob, name) {
    const link = make('a', { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function pictureName(head, end) {
    return `${document.title}-${head.name}.${end}`.replace(/[^\p{L}\p{N}._-]+/gu, '_');
}

function saveSvg() {
    const head = selectedHead();
    saveFile(new Blob([svgOfHead(head).svg], { type: 'image/svg+xml' }), pictureName(head, 'svg'));
}

const PIXELS = 2;              // of the PNG, for each of the SVG
const MAX_PIXELS = 2 ** 26;   // of the PNG: browsers refuse larger pictures, and each pixel takes four bytes

// The PNG of an SVG, at a smaller scale if it would be too large; null: the browser makes none.
async function pngOf({ svg, width, height }) {
    const scale = Math.min(PIXELS, Math.sqrt(MAX_PIXELS / (width * height)));
    const image = new Image(), canvas = make('canvas', { width: Math.floor(scale * width), height: Math.floor(scale * height) });
    image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
    await image.decode();
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
}

async function savePng() {
    const head = selectedHead(), blob = await pngOf(svgOfHead(head)).catch(() => null);
    if (blob) saveFile(blob, pictureName(head, 'png'));
    else element('saved').textContent = 'this browser makes no PNG of so large a map: save it as SVG';
}

// The address holds the view (state.js).
async function copyLink() {
    writeAddress(false);
    try {
        await navigator.clipboard.writeText(location.href);
        element('saved').textContent = 'copied';
    } catch {
        element('saved').textContent = 'the browser does not allow it: copy the address above';
    }
}

element('save-svg').addEventListener('click', saveSvg);
element('save-png').addEventListener('click', savePng);
element('copy-link').addEventListener('click', copyLink);
always(Object.keys(state).join(' '), () => { element('saved').textContent = ''; });
