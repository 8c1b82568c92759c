// Lines of the selected head between words, as wide and as strong as their weights: straight between the two sentences
// for cross attention, arcs above the sentence or below the translation for self-attention. Where words fill several
// rows, which lines would cross, only those of the lit word are shown.
'use strict';

const WEAKEST_LINE = 0.05, SVG = 'http://www.w3.org/2000/svg';

let lines = []; // [{line, row, column, weight}] of the selected head
let points = null; // anchors of both sides, until words or their places change: to measure them takes the browser a layout

// Where lines may touch each word of one side, from the corner of the pair.
function anchors(side) {
    const origin = element('pair').getBoundingClientRect();
    const boxes = wordButtons[side].map(word => word.getBoundingClientRect());
    return boxes.map((box, index) => {
        const last = boxes[tokensOf({ side, index }).at(-1)], right = last.top === box.top ? last.right : box.right;
        return { x: (box.left + right) / 2 - origin.left, top: box.top - origin.top, bottom: box.bottom - origin.top };
    });
}

function isWrapped(points) {
    return points.some(point => point.top > points[0].bottom);
}

function arc(from, to, isAbove) {
    const y = isAbove ? from.top : from.bottom, end = isAbove ? to.top : to.bottom;
    const height = Math.min(34, 12 + Math.abs(to.x - from.x) / 8) * (isAbove ? -1 : 1);
    return `M ${from.x} ${y} C ${from.x} ${y + height}, ${to.x} ${end + height}, ${to.x} ${end}`;
}

function pathOf(head, query, key) {
    if (head.kind === 'cross') return `M ${key.x} ${key.bottom} L ${query.x} ${query.top}`;
    return arc(query, key, head.kind === 'encoder');
}

function showLines() {
    const head = selectedHead();
    lines = [];
    if (head) {
        if (!points) {
            points = { source: anchors('source'), target: anchors('target') };
            element('pair').classList.toggle('wrapped', Object.values(points).some(isWrapped));
        }
        head.weights.forEach((weight, i) => {
            if (weight < WEAKEST_LINE) return;
            const row = Math.floor(i / head.columns), column = i % head.columns;
            const query = wordOf(head, 'row', row), key = wordOf(head, 'column', column);
            if (!query || !key) return; // <s> is not among the words
            const line = document.createElementNS(SVG, 'path');
            line.setAttribute('d', pathOf(head, points[query.side][query.index], points[key.side][key.index]));
            line.setAttribute('stroke-width', 0.5 + 2.5 * weight);
            lines.push({ line, row, column, weight });
        });
        lightLines();
    }
    element('lines').replaceChildren(...lines.map(({ line }) => line));
}

function lightLines() {
    const head = selectedHead();
    if (!head) return;
    const lit = litPlace(head), isAnyLit = lit.row >= 0 || lit.column >= 0;
    for (const { line, row, column, weight } of lines) {
        const isLit = state.cell ? row === lit.row && column === lit.column : row === lit.row || column === lit.column;
        line.classList.toggle('lit', isLit);
        line.setAttribute('opacity', isLit || !isAnyLit ? 0.25 + 0.75 * weight : 0.15);
    }
}

listen(changed => {
    if (!state.view) return;
    if (changed.has('view') || changed.has('head')) showLines();
    else if (changed.has('hover') || changed.has('cell')) lightLines();
});

// Words have changed, or the room for them.
function moveLines() {
    points = null;
    if (state.view) showLines();
}

new ResizeObserver(moveLines).observe(element('pair'));
