// The sentence pair: fields to type into, words as handles with lines between them, the probabilities of the next word, the best
// translations.
'use strict';

// ---- scripts: text that runs from right to left, and Chinese, Japanese and Korean, which stand upright in a column ----

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const UPRIGHT = /[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u{20000}-\u{3ffff}]/u;
const SHORT = /^(.|[\u2e80-\u9fff\uac00-\ud7af]{1,2})$/u; // words that stay horizontal above a column

// The direction of a text: that of its first letter. (dir="auto" does not look into the words, which have a dir of their own.)
function directionOf(text) {
    return RIGHT_TO_LEFT.test(/\p{L}/u.exec(text)?.[0] ?? '') ? 'rtl' : 'ltr';
}

// A word in a sentence of the page: isolated, so that a word from right to left does not reorder the numbers beside it.
function isolated(word) {
    return RIGHT_TO_LEFT.test(word) ? `\u2068${word}\u2069` : word;
}

// How a word stands above the column of a map.
function columnClass(text) {
    return SHORT.test(text) ? 'short' : UPRIGHT.test(text) ? 'upright' : '';
}

// ---- the fields ----

// Puts the state into the fields, after the address has changed it.
function showFields() {
    element('source').value = state.source || element('source').defaultValue;
    if (state.own !== null) element('own').value = state.own;
    element('own-row').hidden = state.own === null;
    element('use-own').checked = state.own !== null;
    element('hold').checked = state.isHeld;
    element('beside').checked = state.isBeside;
    const beam = element('beam');
    beam.disabled = state.own !== null;
    if (![...beam.options].some(option => Number(option.value) === state.beam))
        beam.append(make('option', { value: state.beam, textContent: `beam ${state.beam}` }));
    beam.value = state.seed === null ? state.beam : 'sample';
    for (const field of SLIDERS) {
        element(field).value = state[field];
        element(`${field}-value`).textContent = element(field).value;
        change({ [field]: Number(element(field).value) });
    }
}

for (const id of ['source', 'own'])
    onText(element(id), () => {
        change({ [id]: element(id).value, choice: 0, ...(id === 'source' && { silentWords: '', step: null }) });
        writeAddressLater();
        ask();
    });
element('beam').addEventListener('change', ({ target: { value } }) => go({ beam: Number(value) || 1, seed: value === 'sample' ? 1 : null, choice: 0 }));
element('another').addEventListener('click', () => go({ seed: state.seed + 1 }));
always('seed', () => { element('another').hidden = state.seed === null || scenes !== null; });

const SLIDERS = ['temperature', 'length'];
for (const field of SLIDERS) {
    element(field).addEventListener('input', () => {
        change({ [field]: Number(element(field).value) });
        showFields();
        writeAddressLater();
        ask();
    });
}
element('use-own').addEventListener('change', () => {
    const own = element('use-own').checked ? element('own').value || element('target').textContent : null;
    go({ own, choice: 0 });
    showFields();
    if (own !== null) element('own').focus();
});

for (const [id, field] of [['hold', 'isHeld'], ['beside', 'isBeside']])
    element(id).addEventListener('change', () => go({ [field]: element(id).checked, choice: 0 }));

// Shows another sentence, as if it had been typed.
function goToSentence(source) {
    go({ source, own: null, choice: 0, silentWords: '', step: null });
    showFields();
}

element('examples').append(...(run?.examples ?? []).map(text => make('option', { textContent: text })));
element('examples').hidden = !run?.examples.length;
element('examples').addEventListener('change', () => {
    if (element('examples').value) goToSentence(element('examples').value);
    element('examples').value = '';
});

// The words that the model knows; the marks and pieces of words among the tokens are left out.
function knownWords() {
    return (state.facts?.vocabulary ?? []).filter(word => /^\p{L}[\p{L}'’-]*$/u.test(word));
}

// Their list, as buttons.
function showVocabulary() {
    const known = knownWords().sort((a, b) => a.localeCompare(b)).slice(0, MOST_KNOWN);
    element('lexicon').hidden = !known.length;
    element('known-words').replaceChildren(...known.map(word => make('button', { type: 'button', textContent: word, tabIndex: -1 })));
    stopAt([...element('known-words').children], 0);
}

always('facts', showVocabulary);

const MOST_KNOWN = 2000; // words in the list
moveByArrows(element('known-words'), 'button');
element('known-words').addEventListener('click', ({ target }) => {
    if (!target.matches('button')) return;
    const [unknown] = unknownWords(), words = state.source.trim().split(' '), at = words.findIndex(word => bare(word) === unknown);
    if (at < 0) words.push(target.textContent);
    else words[at] = words[at].replace(unknown, target.textContent);
    goToSentence(words.join(' ').trim());
});

// Browsers without field-sizing: a field grows with its text.
if (!CSS.supports('field-sizing', 'content'))
    always('source own', () => {
        for (const id of ['source', 'own']) {
            element(id).style.height = 'auto';
            element(id).style.height = `${element(id).scrollHeight + 2}px`;
        }
    });

// In percent, which are not below the least number that is shown.
function percent(probability, least) {
    const hundredths = 100 * probability;
    return hundredths < least ? `<${least}\u00a0%` : `${hundredths.toFixed(least < 1 ? 1 : 0)}\u00a0%`;
}

// ---- words ----

const wordButtons = { source: [], target: [] };
const shownWords = { source: null, target: null }; // the words that the buttons were made for, as texts

// A word is a button: the pointer and the focus light it up everywhere, and a click keeps it lit. A word of the
// translation also lists what could stand in its place.
function makeWord(side, index, text) {
    const word = make('button', { type: 'button', className: 'word', textContent: text, dir: 'auto', tabIndex: -1,
        'data-test': `${side}-word-${index}` });
    word.classList.toggle('special', text === '</s>');
    if (side === 'target' && !scenes) word.append(' ', make('span', { className: 'probability', dir: 'ltr' }));
    const light = () => change(side === 'target' ? { hover: { side, index }, cell: null, step: index }
                                                 : { hover: { side, index }, cell: null });
    word.addEventListener('pointerenter', light);
    word.addEventListener('focus', light);
    word.addEventListener('click', () => {
        light();
        change({ held: state.hover });
    });
    word.addEventListener('pointerleave', unlight);
    return word;
}

// What the present view says of a word.
function describeWord(word, side, index) {
    const { view } = state, text = (side === 'source' ? view.source_tokens : view.target_outputs)[index];
    const isKnown = (side === 'source' ? view.known_sources : view.known_targets)[index] !== 0;
    const isSilent = side === silentSide && isSilentWord(index), probability = view.probabilities[index];
    const end = text === '</s>' ? ', end of the sentence' : '';
    const hasProbability = side === 'target' && !scenes;
    const chance = hasProbability ? `, probability ${probability.toFixed(4)}` : '';
    word.title = `${isolated(text)}${end}${isKnown ? '' : ', not in the vocabulary'}${chance}${isSilent ? ', silent: nothing attends to it' : ''}`;
    word.classList.toggle('unknown', !isKnown);
    word.classList.toggle('silent-word', isSilent);
    word.classList.toggle('given', side === 'target' && index < view.given[0]);
    if (side === silentSide && canSilenceWords()) markSilencer(word.nextSibling, isSilent, 'word', ': nothing attends to it');
    if (!hasProbability) return;
    word.style.setProperty('--probability', probability);
    word.querySelector('.probability').textContent = percent(probability, 1);
}

// Keeps the buttons of words that are the same as before, and with them the focus.
function showSide(side, texts) {
    const shown = JSON.stringify([texts, canSilenceWords(), state.view.before]);
    if (shown !== shownWords[side]) {
        shownWords[side] = shown;
        wordButtons[side] = texts.map((text, i) => makeWord(side, i, text));
        const box = element(`${side}-words`);
        box.replaceChildren(...wordButtons[side].map((word, i) => (side === silentSide ? withSilencer(word, i) : word)));
        box.dir = directionOf(texts.join(' '));
        stopAt(wordButtons[side], 0);
        points = null; // the lines have other ends
    }
    wordButtons[side].forEach((word, i) => describeWord(word, side, i));
}

// A word without the marks around it.
function bare(word) {
    return word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, '') || word;
}

// The words of the pair that the model does not know.
function unknownWords() {
    const { view } = state, of = (words, known) => words.filter((_, i) => known[i] === 0).map(bare);
    return [...new Set([...of(view.source_tokens, view.known_sources), ...of(view.target_outputs, view.known_targets)])];
}

// Opens the list of the words that the model knows, and all that it is in.
function showKnown(event) {
    event.stopPropagation(); // a click elsewhere closes the list
    for (let box = element('lexicon'); box; box = box.parentElement.closest('details')) box.open = true;
    element('lexicon').scrollIntoView({ block: 'nearest' });
    element('known-words').firstChild?.focus({ preventScroll: true });
}

element('show-known').addEventListener('click', showKnown);

function showWords() {
    showSide('source', state.view.source_tokens);
    showSide('target', state.view.target_outputs);
    element('pair').classList.toggle('mixed', element('source-words').dir !== element('target-words').dir);
    const { read_as: [readAs] } = state.view, words = unknownWords();
    element('read-as').textContent = readAs ? `Read as: ${readAs}` : '';
    element('unknown').textContent = words.length ? `The model does not know ${words.map(quoted).join(', ')}: it reads every unknown word as the same <unk>. It knows ${knownWords().length} words:` : '';
    element('show-known').hidden = !words.length;
}

moveByArrows(element('source-words'), '.word');
moveByArrows(element('target-words'), '.word');

function lightWords() {
    const head = selectedHead(), key = state.cell && head ? wordOf(head, 'column', state.cell.column) : null;
    const isAt = (place, side, index) => place?.side === side && tokensOf(place).includes(index);
    for (const side of ['source', 'target'])
        wordButtons[side].forEach((word, i) => {
            word.classList.toggle('lit', isAt(state.hover, side, i) || isAt(key, side, i));
            word.classList.toggle('chosen', !scenes && side === 'target' && state.step === i);
        });
}

// ---- the translation, its rivals, and the next word ----

function showTranslations() {
    const { view } = state, box = element('translations'), rivals = state.own === null && view.translations.length > 1 ? view.translations : [];
    element('target').textContent = state.own ?? view.translations[state.choice]?.replaceAll(/ ?<\/s> ?/g, '\n') ?? '';
    element('target').hidden = state.own !== null;
    const isSame = view.target_outputs.filter(word => word !== '</s>').join(' ') === element('target').textContent;
    element('target').classList.toggle('unseen', isSame); // the words above say the same
    element('itself').textContent = element('itself').title = view.itself.length ? `The model itself says now${view.itself[0] ? `: “${view.itself[0]}”` : ' nothing'}` : '';
    element('unsilenced').hidden = !view.unsilenced.length;
    element('unsilenced').textContent = `With nothing silent: ${view.unsilenced[0]}`;
    box.hidden = element('translations-title').hidden = !rivals.length;
    element('own-score').hidden = state.own === null && !view.before[0];
    element('own-score').textContent = view.before[0] ? `of this text, the model reads what follows word ${view.before[0]}` : `log-probability ${minus(view.log_probability[0].toFixed(4))}`;
    replaceChildren(box, ...rivals.map((text, i) => {
        const button = make('button', { type: 'button', 'data-test': `translation-${i}`, dir: 'auto' }, text,
            make('span', { className: 'score', textContent: minus(view.scores[i].toFixed(4)) }));
        button.setAttribute('aria-pressed', i === state.choice);
        button.addEventListener('click', () => go({ choice: i }));
        return make('li', {}, button);
    }));
}

function makeBar(word, probability, isChosen) {
    const bar = make('div', { className: isChosen ? 'bar chosen' : 'bar' },
        make('span', { className: 'bar-word', textContent: word, dir: 'auto' }),
        make('span', { className: 'bar-number', textContent: percent(probability, 0.1) }));
    bar.style.setProperty('--probability', probability);
    return bar;
}

const LAST_WORDS = 12; // before a step, which are named

// The most probable words of a step, as bars; also the word that stands there, if it is none of these.
function showNextWords() {
    const { view, step } = state, box = element('next-words');
    if (step === null) return; // a view follows
    const count = view.next_words.length / view.target_outputs.length;
    const rows = [], chosen = view.target_outputs[step];
    for (let i = step * count; i < (step + 1) * count; i++) {
        const word = view.next_words[i];
        if (word) rows.push(makeBar(word, view.next_probabilities[i], word === chosen));
    }
    if (!rows.some(row => row.classList.contains('chosen'))) rows.push(makeBar(chosen, view.probabilities[step], true));
    const begin = view.before[0] ? 0 : 1, first = Math.max(begin, step - LAST_WORDS + 1), words = view.target_inputs.slice(first, step + 1).join(' ');
    const before = [hasSource && 'the sentence', words && quoted(first !== 1 ? `… ${words}` : words)].filter(Boolean).join(' and ');
    box.replaceChildren(make('h2', { className: 'subtitle', textContent: `Word ${view.before[0] + step + 1}${before && ', given '}${before}` }), ...rows);
}

onChange('view', () => {
    showWords();
    if (!scenes) showTranslations();
});
if (!scenes) onChange('view step', showNextWords);
onChange('view hover cell step', lightWords);

// ---- lines ----

// Lines of the selected head between words, as wide and as strong as their weights: straight between the two sentences
// for cross attention, arcs above the sentence or below the translation for self-attention. Where words fill several
// rows, lines pass behind words.
const WEAKEST_LINE = 0.05;

let lines = []; // [{line, row, column, weight}] of the selected head
let points = null; // {source, target, width, height}: anchors of both sides, and the size of the pair, until words or their places change

// Where lines may touch each word of one side, from the corner of the pair.
function anchors(side) {
    const origin = element('pair').getBoundingClientRect();
    const boxes = wordButtons[side].map(word => word.getBoundingClientRect());
    return boxes.map((box, index) => {
        const last = boxes[tokensOf({ side, index }).at(-1)], right = last.top === box.top ? last.right : box.right;
        return { x: (box.left + right) / 2 - origin.left, top: box.top - origin.top, bottom: box.bottom - origin.top };
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

function measureWords() {
    const { width, height } = element('pair').getBoundingClientRect();
    points ??= { source: anchors('source'), target: anchors('target'), width, height };
    return drawLines;
}

function drawLines() {
    const head = selectedHead();
    lines = [];
    if (head) {
        head.weights.forEach((weight, i) => {
            if (weight < WEAKEST_LINE) return;
            const row = Math.floor(i / head.columns), column = i % head.columns;
            const query = wordOf(head, 'row', row), key = wordOf(head, 'column', column);
            if (!query || !key) return; // <s> is not among the words
            const d = pathOf(head, points[query.side][query.index], points[key.side][key.index]);
            lines.push({ line: makeSvg('path', { d, 'stroke-width': 0.5 + 2.5 * weight }), row, column, weight });
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

onChange('view head', () => whenDrawn(measureWords));
onChange('hover cell', lightLines);

// Words have moved with the room for them.
new ResizeObserver(() => {
    const { width, height } = element('pair').getBoundingClientRect();
    if (!points || (points.width === width && points.height === height)) return;
    points = null;
    whenDrawn(measureWords);
}).observe(element('pair'));
