// The sentence pair: fields to type into, words as handles, the probabilities of the next word, the best translations.
'use strict';

// Puts the state into the fields, after the address has changed it.
function showFields() {
    element('source').value = state.source || element('source').defaultValue;
    if (state.own !== null) element('own').value = state.own;
    element('own-row').hidden = state.own === null;
    element('use-own').checked = state.own !== null;
    element('beam').disabled = state.own !== null;
    const beam = element('beam');
    if (![...beam.options].some(option => Number(option.value) === state.beam))
        beam.append(make('option', { value: state.beam, textContent: `beam ${state.beam}` }));
    beam.value = state.beam;
}

element('beam').addEventListener('change', () => {
    change({ beam: Number(element('beam').value), choice: 0 });
    writeAddress(true);
    ask();
});

element('use-own').addEventListener('change', () => {
    const own = element('use-own').checked ? element('own').value || element('target').textContent : null;
    change({ own, choice: 0 });
    showFields();
    writeAddress(true);
    ask();
    if (own !== null) element('own').focus();
});

// In percent, which are not below the least number that is shown.
function percent(probability, least) {
    const hundredths = 100 * probability;
    return hundredths < least ? `<${least} %` : `${hundredths.toFixed(least < 1 ? 1 : 0)} %`;
}

// ---- words ----

// A word is a button: the pointer and the focus light it up everywhere, and a click keeps it lit. A word of the
// translation also lists what could stand in its place.
function makeWord(side, index, text, known, probability) {
    const word = make('button', { type: 'button', className: 'word', textContent: text, dir: 'auto', tabIndex: -1,
        'data-test': `${side}-word-${index}` });
    word.dataset.index = index;
    const end = text === '</s>' ? ', end of the sentence' : '';
    const chance = probability === undefined ? '' : `, probability ${probability.toFixed(4)}`;
    word.title = `${text}${end}${known ? '' : ', not in the vocabulary'}${chance}`;
    word.classList.toggle('unknown', !known);
    word.classList.toggle('special', text === '</s>');
    if (probability !== undefined) {
        word.style.setProperty('--probability', probability);
        word.append(' ', make('span', { className: 'probability', textContent: percent(probability, 1) }));
    }
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

function showWords() {
    const { view } = state;
    const source = view.source_tokens.map((text, i) => makeWord('source', i, text, view.known_sources[i] !== 0));
    const target = view.target_outputs.map((text, i) =>
        makeWord('target', i, text, view.known_targets[i] !== 0, view.probabilities[i]));
    element('source-words').replaceChildren(...source);
    element('target-words').replaceChildren(...target);
    stopAt(source, 0);
    stopAt(target, 0);
}

moveByArrows(element('source-words'), '.word');
moveByArrows(element('target-words'), '.word');

function lightWords() {
    const head = selectedHead(), key = state.cell && head ? wordOf(head, 'column', state.cell.column) : null;
    const isAt = (place, side, index) => place?.side === side && place.index === index;
    for (const side of ['source', 'target'])
        [...element(`${side}-words`).children].forEach((word, i) => {
            word.classList.toggle('lit', isAt(state.hover, side, i) || isAt(key, side, i));
            word.classList.toggle('chosen', !scenes && side === 'target' && state.step === i);
        });
}

// ---- the translation, its rivals, and the next word ----

function showTranslations() {
    const { view } = state, box = element('translations');
    element('target').textContent = state.own ?? view.translations[state.choice] ?? '';
    element('target').hidden = state.own !== null;
    box.hidden = element('translations-title').hidden = state.own !== null || view.translations.length < 2;
    element('own-score').hidden = state.own === null;
    element('own-score').textContent = `log-probability ${view.log_probability[0].toFixed(4)}`;
    box.replaceChildren(...view.translations.map((text, i) => {
        const button = make('button', { type: 'button', 'data-test': `translation-${i}`, dir: 'auto' }, text,
            make('span', { className: 'score', textContent: view.scores[i].toFixed(4) }));
        button.setAttribute('aria-pressed', i === state.choice);
        button.addEventListener('click', () => {
            change({ choice: i });
            writeAddress(true);
            ask();
        });
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

// The most probable words of a step, as bars; also the word that stands there, if it is none of these.
function showNextWords() {
    const { view, step } = state, box = element('next-words');
    const count = view.next_words.length / view.target_outputs.length;
    const rows = [], chosen = view.target_outputs[step];
    for (let i = step * count; i < (step + 1) * count; i++) {
        const word = view.next_words[i];
        if (word) rows.push(makeBar(word, view.next_probabilities[i], word === chosen));
    }
    if (!rows.some(row => row.classList.contains('chosen'))) rows.push(makeBar(chosen, view.probabilities[step], true));
    const before = step ? ` and “${view.target_inputs.slice(1, step + 1).join(' ')}”` : '';
    box.replaceChildren(make('h2', { className: 'subtitle', textContent: `Word ${step + 1}, given the sentence${before}` }), ...rows);
}

listen(changed => {
    if (!state.view) return;
    if (changed.has('view')) {
        showWords();
        if (!scenes) showTranslations();
    }
    if (!scenes && (changed.has('view') || changed.has('step'))) showNextWords();
    if (changed.has('view') || changed.has('hover') || changed.has('cell') || changed.has('step')) lightWords();
});
