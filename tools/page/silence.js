// Silencing: a silent head passes on nothing, and nothing attends to a silent word of the sentence. A cross at each small map
// and at each word, or the key S there, silences it or lets it speak again; translation, probabilities and maps follow.
'use strict';

// The silent heads as the engine reads them: [kind, layer, head]. An address may hold anything.
function silentHeads() {
    const parts = state.silent.split(',').map(name => /^([a-z]+)-(\d{1,5})-(\d{1,5})$/.exec(name));
    return parts.filter(part => part && KINDS.includes(part[1]))
        .map(([, kind, layer, head]) => [KINDS.indexOf(kind), Number(layer), Number(head)]);
}

function setSilent(names) {
    change({ silent: names.join(), choice: 0 });
    writeAddress(true);
    ask();
}

function toggleSilence(name) {
    const names = state.silent ? state.silent.split(',') : [];
    setSilent(names.includes(name) ? names.filter(other => other !== name) : [...names, name]);
}

// The toggle of a head. The keyboard has the key S instead, so that Tab does not stop twice at each head.
function makeSilencer(head) {
    const button = make('button', { type: 'button', className: 'silencer', textContent: '×', tabIndex: -1,
        'data-test': `silence-${head.name}` });
    markSilencer(button, head);
    button.setAttribute('aria-label', `silence ${headTitle(head)}`);
    button.addEventListener('click', () => toggleSilence(head.name));
    return button;
}

function markSilencer(button, head) {
    button.setAttribute('aria-pressed', head.isSilent);
    button.title = head.isSilent ? 'let this head speak again (S)' : 'silence this head (S)';
}

element('overview').addEventListener('keydown', event => {
    const { name } = event.target.dataset;
    if (event.key.toLowerCase() !== 's' || !name || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    toggleSilence(name);
});
element('speak').addEventListener('click', () => setSilent([]));

// Hides a button, or shows it. The focus of the keyboard goes on to what the button was for.
function hideButton(button, isHidden, group) {
    const hadFocus = isHidden && button.matches(':focus-visible');
    button.hidden = isHidden;
    if (hadFocus) group.querySelector('[tabindex="0"]')?.focus();
}

// The crosses show only under the pointer, and keys do not show at all.
function sayHowToSilence() {
    if (scenes || !state.view.heads.length) return '';
    return ` × or the key S silences a head${canSilenceWords() ? ', also a word of the sentence' : ''}.`;
}

// ---- words of the sentence ----

// The numbers of the silent words from 0, as the engine reads them. An address may hold anything.
function silentWords() {
    return state.silentWords.split(',').filter(number => /^[1-9]\d{0,5}$/.test(number)).map(number => number - 1);
}

function setSilentWords(indices) {
    change({ silentWords: indices.map(index => index + 1).join(), choice: 0 });
    writeAddress(true);
    ask();
}

function isSilentWord(index) {
    return Boolean(state.view.silent_sources[index]);
}

function toggleWord(index) {
    const silent = silentWords();
    setSilentWords(silent.includes(index) ? silent.filter(other => other !== index) : [...silent, index]);
}

// Networks without attention, and the score local_p, cannot.
function canSilenceWords() {
    return state.view.silent_sources.length > 0;
}

// A word of the sentence with its toggle; the word alone where the model cannot silence words.
function withSilencer(word, index) {
    if (!canSilenceWords()) return word;
    word.setAttribute('aria-keyshortcuts', 'S');
    const button = make('button', { type: 'button', className: 'silencer', textContent: '×', tabIndex: -1,
        'aria-label': `silence ${state.view.source_tokens[index]}`, 'data-test': `silence-word-${index}` });
    button.addEventListener('click', () => toggleWord(index));
    return make('span', { className: 'word-box' }, word, button);
}

function markWordSilencers() {
    [...element('source-words').querySelectorAll('.silencer')].forEach((button, i) => {
        button.setAttribute('aria-pressed', isSilentWord(i));
        button.title = isSilentWord(i) ? 'let this word speak again (S)' : 'silence this word: nothing attends to it (S)';
    });
}

element('source-words').addEventListener('keydown', event => {
    const index = wordButtons.source.indexOf(event.target);
    if (event.key.toLowerCase() !== 's' || index < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (canSilenceWords()) toggleWord(index);
});
element('words-speak').addEventListener('click', () => setSilentWords([]));

function sayWords() {
    const { view } = state, silent = view.source_tokens.filter((_, index) => isSilentWord(index));
    const isRead = view.heads.every(head => head.kind !== 'encoder'); // by a recurrent encoder
    element('silent-words').textContent = silent.length ? `silent: ${silent.map(quoted).join(', ')}. Nothing attends to a silent word` +
        `${isRead ? ', but the encoder reads it' : ''}.` : '';
    hideButton(element('words-speak'), !silent.length, element('source-words'));
}

listen(changed => {
    if (!changed.has('view')) return;
    if (!scenes) sayWords();
    const silent = state.view.heads.filter(head => head.isSilent);
    element('silent').textContent = !silent.length ? ''
        : silent.length === 1 ? `silent: ${headTitle(silent[0])}` : `${silent.length} heads are silent`;
    hideButton(element('speak'), !silent.length, element('overview'));
});
