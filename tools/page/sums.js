// The sum behind a number of a step: its products, or, of a weight, what softmax did with its row.
'use strict';

function makeCells(texts) {
    return texts.map(textContent => make('td', { textContent }));
}

function makeTermRow(name, texts, share, kind) {
    const row = make('tr', { className: kind }, make('th', { scope: 'row', textContent: name, title: name, dir: 'auto' }), ...makeCells(texts));
    row.style.setProperty('--share', share);
    return row;
}

// Its terms are powers, of which a weight is a share; local attention (Luong et al. 2015) has no such terms.
function isSoftmax(step) {
    return step.name === 'weights';
}

// The columns of a row of weights that are not masked: the terms of softmax in their order.
function seenColumns({ columns }, row) {
    const { weights } = selectedHead();
    return Array.from({ length: columns }, (_, column) => column).filter(column => !isHidden(weights[row * columns + column]));
}

function sumTitle(step, { of: { row, column }, value, sum, terms }, own) {
    const name = placeText(step, row, column);
    if (!terms.length) return step.hasTerms ? `${name}: ${numberText(value)}` : `${name}: ${numberText(value)} is no sum of earlier numbers.`;
    if (own) return `${name}: ${numberText(value)} = ${numberText(own[3])} / ${numberText(sum)}, the sum of these powers:`;
    if (isSoftmax(step)) return `${name} is masked: weight 0. The others are shares of the sum of these powers:`;
    return `${name}: ${numberText(value)} is ${terms.length === 1 ? 'made from one number' : `the sum of ${terms.length} terms, the greatest first`}:`;
}

// The products of a sum, the greatest first, with a bar each.
function productRows(terms) {
    const sorted = [...terms].sort((a, b) => Math.abs(b[3]) - Math.abs(a[3])), greatest = Math.abs(sorted[0]?.[3]) || 1;
    return sorted.map(([name, x, y, value]) => makeTermRow(name, [y === 1 ? '' : `${numberText(x)} × ${numberText(y)}`, numberText(value)],
        Math.abs(value) / greatest, value < 0 ? 'negative' : ''));
}

// A row of softmax, the greatest weight first: what went in, its power, and the weight that came out.
function softmaxRows(step, { of: { row, column }, terms }) {
    const columns = seenColumns(step, row);
    const rows = terms.map(([name, score, , power], i) => ({ name, score, power, column: columns[i], weight: valueAt(step, row, columns[i]) }));
    rows.sort((a, b) => b.power - a.power);
    const greatest = numberText(rows[0].score), shift = greatest.startsWith('−') ? `(${greatest})` : greatest;
    const head = make('tr', {}, ...['', 'score', `exp(score −\u00a0${shift})`, 'weight'].map(textContent => make('th', { scope: 'col', textContent })));
    return [head, ...rows.map(({ name, score, power, weight, column: own }) =>
        makeTermRow(name, [score, power, weight].map(numberText), power, own === column ? 'own' : ''))];
}

function showTerms() {
    const box = element('terms'), step = state.terms && state.walk?.find(({ name }) => name === state.terms.of.name);
    box.hidden = !step;
    if (!step) return;
    const { of: { row, column }, terms } = state.terms, isPowers = isSoftmax(step) && terms.length > 0;
    const own = isPowers ? terms[seenColumns(step, row).indexOf(column)] : null;
    const rows = isPowers ? softmaxRows(step, state.terms) : productRows(terms);
    const close = make('button', { type: 'button', textContent: '×', 'aria-label': 'close the sum', 'data-test': 'close-terms' });
    close.addEventListener('click', () => {
        change({ number: null, terms: null });
        element('step-list').querySelector(`[data-test="cells-${step.name}"]`).focus({ preventScroll: true });
    });
    box.replaceChildren(close, make('p', { textContent: sumTitle(step, state.terms, own), 'data-test': 'terms-title' }), make('p', { className: 'formula', textContent: step.formula }),
        make('div', { className: 'term-list', tabIndex: rows.length > 8 ? 0 : -1, role: 'group', 'aria-label': 'terms of the sum' },
            make('table', {}, make('tbody', {}, ...rows))));
}
