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

function softmaxOf(scores) {
    const greatest = Math.max(...scores), powers = scores.map(score => Math.exp(score - greatest));
    return powers.map(power => power / powers.reduce((sum, other) => sum + other));
}

// The row of a map that scaling changes most: { row, weight, unscaled }, with its greatest weights.
function scaledRow() {
    const scores = stepOfWalk('scores'), scaled = stepOfWalk('scaled_scores'), summed = stepOfWalk('masked_scores') ?? stepOfWalk('biased_scores') ?? scaled;
    const rows = Array.from({ length: scores.rows }, (_, row) => {
        const added = rowOf(summed, row), without = rowOf(scores, row).map((score, i) => added[i] + score - valueAt(scaled, row, i));
        return { row, weight: Math.max(...softmaxOf(added)), unscaled: Math.max(...softmaxOf(without)) };
    });
    return rows.sort((a, b) => b.unscaled - b.weight - a.unscaled + a.weight)[0];
}

// Shows another state, and waits for its view.
async function tryOut(fields) {
    go(fields);
    showFields();
    do await new Promise(resolve => setTimeout(resolve, 20)); while (answered !== sequence);
    return state.view;
}

const textOfView = view => view.translations[0] ?? '';

// Words that are different numbers, the smallest first, and the place of the right one among them.
function amongNumbers(right, ...others) {
    const choices = [...new Set([right, ...others])].sort((a, b) => a - b);
    return { choices: choices.map(String), right: choices.indexOf(right) };
}

const crossHead = () => bestAlignedHead() ?? state.view.heads.filter(({ kind }) => kind === 'cross').at(-1).name;
const ENCODER = 'encoder-1-1';
const first = selector => document.querySelector(selector);
const figuresOf = (...names) => [...names.map(name => first(`[data-test="step-${name}"]`)), element('step-reading')];

// The steps, in the order of their texts. set: the state in which a step begins; spot: the part of the page that it is about; ask: what
// the texts need of the present view, the choices, and the right one, or attempt(), which finds it out by trying.
const LESSON = [
    {
        set: () => ({ head: ENCODER, isWalking: true }), fold: 'Words become vectors',
        spot: () => figuresOf(stepOfWalk('source_embeddings', 'embeddings').name),
        ask: () => {
            const { columns, rows } = stepOfWalk('source_embeddings', 'embeddings'), vocabulary = state.facts.vocabulary.filter(word => !/^<.+>$/.test(word)).length;
            return { columns, vocabulary, words: rows, ...amongNumbers(columns, rows, vocabulary) };
        },
    }, {
        set: () => ({ source: orders()[0], head: ENCODER, isWalking: true }),
        spot: () => element('pair'),
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
        spot: () => figuresOf('queries', 'keys', 'scores'),
        ask: () => {
            const scores = stepOfWalk('scores'), row = crossingRow(selectedHead()), right = greatestAt(rowOf(scores, row));
            return { at: row, query: scores.rowNames[row], key: scores.columnNames[right], score: numberText(valueAt(scores, row, right)),
                width: stepOfWalk('queries').columns, choices: scores.columnNames, right };
        },
    }, {
        set: () => ({ head: ENCODER, isWalking: true, number: { name: 'weights', row: 0, column: 0, isOfMap: true, isFirst: true } }),
        spot: () => element('maps'),
        ask: () => {
            const { row, weight, unscaled } = scaledRow(), shown = [unscaled, weight, 1 / selectedHead().columns].map(number => number.toFixed(2));
            if (state.number?.isFirst) doLater('row', () => change({ number: { ...state.number, row, column: greatestAt(weightsOf(selectedHead(), row)), isFirst: false } }));
            return { at: row, query: selectedHead().rowWords[row], width: stepOfWalk('queries').columns, weight: shown[1], unscaled: shown[0], ...amongNumbers(...shown) };
        },
    }, {
        set: () => ({ head: crossHead(), isWalking: true }),
        spot: () => figuresOf('values', 'weights', 'context'),
        ask: () => {
            const head = selectedHead(), row = crossingRow(head), context = rowOf(stepOfWalk('context'), row), values = stepOfWalk('values');
            const distances = values.rowNames.map((_, i) => rowOf(values, i).reduce((sum, value, k) => sum + (value - context[k]) ** 2, 0));
            const right = greatestAt(distances.map(distance => -distance));
            return { at: row, query: head.rowWords[row], key: values.rowNames[right], weight: weightText(weightsOf(head, row)[right]), choices: values.rowNames, right };
        },
    }, {
        set: () => ({ head: ENCODER }),
        spot: () => element('overview'),
        ask: () => {
            const heads = state.view.heads.filter(({ kind, layer }) => kind === 'encoder' && layer === 1), right = greatestAt(heads.map(({ entropy }) => -entropy));
            return { choices: heads.map(({ head }) => `head ${head}`), right, head: headTitle(heads[right]), spread: spread(heads[right].entropy) };
        },
    }, {
        set: () => ({ head: crossHead(), isBeside: true }),
        spot: () => [element('large-view'), element('learning-strip')],
        ask: () => {
            const ends = [state.view, state.view.beside].map(view => spread(view.heads.find(({ name }) => name === state.head).entropy));
            const [learned, random] = isAtEnd() ? ends : ends.reverse(), { columns } = selectedHead();
            return { learned, random, columns, ...amongNumbers(random, learned, columns.toFixed(1)) };
        },
    }, {
        set: () => ({ head: crossHead() }),
        spot: () => element('large-view'),
        ask: () => {
            const head = selectedHead(), row = crossingRow(head, true), right = greatestAt(weightsOf(head, row));
            return { at: row, query: head.rowWords[row], key: head.columnWords[right], weight: weightText(weightsOf(head, row)[right]), row: row + 1, column: right + 1,
                choices: head.columnWords, right };
        },
    }, {
        set: () => ({ head: crossHead() }),
        spot: () => first('#overview [data-kind="cross"]'),
        ask: ({ none }) => {
            const { target_outputs: words } = state.view, before = textOfView(state.view);
            return { before, head: headTitle(selectedHead()), choices: [...words, none], attempt: async () => {
                const view = await tryOut({ silent: state.head }), changed = words.findIndex((word, i) => word !== view.target_outputs[i]);
                return { after: textOfView(view), right: changed < 0 ? words.length : changed };
            } };
        },
    },
];

// ---- the panel ----

let begunStep = 0, shownStep = '', isTried = false; // the question and its choices; after an attempt they stay, though the view is another

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

// Goes to a step; 0 leaves the lesson.
function goToStep(number) {
    go({ lesson: number });
}

// Dims all but these parts of the page.
function light(parts) {
    for (const part of document.querySelectorAll('.spot')) part.classList.remove('spot');
    for (const part of parts) part.classList.add('spot');
}

function beginStep() {
    document.documentElement.classList.toggle('in-lesson', state.lesson > 0);
    element('lesson').hidden = !state.lesson;
    begunStep = state.lesson;
    light([]);
    shownStep = '';
    isTried = false;
    dispatchEvent(new Event('resize')); // the page has another width
    if (!state.lesson) return;
    const { set, fold } = LESSON[state.lesson - 1];
    if (fold) openGroups.add(fold);
    const begun = { source: sentenceOfLesson(), own: null, update: null, beam: 1, seed: null, temperature: 1, choice: 0, silent: '', silentWords: '', words: false,
        isHeld: true, isBeside: false, isWalking: false, isPresenting: false, number: null, held: null, hover: null, step: 0 };
    change({ ...begun, ...set() });
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
    said.textContent = `${isRight ? texts.right : texts.wrong}${isRight || asked.attempt ? ` ${fill(texts.why, found)}` : ''}`;
    said.scrollIntoView({ block: 'nearest' });
}

function showStep() {
    const texts = textsOf(state.lesson), { spot, ask: askModel } = LESSON[state.lesson - 1];
    const asked = askModel(texts), choices = asked.choices ?? texts.choices, question = fill(texts.question, asked);
    const parts = [spot()].flat(), isNew = !shownStep;
    light(parts);
    const shown = JSON.stringify([state.lesson, state.language, question, choices, asked.query]);
    if (isTried || shown === shownStep) return;
    shownStep = shown;
    element('lesson-place').textContent = fill(texts.place, { n: state.lesson, count: LESSON.length });
    element('lesson-title').textContent = texts.title;
    element('lesson-text').replaceChildren(...[...texts.text, texts.try].filter(Boolean).map((text, i) =>
        make('p', { textContent: fill(text, asked), className: i < texts.text.length ? '' : 'try' })));
    element('lesson-question').textContent = question;
    element('lesson-answer').textContent = '';
    element('lesson-choices').replaceChildren(...choices.map((textContent, i) => {
        const button = make('button', { type: 'button', textContent, dir: 'auto', 'data-test': `lesson-choice-${i}` });
        button.addEventListener('click', () => answer(i, button, asked, texts));
        return button;
    }));
    const held = asked.at === undefined ? null : wordOf(selectedHead(), 'row', asked.at); // lights up the row in question
    change({ held, hover: held });
    for (const name of ['back', 'next', 'leave']) element(`lesson-${name}`).textContent = texts[name];
    element('lesson-back').disabled = state.lesson === 1;
    element('lesson-next').disabled = state.lesson === LESSON.length;
    element('lesson').lang = element('lesson-language').value = state.language;
    if (!isNew) return;
    parts[0].scrollIntoView({ block: parts[0].offsetHeight > innerHeight / 2 ? 'start' : 'center' });
    element('lesson-title').focus({ preventScroll: true });
}

if (Object.keys(lessons).length) {
    element('lesson-start').hidden = false;
    element('lesson-sentence').addEventListener('input', () => goToSentence(element('lesson-sentence').value));
    element('lesson-start').textContent = lessons[state.language].start;
    element('lesson-language').append(...Object.entries(lessons).map(([value, { language }]) => make('option', { value, textContent: language })));
    element('lesson-start').addEventListener('click', () => goToStep(1));
    element('lesson-back').addEventListener('click', () => goToStep(state.lesson - 1));
    element('lesson-next').addEventListener('click', () => goToStep(state.lesson + 1));
    element('lesson-leave').addEventListener('click', () => {
        goToStep(0);
        element('lesson-start').focus();
    });
    element('lesson-language').addEventListener('change', () => go({ language: element('lesson-language').value }, true));
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
