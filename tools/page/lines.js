// Lines of the selected head between words, as wide and as strong as their weights: straight between the two sentences
// for cross attention, arcs above the sentence or below the translation for self-attention.
'use strict';

const WEAKEST_LINE = 0.05, SVG = 'http://www.w3.org/2000/svg';

// Where lines may touch each word of one side, from the corner of the pair.
function anchors(side) {
    const origin = element('pair').getBoundingClientRect();
    return [...element(`${side}-words`).children].map(word => {
        const box = word.getBoundingClientRect();
        return { x: (box.left + box.right) / 2 - origin.left, top: box.top - origin.top, bottom: box.bottom - origin.top };
    });
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
    const head = selectedHead(), svg = element('lines');
    svg.replaceChildren();
    if (!head) return;
    const points = { source: anchors('source'), target: anchors('target') };
    const lit = state.hover && placeOf(head, state.hover);
    for (let row = 0; row < head.rows; row++)
        for (let column = 0; column < head.columns; column++) {
            const weight = head.weights[row * head.columns + column];
            if (weight < WEAKEST_LINE) continue;
            const query = wordOf(head, 'row', row), key = wordOf(head, 'column', column);
            if (!query || !key) continue; // <s> is not among the words
            const line = document.createElementNS(SVG, 'path');
            const isLit = !lit || row === lit.row || column === lit.column;
            line.setAttribute('d', pathOf(head, points[query.side][query.index], points[key.side][key.index]));
            line.setAttribute('stroke-width', 0.5 + 2.5 * weight);
            line.setAttribute('opacity', isLit ? 0.15 + 0.85 * weight : 0.06);
            svg.append(line);
        }
}

listen(changed => {
    if (!state.view) return;
    if (['view', 'head', 'hover'].some(name => changed.has(name))) showLines();
});
new ResizeObserver(() => state.view && showLines()).observe(element('pair'));
