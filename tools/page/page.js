// Starts the page.
'use strict';

// The English name of a language; null for what is not the code of one, as in a toy of letters.
function languageName(code) {
    try {
        return new Intl.DisplayNames('en', { type: 'language', fallback: 'none' }).of(code) ?? null;
    } catch {
        return null;
    }
}

// The engine is ready: shows its model, then asks for the first view.
function start({ name, source, target, colormaps: names, colors }) {
    takeColormaps(names, colors);
    element('key').hidden = false;
    if (scenes) {
        element('name').textContent = 'Attention, step by step';
        element('about').textContent = 'the numbers are computed in this page';
        return ask();
    }
    element('name').textContent = name;
    document.title = name;
    element('about').textContent = `translates ${languageName(source) ?? source} to ${languageName(target) ?? target}; the model runs in this page`;
    const of = { source: ['source', 'source-words'], target: ['own', 'target', 'target-words'] };
    for (const id of languageName(source) ? of.source : []) element(id).lang = source;
    for (const id of languageName(target) ? of.target : []) element(id).lang = target;
    element('model').textContent = textOf('model-summary');
    ask();
}

function showView(view) {
    const keeps = view.heads.some(head => head.name === state.head);
    const cross = view.heads.filter(head => head.kind === 'cross');
    const head = keeps ? state.head : bestAlignedHead() ?? (cross.at(-1) ?? view.heads.at(-1))?.name ?? null;
    // An address may name heads and words that are not there.
    const silent = view.heads.filter(head => head.isSilent).map(head => head.name).join();
    const silentWords = [...view.silent_sources].flatMap((isSilent, i) => (isSilent ? [i + 1] : [])).join();
    change({ view: viewInWords(view), head, silent, silentWords, cell: null, hover: null, held: null, step: Math.min(state.step, view.target_outputs.length - 1) });
}

function openAddress() {
    change({ ...readAddress() });
    if (scenes) return;
    showFields();
    if (!state.source) change({ source: element('source').value });
}

// Browsers without field-sizing: a field grows with its text.
function fitFields() {
    if (CSS.supports('field-sizing', 'content')) return;
    for (const id of ['source', 'own']) {
        element(id).style.height = 'auto';
        element(id).style.height = `${element(id).scrollHeight + 2}px`;
    }
}

element('source').defaultValue = textOf('opening-sentence');
listen(changed => {
    if (changed.has('source') || changed.has('own')) fitFields();
});

for (const id of ['source', 'own'])
    onText(element(id), () => {
        change(id === 'source' ? { source: element(id).value, silentWords: '', choice: 0 } : { own: element(id).value, choice: 0 });
        writeAddressLater();
        ask();
    });
element('theme').addEventListener('click', () => setTheme(!isDark));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', event => setTheme(event.matches));
addEventListener('popstate', () => {
    openAddress();
    ask();
});

setTheme(isDark);
openAddress();
startWorker();
