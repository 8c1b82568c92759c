// The lesson: one idea in each step, which dims the page but for one part, and asks a question whose answer the model of the page
// computes. The texts are those of lesson/*.json, one file for each language; `qkv page --lesson` puts them into the page.
'use strict';

const lessons = Object.fromEntries(['en', 'es'].map(language => [language, dataOf(`lesson-${language}`)]).filter(([, texts]) => texts));

// Sentences whose order matters to a model that knows their words; other models get their first sentence, and it backwards.
const SENTENCE = 'the red house is not small', ORDERED = ['the man sees the dog', 'the dog sees the man'];

function isKnown(sentence) {
    return sentence.split(' ').every(word => state.facts?.vocabulary.includes(word));
}

function sentenceOfLesson() {
    return isKnown(SENTENCE) ? SENTENCE : run.sentence;
}

function orders() {
    return isKnown(ORDERED[0]) ? ORDERED : [run.sentence, run.sentence.split(' ').reverse().join(' ')];
}

function stepOfWalk(...names) {
    return state.walk.find(({ name }) => names.includes(name));
}

function rowOf(step, row) {
    return Array.from({ length: step.columns }, (_, column) => valueAt(step, row, column));
}

// The index of the greatest number.
function greatestAt(numbers) {
    return numbers.indexOf(Math.max(...numbers));
}

function weightsOf(head, row) {
    return [...head.weights.subarray(row * head.columns, (row + 1) * head.columns)];
}

// A row of a map whose greatest weight is farthest from its own place, where two languages order words differently: the first one, or
// the last, so that two steps ask about different words.
function crossingRow(head, isLast = false) {
    const distances = head.rowWords.map((word, row) => (word === '</s>' ? -1 : Math.abs(greatestAt(weightsOf(head, row)) - row)));
    return isLast ? distances.lastIndexOf(Math.max(...distances)) : greatestAt(distances);
}

// The greatest weight that softmax makes of scores.
function greatestWeight(scores) {
    const greatest = Math.max(...scores);
    return 1 / scores.reduce((sum, score) => sum + Math.exp(score - greatest), 0);
}

// The row of a word whose greatest weight would change most if its scores, those that softmax gets, were `factor` times as large.
function scaledRow(factor) {
    const scores = state.walk[stepOfWalk('weights').from[0]];
    const rows = Array.from({ length: scores.rows }, (_, row) =>
        ({ row, weight: greatestWeight(rowOf(scores, row)), scaled: greatestWeight(rowOf(scores, row).map(score => factor * score)) }));
    return rows.filter(({ row }) => scores.rowNames[row] !== '</s>').sort((a, b) => b.scaled - b.weight - a.scaled + a.weight)[0];
}

// Shows another state, and waits for its view.
async function tryOut(fields) {
    go(fields);
    showFields();
    do await new Promise(resolve => setTimeout(resolve, 20)); while (answered !== sequence);
    return state.view;
}

const textOfView = view => view.translations[0] ?? '';

// Choices that are different numbers, the smallest first, the place of the right one, and of each wrong one the number of its hint.
function amongNumbers(right, ...others) {
    const choices = [...new Set([right, ...others])].sort((a, b) => a - b);
    return { choices: choices.map(String), right: choices.indexOf(right), hints: choices.map(choice => others.indexOf(choice)) };
}

const crossHead = () => bestAlignedHead() ?? state.view.heads.filter(({ kind }) => kind === 'cross').at(-1).name;
const ENCODER = 'encoder-1-1';
const first = selector => document.querySelector(selector);
const figuresOf = (...names) => names.map(name => first(`[data-test="step-${name}"]`));

// The steps, in the order of their texts. set: the state in which a step begins; spot: the parts of the page that it is about, that of the
// question first; ask: what the texts need of the present view, the choices, and the right one, or attempt(), which finds it out by
// trying. A wrong choice gets a hint: the text with this number (hints), in which {its} is what belongs to the choice.
const LESSON = [
    {
        set: () => ({ head: ENCODER, isWalking: true }), fold: 'Words become vectors',
        spot: () => figuresOf(stepOfWalk('source_embeddings', 'embeddings').name),
        ask: () => {
            const { columns, rows } = stepOfWalk('source_embeddings', 'embeddings'), vocabulary = knownWords().length;
            return { columns, vocabulary, words: rows, ...amongNumbers(columns, rows, vocabulary) };
        },
    }, {
        set: () => ({ source: orders()[0], head: ENCODER, isWalking: true }),
        spot: () => [element('pair')],
        ask: ({ how }) => {
            const before = textOfView(state.view), swapped = orders()[1];
            return { before, swapped, how: stepOfWalk('distance_bias') ? how.relative : stepOfWalk('rotated_queries') ? how.rotated : how.added,
                attempt: async () => {
                    const after = textOfView(await tryOut({ source: swapped }));
                    return { after, right: after === before ? 0 : 1 };
                } };
        },
    }, {
        set: () => ({ head: crossHead(), isWalking: true }),
        spot: () => figuresOf('scores', 'keys', 'queries'),
        ask: () => {
            const scores = stepOfWalk('scores'), row = crossingRow(selectedHead(), true), numbers = rowOf(scores, row), best = greatestAt(numbers);
            const right = greatestAt(numbers.map(number => -number)), its = numbers.map(numberText);
            return { at: row, query: scores.rowNames[row], key: scores.columnNames[right], score: its[right], best: scores.columnNames[best], highest: its[best],
                width: stepOfWalk('queries').columns, choices: scores.columnNames, right, its };
        },
    }, {
        set: () => ({ head: ENCODER, isWalking: true, number: { name: 'weights', row: 0, column: 0, isOfMap: true, isFirst: true } }),
        spot: () => [element('terms'), element('maps')],
        ask: () => {
            const width = stepOfWalk('queries').columns, factor = Number(Math.sqrt(width).toFixed(2)), found = scaledRow(factor), { row } = found;
            const [scaled, weight, share] = [found.scaled, found.weight, 1 / selectedHead().columns].map(number => number.toFixed(2));
            if (state.number?.isFirst) doLater('row', () => change({ number: { ...state.number, row, column: greatestAt(weightsOf(selectedHead(), row)), isFirst: false } }));
            return { at: row, query: selectedHead().rowWords[row], width, factor, weight, scaled, share, ...amongNumbers(scaled, weight, share) };
        },
    }, {
        set: () => ({ head: ENCODER, isWalking: true }),
        spot: () => figuresOf('context', 'values', 'weights'),
        ask: () => {
            const head = selectedHead(), strongest = head.rowWords.map((_, row) => Math.max(...weightsOf(head, row).filter((_, i) => i !== row)));
            const row = greatestAt(strongest), context = rowOf(stepOfWalk('context'), row), values = stepOfWalk('values');
            const distances = values.rowNames.map((_, i) => rowOf(values, i).reduce((sum, value, k) => sum + (value - context[k]) ** 2, 0));
            const right = greatestAt(distances.map(distance => -distance)), its = weightsOf(head, row).map(weightText);
            return { at: row, query: head.rowWords[row], key: values.rowNames[right], weight: its[right], choices: values.rowNames, right, its };
        },
    }, {
        set: () => ({ head: ENCODER }),
        spot: () => ['encoder', 'cross', 'decoder'].map(kind => first(`#overview [data-kind="${kind}"]`)),
        ask: () => {
            const heads = state.view.heads.filter(({ kind, layer }) => kind === 'encoder' && layer === 1), right = greatestAt(heads.map(({ entropy }) => -entropy));
            const its = heads.map(({ entropy }) => spread(entropy));
            return { choices: heads.map(({ head }) => `head ${head}`), right, head: headTitle(heads[right]), spread: its[right], its };
        },
    }, {
        set: () => ({ head: crossHead(), isBeside: true }),
        spot: () => [element('maps'), element('learning-strip')],
        ask: () => {
            const { beside } = state.view, ends = [state.view, beside ?? state.view].map(view => spread(view.heads.find(({ name }) => name === state.head).entropy));
            const [learned, random] = isAtEnd() ? ends : ends.reverse(), before = textOfView(state.view), { update } = learning.moments[0];
            return beside && { learned, random, columns: selectedHead().columns, randomMap: momentTitle(0), learnedMap: momentTitle(learning.moments.length - 1),
                attempt: async () => {
                    const after = textOfView(await tryOut({ update, isHeld: false, isBeside: false })), words = before.split(' ');
                    const kept = words.filter(word => after.split(' ').includes(word)).length;
                    return { after, right: after === before ? 0 : 2 * kept >= words.length ? 1 : 2 };
                } };
        },
    }, {
        set: () => ({ head: crossHead() }),
        spot: () => [element('maps'), element('pair')],
        ask: () => {
            const head = selectedHead(), negation = head.columnWords.indexOf('not');
            const column = negation < 0 ? greatestAt(weightsOf(head, crossingRow(head, true))) : negation;
            const looks = head.rowWords.map((_, row) => weightsOf(head, row)[column]), row = greatestAt(looks), words = state.view.target_outputs.slice(0, -1);
            const before = textOfView(state.view), without = words.filter((_, i) => i !== row).join(' ');
            return { at: row, query: head.rowWords[row], key: head.columnWords[column], weight: weightText(looks[row]), before, attempt: async () => {
                const after = textOfView(await tryOut({ silentWords: String(column + 1) }));
                return { after, right: after === before ? 0 : after === without ? 1 : 2 };
            } };
        },
    }, {
        set: () => ({ head: crossHead() }),
        spot: () => [first('#overview [data-kind="cross"]')],
        ask: () => {
            const before = textOfView(state.view), all = state.view.heads.filter(({ kind }) => kind === 'cross').map(({ name }) => name);
            return { before, count: all.length, head: headTitle(selectedHead()), attempt: async () => {
                const alone = textOfView(await tryOut({ silent: state.head })), after = textOfView(await tryOut({ silent: all.join() }));
                return { alone, after, right: after === before ? 0 : after ? 2 : 1 };
            } };
        },
    },
];

// ---- the panel ----

let begunStep = 0, shownStep = '', isTried = false; // the question and its choices; after an attempt they stay, though the view is another
let before = null; // the fields of the state that a step may change, as they were before the lesson

function fill(text, values) {
    return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? '');
}

function textsOf(number) {
    const texts = lessons[state.language];
    return { ...texts, ...texts.steps[number - 1] };
}

// The number of the step that an address names; 0: none.
function readStep(text) {
    return Object.keys(lessons).length && text >= 1 ? Math.min(Math.floor(text), LESSON.length) : 0;
}

// Goes to a step; 0 leaves the lesson, and restores what it has changed.
function goToStep(number) {
    go({ ...(number ? {} : before), lesson: number });
    showFields();
}

// Dims all but these parts of the page.
function light(parts) {
    for (const part of document.querySelectorAll('.spot')) part.classList.remove('spot');
    for (const part of parts) part.classList.add('spot');
}

// Scrolls the first part, and the others as far as they fit, into the middle of what the panel leaves free of the window.
function showParts(parts) {
    const panel = element('lesson').getBoundingClientRect(), free = panel.top || innerHeight, margin = 16;
    let top = Infinity, bottom = -Infinity;
    for (const box of parts.map(part => part.getBoundingClientRect())) {
        const above = Math.min(top, box.top), below = Math.max(bottom, box.bottom);
        if (box.height && (bottom < top || below - above < free - margin)) [top, bottom] = [above, below];
    }
    scrollBy(0, top - Math.max(margin, (free - bottom + top) / 2));
}

function beginStep(fields = {}) {
    document.documentElement.classList.toggle('in-lesson', state.lesson > 0);
    element('lesson').hidden = !state.lesson;
    const begun = { source: sentenceOfLesson(), own: null, update: null, beam: 1, seed: null, temperature: 1, choice: 0, silent: '', silentWords: '', words: false,
        isHeld: true, isBeside: false, isWalking: false, number: null, held: null, hover: null, step: 0 };
    if (!begunStep) before = Object.fromEntries(['head', ...Object.keys(begun)].map(field => [field, state[field]]));
    begunStep = state.lesson;
    light([]);
    shownStep = '';
    isTried = false;
    setPlaying(null);
    dispatchEvent(new Event('resize')); // the page has another width
    if (!state.lesson) return;
    const { set, fold } = LESSON[state.lesson - 1];
    if (fold) openGroups.add(fold);
    change({ ...begun, ...set(), ...fields, number: null });
    change({ number: set().number ?? null }); // once it is known whose: a number of another layer would be dropped
    showFields();
    writeAddressLater();
    ask();
}

// The answer to a choice: what the model says.
async function answer(choice, button, asked, texts) {
    const said = element('lesson-answer'), number = state.lesson;
    said.textContent = asked.attempt ? texts.wait : '';
    if (asked.attempt) isTried = true;
    const found = asked.attempt ? { ...asked, ...await asked.attempt() } : asked;
    if (state.lesson !== number) return;
    const isRight = choice === found.right;
    for (const other of element('lesson-choices').children) other.className = '';
    button.className = isRight ? 'right' : 'wrong';
    const hint = [texts.hint].flat()[asked.hints?.[choice] ?? 0], told = isRight || asked.attempt ? texts.why : hint;
    said.textContent = `${isRight ? texts.right : texts.wrong} ${fill(told, { ...found, choice: asked.choices?.[choice], its: asked.its?.[choice] })}`;
    said.scrollIntoView({ block: 'nearest' });
}

// The button of a choice. About a sentence with unknown words nothing is asked: it leads to the known ones.
function makeChoice(textContent, i, asked, texts) {
    const button = make('button', { type: 'button', textContent, dir: 'auto', 'data-test': `lesson-choice-${i}` });
    button.addEventListener('click', event => (asked.unknown ? showKnown(event) : answer(i, button, asked, texts)));
    return button;
}

// Whether the view has moved away from the question, which then stays that of the view before.
function isMoved() {
    return isTried || (shownStep && state.silent + state.silentWords);
}

function showStep() {
    const texts = textsOf(state.lesson), { spot, ask: askModel } = LESSON[state.lesson - 1], parts = spot(), isNew = !shownStep, unknown = unknownWords();
    light(parts);
    const asked = isMoved() ? null : askModel(texts);
    if (!asked) return;
    if (unknown.length) Object.assign(asked, { unknown: unknown.join(', '), known: knownWords().length, choices: [texts.known], at: undefined });
    const choices = (asked.choices ?? texts.choices).map(text => fill(text, asked)), question = fill(asked.unknown ? texts.unknown : texts.question, asked);
    const shown = JSON.stringify([state.lesson, state.language, question, choices, asked.query]);
    if (shown === shownStep) return;
    shownStep = shown;
    element('lesson-place').textContent = fill(texts.place, { n: state.lesson, count: LESSON.length });
    element('lesson-title').textContent = texts.title;
    element('lesson-text').replaceChildren(...[...texts.text, texts.try].filter(Boolean).map((text, i) =>
        make('p', { textContent: fill(text, asked), className: i < texts.text.length ? '' : 'try' })));
    element('lesson-question').textContent = question;
    element('lesson-answer').textContent = '';
    element('lesson-choices').replaceChildren(...choices.map((text, i) => makeChoice(text, i, asked, texts)));
    const held = asked.at === undefined ? null : wordOf(selectedHead(), 'row', asked.at); // lights up the row in question
    change({ held, hover: held });
    element('lesson-back').textContent = texts.back;
    element('lesson-next').textContent = state.lesson < LESSON.length ? texts.next : texts.train;
    element('lesson-leave').title = texts.leave;
    element('lesson-back').disabled = state.lesson === 1;
    element('lesson').lang = element('lesson-language').value = state.language;
    if (!isNew) return;
    element('lesson-body').scrollTop = 0;
    showParts(parts);
    element('lesson-title').focus({ preventScroll: true });
}

if (Object.keys(lessons).length) {
    element('lesson-start').hidden = false;
    element('lesson-sentence').addEventListener('input', () => goToSentence(element('lesson-sentence').value));
    always('source', () => { // a new sentence, here or in the page, has a question of its own
        if (state.lesson && state.lesson === begunStep && isMoved()) beginStep({ source: state.source });
    });
    element('lesson-start').textContent = fill(lessons[state.language].start, { count: LESSON.length });
    element('lesson-language').append(...Object.entries(lessons).map(([value, { language }]) => make('option', { value, textContent: language })));
    element('lesson-start').addEventListener('click', () => goToStep(1));
    element('lesson-back').addEventListener('click', () => goToStep(state.lesson - 1));
    element('lesson-next').addEventListener('click', () => {
        if (state.lesson < LESSON.length) return goToStep(state.lesson + 1);
        goToStep(0);
        element('train').open = true;
        element('train').scrollIntoView();
        element('train').firstElementChild.focus();
    });
    element('lesson-leave').addEventListener('click', () => {
        goToStep(0);
        element('lesson-start').focus();
    });
    element('lesson-language').addEventListener('change', () => {
        go({ language: element('lesson-language').value }, true);
        if (isTried) beginStep();
    });
    onChange('view lesson', () => {
        if (state.lesson !== begunStep) beginStep();
        if (document.activeElement !== element('lesson-sentence')) element('lesson-sentence').value = state.source;
        element('lesson-translation').textContent = state.view ? `→ ${textOfView(state.view)}` : '';
    });
    onChange('view walk lesson language number', () => {
        if (state.lesson) doLater('lesson', () => {
            const { set } = LESSON[state.lesson - 1];
            if (answered === sequence && (!set().isWalking || state.walk)) showStep();
        });
    });
}
