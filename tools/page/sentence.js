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

const wordButtons = { source: [], target: [] };
let shownWords = { source: null, target: null }; // the words that the buttons were made for, as texts

// A word is a button: the pointer and the focus light it up everywhere, and a click keeps it lit. A word of the
// translation also lists what could stand in its place.
function makeWord(side, index, text) {
    const word = make('button', { type: 'button', className: 'word', textContent: text, dir: 'auto', tabIndex: -1,
        'data-test': `${side}-word-${index}` });
    word.dataset.index = index;
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
    const isSilent = side === 'source' && isSilentWord(index), probability = view.probabilities[index];
    const end = text === '</s>' ? ', end of the sentence' : '';
    const hasProbability = side === 'target' && !scenes;
    const chance = hasProbability ? `, probability ${probability.toFixed(4)}` : '';
    word.title = `${isolated(text)}${end}${isKnown ? '' : ', not in the vocabulary'}${chance}${isSilent ? ', silent: nothing attends to it' : ''}`;
    word.classList.toggle('unknown', !isKnown);
    word.classList.toggle('silent-word', isSilent);
    if (!hasProbability) return;
    word.style.setProperty('--probability', probability);
    word.querySelector('.probability').textContent = percent(probability, 1);
}

// Keeps the buttons of words that are the same as before, and with them the focus.
function showSide(side, texts) {
    const shown = JSON.stringify([texts, canSilenceWords()]);
    if (shown !== shownWords[side]) {
        shownWords[side] = shown;
        wordButtons[side] = texts.map((text, i) => makeWord(side, i, text));
        element(`${side}-words`).replaceChildren(...wordButtons[side].map((word, i) => (side === 'source' ? withSilencer(word, i) : word)));
        element(`${side}-words`).dir = directionOf(texts.join(' '));
        stopAt(wordButtons[side], 0);
        points = null; // the lines have other ends
    }
    wordButtons[side].forEach((word, i) => describeWord(word, side, i));
}

function showWords() {
    showSide('source', state.view.source_tokens);
    showSide('target', state.view.target_outputs);
    element('pair').classList.toggle('mixed', element('source-words').dir !== element('target-words').dir);
    element('unknown-key').hidden = scenes !== null || [...state.view.known_sources, ...state.view.known_targets].every(known => known !== 0);
    markWordSilencers();
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
    const { view } = state, box = element('translations');
    element('target').textContent = state.own ?? view.translations[state.choice] ?? '';
    element('target').hidden = state.own !== null;
    box.hidden = element('translations-title').hidden = state.own !== null || view.translations.length < 2;
    element('own-score').hidden = state.own === null;
    element('own-score').textContent = `log-probability ${minus(view.log_probability[0].toFixed(4))}`;
    const hadFocus = box.contains(document.activeElement) && document.activeElement.dataset.test;
    box.replaceChildren(...view.translations.map((text, i) => {
        const button = make('button', { type: 'button', 'data-test': `translation-${i}`, dir: 'auto' }, text,
            make('span', { className: 'score', textContent: minus(view.scores[i].toFixed(4)) }));
        button.setAttribute('aria-pressed', i === state.choice);
        button.addEventListener('click', () => {
            change({ choice: i });
            writeAddress(true);
            ask();
        });
        return make('li', {}, button);
    }));
    if (hadFocus) box.querySelector(`[data-test="${hadFocus}"]`)?.focus();
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
    const before = step ? ` and ${quoted(view.target_inputs.slice(1, step + 1).join(' '))}` : '';
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
