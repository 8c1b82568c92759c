// Saving the large map as a picture, and copying the address of the view.
'use strict';

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
listen(() => {
    element('saved').textContent = '';
});
