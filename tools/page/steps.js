// Step by step: each matrix between the words and the chosen word, for the selected head. Colour first; pointing at a cell
// gives its number, a click the sum that made it. The engine computes the numbers; see module/explain.c.
'use strict';

// ---- what steps are for ----

// What the steps of a walk (explain.h) are for: the groups in which they are shown, and one sentence about each.
const STEPS = {
    'Words become vectors': {
        tokens: 'Each word has a number in the vocabulary.',
        source_tokens: 'Each word of the sentence has a number in the vocabulary.',
        embeddings: 'The number picks a row of a learned table.',
        source_embeddings: 'The number picks a row of a learned table.',
        positions: 'A pattern for each place in the sentence.',
        inputs: 'The word and its place in one vector.',
        source_inputs: 'The word and its place in one vector.',
        previous_attentional: 'The attentional vector of the step before.',
        decoder_states: 'What the decoder knows at each step.',
        source_positions: 'A pattern for each place in the sentence.',
        layer_inputs: 'What this layer reads.',
        memory: 'The sentence as the encoder has read it.',
    },
    'Queries, keys and values': {
        queries: 'What each word looks for.',
        normed_queries: 'Each query is brought to the same length in each head, times learned gains.',
        rotated_queries: 'Each query is rotated by the position of its word.',
        keys: 'What each word can be found by.',
        normed_keys: 'Each key is brought to the same length in each head, times learned gains.',
        rotated_keys: 'Each key is rotated by the position of its word.',
        values: 'What each word passes on.',
    },
    'Scores become weights': {
        scores: 'How well each query fits each key.',
        scaled_scores: 'Divided, so that the softmax does not become a maximum.',
        capped_scores: 'No score may exceed a bound.',
        distance_bias: 'Learned or fixed for each distance.',
        biased_scores: 'Each score, with the bias for its distance.',
        mask: 'Which words may be seen.',
        masked_scores: 'Words that may not be seen get no weight.',
        predicted_positions: 'The position in the sentence on which each step centers.',
        gaussian_window: 'Words near that position count more.',
        sinks: 'What each head may look at instead of a word.',
        weights: 'Softmax makes positive weights of the scores.',
    },
    'Weights mix values': {
        context: 'The values, mixed by the weights.',
        output_gate: 'How much of each number of the context goes on.',
        gated_context: 'The context, multiplied by the gate number by number.',
        concatenated: 'The parts side by side.',
        pre_activation: 'A linear layer mixes state and context.',
        output: 'What this attention found.',
        sum: 'Numbers of the context, added up.',
    },
    'The rest of the layer': {
        residual: 'What goes past the attention, to be added to its output.',
        attention_sum: 'What was there, and what attention found.',
        attention_norm: 'Each row is brought to the same mean and spread.',
        inner_inputs: 'Each row is brought to the same mean and spread.',
        inner: 'Each word by itself, in more numbers.',
        gate: 'How much of each of these numbers goes on.',
        activated: 'Numbers below 0 are cut off or damped.',
        gated: 'Both multiplied, number by number.',
        outer: 'Back to the width of the layer.',
        layer_sum: 'What was there, and what feed forward adds.',
        layer_output: 'Each row is brought to the same mean and spread.',
        final_norm: 'Each row is brought to the same mean and spread.',
    },
    'The word is chosen': {
        word_vectors: 'One column for each word that could be chosen.',
        logits: 'How well each word fits.',
        probabilities: 'Softmax makes probabilities of the logits.',
        chosen: 'The word with the greatest probability.',
    },
};

// Parameters of the model, which stand before the step that they make.
const LEARNED = /_(weights|bias|vector)$|^score_/;

// In scenes, where the numbers are given or drawn.
const UNLEARNED = { 'Learned.': 'Given, or drawn at random.', 'Each word has a number in the vocabulary.': 'The words, numbered.',
    'Each word of the sentence has a number in the vocabulary.': 'The words, numbered.',
    'The number picks a row of a learned table.': 'A vector for each word, given or drawn at random.',
    'What each word looks for.': 'What each word looks for; one row for each query.' };

function groupOf(name) {
    return Object.values(STEPS).findIndex(texts => name in texts);
}

// The last group is for steps that this table does not know.
function stepGroup({ index, name }) {
    const known = groupOf(name) < 0 && LEARNED.test(name) ? state.walk.slice(index).find(later => groupOf(later.name) >= 0)?.name : name;
    return groupOf(known) < 0 ? Object.keys(STEPS).length - 1 : groupOf(known);
}

function stepSentence({ name, note }) {
    const text = Object.values(STEPS)[groupOf(name)]?.[name] ?? (LEARNED.test(name) ? 'Learned.' : undefined);
    return [(scenes && UNLEARNED[text]) || text, note].filter(Boolean).join(' ');
}

const ROW_HEIGHT = 13, SIDE = 18, MAX_ROWS_WITH_WORDS = 40, MAX_STEP_WIDTH = 192, MAX_CELL_WIDTH = 26, MAX_WEIGHTS_HEIGHT = 130, NARROWEST_NAMED = 12; // pixels beside
const MAX_COLUMNS_WITH_NUMBERS = 10, NUMBER_WIDTH = 40, NUMBER_HEIGHT = 20; // text of 16 pixels: see textScale

let figures = []; // [{step, canvas, mark, width, height, names}] of the steps that are shown
let shownScale = null; // the scale of text that they have

// ---- what the engine says ----

// How the numbers of a step follow from those of others: enum qkv_step_rule of report/steps.h.
const RULES = [null, 'product', 'rowProduct', 'sum', 'scale', 'softmax', 'join'];

function readWalk(answer) {
    const words = answer.step_words[Symbol.iterator](), take = count => Array.from({ length: count }, () => words.next().value);
    let offset = 0;
    return answer.step_names.map((name, i) => {
        const [heads, rows, columns, content, hasRows, hasColumns, rule, ...from] = answer.steps.subarray(10 * i, 10 * i + 10);
        const size = Math.max(1, heads) * rows * columns;
        const step = { name, index: i, title: answer.step_titles[i], formula: answer.step_formulas[i], note: answer.step_notes[i],
            heads, rows, columns, content, rule: RULES[rule], from, factor: answer.step_factors[i], rowNames: hasRows ? take(rows) : null, columnNames: hasColumns ? take(columns) : null,
            values: answer.step_values.subarray(offset, offset + size) };
        offset += size;
        return step;
    });
}

// The layer whose steps are needed: [kind, layer]; null while the section is closed and no row of the map is explained.
function wantedWalk() {
    const head = selectedHead();
    if (scenes) return [0, 0]; // a scene has one layer, which is always computed
    return (state.isWalking || state.number) && head ? [KINDS.indexOf(head.kind), head.layer] : null;
}

// Which matrix of a step belongs to the selected head; heads of keys and values may be shared.
function matrixOf(step) {
    const head = selectedHead();
    if (step.heads < 2 || !head) return 0;
    const count = state.view.heads.filter(other => other.kind === head.kind && other.layer === head.layer).length;
    return Math.floor((head.head - 1) * step.heads / count);
}

function valueAt(step, row, column, matrix = matrixOf(step)) {
    return step.values[(matrix * step.rows + row) * step.columns + column];
}

// The terms of a number of a step: [name, x, y, value], where the value is x y; of a softmax exp(x), divided by that of the greatest x.
function makeTerms(step, row, column) {
    const [x, y, z] = step.from.map(index => state.walk[index]), term = (name, a, b = 1, value = a * b) => [name, a, b, value];
    const ofColumns = makeTerm => Array.from({ length: x.columns }, (_, k) => makeTerm(x.columnNames?.[k] ?? String(k + 1), valueAt(x, row, k), k));
    const made = {
        product: () => [...ofColumns((name, a, k) => term(name, a, valueAt(y, k, column))), ...(z ? [term(z.title, valueAt(z, 0, column))] : [])],
        rowProduct: () => ofColumns((name, a, k) => term(name, a, valueAt(y, column, k))),
        sum: () => [x, y].filter(Boolean).map(added => term(added.title, valueAt(added, row, column))),
        scale: () => [term(x.title, valueAt(x, row, column), step.factor)],
        softmax: () => {
            const greatest = Math.max(...ofColumns((name, a) => a));
            return ofColumns((name, a) => term(name, a, 1, Math.exp(a - greatest))).filter(([, a]) => Number.isFinite(a));
        },
        join: () => {
            const head = Math.floor(column / x.columns), number = valueAt(x, row, column % x.columns, head);
            return [term(`Z_${head + 1}`, number, number && !valueAt(step, row, column) ? 0 : 1)]; // a silent head counts as 0
        },
    };
    return step.rule && Number.isFinite(valueAt(step, row, column)) ? made[step.rule]() : [];
}

// The sum behind the number that was chosen; null: there is none, as a shorter sentence may have no such number.
function makeSum() {
    const step = state.number && state.walk?.find(({ name }) => name === state.number.name);
    if (!step || state.number.row >= step.rows || state.number.column >= step.columns) return null;
    const { row, column } = state.number, terms = makeTerms(step, row, column);
    return { of: state.number, value: valueAt(step, row, column), sum: terms.reduce((sum, term) => sum + term[3], 0), terms };
}

// ---- drawing ----

const SHADES = 128; // of each sign

// Colours as 32-bit pixels of numbers from -1 to 1: blue below 0, orange above, the background at 0.
function makePixels() {
    const background = state.isDark ? BACKGROUND.dark : BACKGROUND.light;
    const ends = state.isDark ? [[110, 170, 255], [255, 165, 80]] : [[20, 85, 160], [190, 85, 0]];
    return Uint32Array.from({ length: 2 * SHADES + 1 }, (_, i) => {
        const share = i / SHADES - 1, end = ends[share < 0 ? 0 : 1];
        return pixelOf(end.map((value, k) => Math.round(Math.abs(share) * value + (1 - Math.abs(share)) * background[k])));
    });
}

// The numbers of a step for the selected head, and their colours; 0: masked.
function cellsOf(step, signed) {
    const first = matrixOf(step) * step.rows * step.columns;
    const values = step.values.subarray(first, first + step.rows * step.columns);
    const greatest = values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0) || 1;
    const colorOfCell = value => (step.content === 1 ? palettePixels[Math.round(255 * value)] : signed[Math.round(SHADES * (1 + value / greatest))]);
    return { values, pixels: Array.from(values, value => (Number.isFinite(value) ? colorOfCell(value) : 0)) };
}

// A number in few characters.
function cellText(value, digits) {
    const text = Math.abs(value) < 1000 ? value.toFixed(digits) : value.toExponential(0).replace('e+', 'e');
    return minus(Number(text) ? text : text.replace('-', ''));
}

// The luminance from which on black stands out more than white.
const MIDDLE = 0.179;

// Black or white, whichever stands out from a pixel.
function inkOn(pixel) {
    return luminance([pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255]) > MIDDLE ? '#000' : '#fff';
}

// Draws a step, with its numbers on the cells if these have room: dark on light and light on dark.
function drawStep({ step, canvas, width, height, numbers }, signed) {
    const { values, pixels } = cellsOf(step, signed);
    const digits = values.every(value => Number.isInteger(value) || !Number.isFinite(value)) ? 0 : 2;
    paint(canvas, step, width, height, i => pixels[i]);
    [...numbers.children].forEach((number, i) => {
        number.textContent = Number.isFinite(values[i]) ? cellText(values[i], digits) : '';
        number.style.color = inkOn(pixels[i]);
    });
}

// ---- numbers ----

function numberText(value) {
    if (!Number.isFinite(value)) return 'masked';
    const size = Math.abs(value);
    return minus(value !== 0 && (size < 0.001 || size >= 100000) ? value.toExponential(2) : value.toFixed(4));
}

function placeText(step, row, column) {
    const rowName = step.rowNames ? quoted(step.rowNames[row]) : step.rows > 1 ? `row ${row + 1}` : '';
    const columnName = step.columnNames ? quoted(step.columnNames[column]) : `column ${column + 1}`;
    const head = step.heads > 1 ? `, head ${selectedHead().head}` : '';
    return `${step.title}${head}, ${[rowName, columnName].filter(Boolean).join(', ')}`;
}

function pointAt(step, row, column) {
    element('step-number').textContent = `${placeText(step, row, column)}: ${numberText(valueAt(step, row, column))}`;
    for (const { step: other, mark, width, height } of figures) {
        mark.hidden = other !== step;
        if (other !== step) continue;
        mark.style.cssText = `left:${column * width}px;top:${row * height}px;width:${Math.max(width, 3)}px;height:${Math.max(height, 3)}px`;
    }
    const head = selectedHead();
    if (head && isSame(step.rowNames, head.rowWords)) change({ hover: wordOf(head, 'row', row), cell: null });
    else if (head && isSame(step.rowNames, head.columnWords)) change({ hover: wordOf(head, 'column', row), cell: null });
}

// Marks the names of the word that is lit up, in every matrix that has a row for it.
function lightRows() {
    const head = selectedHead();
    if (!head) return;
    const lit = litPlace(head);
    for (const { step, names } of figures) {
        const row = isSame(step.rowNames, head.rowWords) ? lit.row : isSame(step.rowNames, head.columnWords) ? lit.column : -1;
        [...names.children].forEach((name, i) => name.classList.toggle('lit', i === row));
    }
}

function isSame(names, words) {
    return names !== null && names.length === words.length && names.every((name, i) => name === words[i]);
}

// ---- the section ----

// In scenes, whose matrices are small, cells have room for their numbers.
function sizeOfCells(step) {
    const scaled = pixels => Math.floor(pixels * textScale());
    if (scenes && step.columns <= MAX_COLUMNS_WITH_NUMBERS && step.rows <= MAX_ROWS_WITH_WORDS)
        return { width: scaled(NUMBER_WIDTH), height: scaled(NUMBER_HEIGHT), hasWords: step.rowNames, hasNumbers: true };
    const hasWords = step.rowNames && step.rows <= MAX_ROWS_WITH_WORDS, row = scaled(ROW_HEIGHT), side = scaled(SIDE);
    if (hasWords && step.columnNames && side * step.columns <= scaled(MAX_STEP_WIDTH)) return { width: side, height: side, hasWords };
    return { width: Math.max(1, Math.min(scaled(MAX_CELL_WIDTH), scaled(MAX_STEP_WIDTH / step.columns))),
        height: hasWords ? row : Math.max(1, Math.min(row, scaled(MAX_WEIGHTS_HEIGHT / step.rows))), hasWords };
}

function makeTokens(step) {
    return make('div', { className: 'step-tokens' }, ...step.columnNames.map((name, i) =>
        make('span', { className: 'step-token', dir: 'auto' }, name, make('small', { textContent: ` ${step.values[i]}` }))));
}

// A matrix: one stop of Tab; arrows move among its numbers, Enter shows the sum of one.
function makeMatrix(step) {
    const { width, height, hasWords, hasNumbers } = sizeOfCells(step);
    const canvas = make('canvas', { className: 'small' });
    const mark = make('span', { className: 'step-mark', hidden: true });
    const numbers = make('div', { className: 'step-numbers', 'aria-hidden': 'true' },
        ...Array.from({ length: hasNumbers ? step.rows * step.columns : 0 }, () => make('span')));
    numbers.style.cssText = `grid-template-columns:repeat(${step.columns},${width}px);grid-auto-rows:${height}px`;
    const box = make('div', { className: 'step-cells', tabIndex: 0, role: 'application', 'data-test': `cells-${step.name}` }, canvas, numbers, mark);
    const at = { row: 0, column: 0 };
    box.setAttribute('aria-label', `${step.title}, ${step.rows} by ${step.columns} numbers. Arrows move${step.rule ? ', Enter shows the sum behind a number' : ''}.`);
    const pointTo = (row, column) => {
        at.row = Math.max(0, Math.min(step.rows - 1, row));
        at.column = Math.max(0, Math.min(step.columns - 1, column));
        pointAt(step, at.row, at.column);
    };
    const place = event => {
        const corner = canvas.getBoundingClientRect();
        pointTo(Math.floor((event.clientY - corner.top) / height), Math.floor((event.clientX - corner.left) / width));
    };
    box.addEventListener('pointermove', place);
    box.addEventListener('pointerleave', unlight);
    box.addEventListener('click', event => {
        place(event);
        change({ number: { name: step.name, ...at } });
    });
    box.addEventListener('focus', () => pointTo(at.row, at.column));
    box.addEventListener('keydown', event => {
        const [down, right] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [0, 0];
        if (event.key === 'Enter') change({ number: { name: step.name, ...at } });
        else if (!down && !right) return;
        event.preventDefault();
        pointTo(at.row + down, at.column + right);
    });
    const names = make('div', { className: 'step-rows' }, ...(hasWords ? step.rowNames.map(name => make('span', { textContent: name, dir: 'auto' })) : []));
    names.style.setProperty('--row', `${height}px`);
    const hasHeads = step.columnNames && !hasNumbers && width >= NARROWEST_NAMED;
    const heads = make('div', { className: 'step-heads', 'aria-hidden': 'true' }, ...(hasHeads ? step.columnNames.map(name => make('span', { textContent: name, dir: 'auto' })) : []));
    heads.style.setProperty('--column', `${width}px`);
    figures.push({ step, canvas, mark, width, height, names, numbers });
    return make('div', { className: 'step-matrix' }, heads, names, box);
}

function makeStep(step) {
    const head = step.heads > 1 ? `, head ${selectedHead().head}` : '';
    return make('figure', { className: 'step', 'data-test': `step-${step.name}` },
        make('figcaption', {}, make('strong', { textContent: `${step.title}${head}` }), make('span', { className: 'shape', textContent: ` ${step.rows} × ${step.columns}` }),
            make('span', { className: 'formula', textContent: step.formula })),
        step.content === 2 ? makeTokens(step) : makeMatrix(step),
        make('p', { className: 'note', textContent: stepSentence(step) }));
}

// What stands before a step in the row of a run's attention, where the values stand before the context.
const OPERATORS = { queries: '', keys: '·', scores: '=', distance_bias: '+', biased_scores: '=', mask: '+', masked_scores: '=',
    weights: 'softmax →', values: '·', context: '=' };
const ATTENTION = 'Q·Kᵀ → softmax → ·V';
const openGroups = new Set();

// A part of the section that is closed at first.
function makeFold(title, name, children) {
    const fold = make('details', { open: openGroups.has(name) }, make('summary', { textContent: title }), ...children);
    fold.addEventListener('toggle', () => openGroups[fold.open ? 'add' : 'delete'](name));
    return fold;
}

function makeRow(steps) {
    return make('div', { className: 'step-row' }, ...steps.map(makeStep));
}

// The attention of a run: what it computes in a row, with the learned numbers folded.
function makeAttention(steps) {
    const computed = steps.filter(({ name }) => groupOf(name) >= 0), values = computed.find(({ name }) => name === 'values');
    const order = computed.flatMap(step => (step === values ? [] : step.name === 'context' && values ? [values, step] : [step]));
    const flow = order.map(step => make('div', { className: 'flow' }, make('span', { className: 'operator', textContent: OPERATORS[step.name] ?? '→' }), makeStep(step)));
    return make('section', { className: 'step-group', 'aria-label': ATTENTION }, make('h3', { textContent: ATTENTION }),
        make('div', { className: 'step-row attention' }, ...flow),
        makeFold('weights and biases, which were learned', ATTENTION, [makeRow(steps.filter(({ name }) => groupOf(name) < 0))]));
}

// Scenes show all groups in order. A run shows its attention, and folds what is before and behind it.
function makeGroups() {
    const groups = Object.keys(STEPS).map((title, group) => [title, state.walk.filter(step => stepGroup(step) === group)]);
    const section = ([title, steps]) => make('section', { className: 'step-group', 'aria-label': title }, make('h3', { textContent: title }), makeRow(steps));
    const fold = ([title, steps]) => makeFold(title, title, [makeRow(steps)]);
    const made = scenes ? groups.map(section) : [fold(groups[0]), makeAttention(groups.slice(1, 4).flatMap(([, steps]) => steps)), ...groups.slice(4).map(fold)];
    return made.filter(box => box.querySelector('.step'));
}

function showSteps() {
    if (!state.walk || !state.isWalking) return;
    element('step-number').textContent = 'Point at a number.';
    figures = [];
    shownScale = textScale();
    replaceChildren(element('step-list'), ...makeGroups());
    const signed = makePixels();
    for (const figure of figures) drawStep(figure, signed);
    element('steps-of').textContent = scenes && state.view.heads.length < 2 ? '' : headTitle(selectedHead());
    lightRows();
}

element('steps').addEventListener('toggle', () => {
    if (element('steps').open === state.isWalking) return; // the state has opened it
    change({ isWalking: element('steps').open, number: null });
    writeAddress(false);
});

addEventListener('resize', () => doLater('steps', () => {
    if (shownScale !== textScale()) showSteps();
}));

let asked = JSON.stringify(wantedWalk()); // the layer of the last request

always('isWalking', () => { element('steps').open = state.isWalking; });
onChange('head isWalking view number', () => {
    element('steps').hidden = !state.view.heads.length;
    const wanted = JSON.stringify(wantedWalk());
    if (wanted === asked) return;
    if (state.number && asked !== 'null') return change({ number: null }); // of another layer; calls this again
    asked = wanted;
    if (wantedWalk()) ask();
});
onChange('walk head isWalking isDark colors', showSteps);
onChange('hover cell', lightRows);
onChange('walk head number', () => change({ terms: makeSum() }));
onChange('terms', showTerms);

// ---- the sum behind a number: its products, or, of a weight, what softmax did with its row ----

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

function makeTermList(label, rows) {
    return make('div', { className: 'term-list', tabIndex: rows.length > 8 ? 0 : -1, role: 'group', 'aria-label': label },
        make('table', {}, make('tbody', {}, ...rows)));
}

function sumTitle(step, { of: { row, column, isOfMap }, value, sum, terms }, own) {
    const { rowWords, columnWords } = selectedHead();
    const name = isOfMap ? `${step.title}, ${quoted(rowWords[row])}, ${quoted(columnWords[column])}` : placeText(step, row, column); // as the caption
    if (!terms.length) return step.rule ? `${name}: ${numberText(value)}` : `${name}: ${numberText(value)} is no sum of earlier numbers.`;
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
    const head = make('tr', {}, ...['word', 'score', `exp(score −\u00a0${shift})`, 'weight'].map(textContent => make('th', { scope: 'col', textContent })));
    return [head, ...rows.map(({ name, score, power, weight, column: own }) =>
        makeTermRow(name, [score, power, weight].map(numberText), power, own === column ? 'own' : ''))];
}

function showTerms() {
    const box = element('terms'), step = state.terms && state.walk?.find(({ name }) => name === state.terms.of.name);
    box.hidden = !step;
    const isOfMap = Boolean(step && state.terms.of.isOfMap);
    element(isOfMap ? 'maps' : 'step-reading').append(box);
    if (!step) return;
    const { of: { row, column }, terms } = state.terms, isPowers = isSoftmax(step) && terms.length > 0;
    const own = isPowers ? terms[seenColumns(step, row).indexOf(column)] : null;
    const rows = isPowers ? softmaxRows(step, state.terms) : productRows(terms);
    const close = make('button', { type: 'button', textContent: '×', 'aria-label': 'close the sum', 'data-test': 'close-terms' });
    close.addEventListener('click', () => {
        change({ number: null });
        (isOfMap ? cells[row][column] : element('step-list').querySelector(`[data-test="cells-${step.name}"]`)).focus({ preventScroll: true });
    });
    box.replaceChildren(close, make('p', { textContent: sumTitle(step, state.terms, own), 'data-test': 'terms-title' }), makeTermList('terms of the sum', rows),
        make('p', { className: 'formula', textContent: step.formula }));
}
