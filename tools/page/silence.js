// Silencing heads: a silent head passes on nothing. A cross at each small map, or the key S on it, silences it or lets it
// speak again; translation, probabilities and the other maps follow.
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

listen(changed => {
    if (!changed.has('view')) return;
    const silent = state.view.heads.filter(head => head.isSilent);
    element('silent').textContent = !silent.length ? ''
        : silent.length === 1 ? `silent: ${headTitle(silent[0])}` : `${silent.length} heads are silent`;
    element('speak').hidden = !silent.length;
});
