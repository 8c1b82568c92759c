// Starts the page, and links it to the worker. One request is under way at a time; of those that wait, only the last is sent, and an
// answer that is no longer asked for is dropped.
'use strict';

let askedView = null; // as a text
let worker = null, sequence = 0, answered = 0, waiting = null;
let underWay = true; // until the engine is ready
let dimming = null; // the timer that dims what is out of date, so that an answer that comes soon costs the browser no change of styles
const engineData = element('engine-data').textContent; // also for the worker of the training

const POLICY = 'the server that sends it forbids its workers: its Content-Security-Policy must allow “worker-src blob:”; or save the page, and open the file';

// Starts the engine in a worker of its own. failed: of the worker itself, as a text. A policy that forbids workers makes the
// constructor throw, or gives an event without a message, depending on the browser.
function startWorker(receive, failed, data) {
    let started;
    try {
        started = new Worker(URL.createObjectURL(new Blob([element('worker').textContent], { type: 'text/javascript' })));
    } catch {
        failed(POLICY);
        return null;
    }
    started.onmessage = event => receive(event.data);
    started.onerror = event => failed(event.message ?? POLICY);
    started.postMessage({ engine: engineData, ...data });
    return started;
}

// Asks for what the state says. What a word rests on belongs to one view.
function ask() {
    const { scene, seed, source, own, beam, choice, length, temperature, isHeld, isBeside } = state;
    const view = { scene, seed, hasSource, source, own, beam, choice, length, temperature, isHeld, isBeside, silent: silentHeads(), silentWords: silentWords(), moment: engineMoment() };
    if (JSON.stringify(view) !== askedView) change({ askedWord: null, rests: null });
    askedView = JSON.stringify(view);
    waiting = { ...view, walk: wantedWalk(), rest: state.askedWord, sequence: ++sequence };
    document.body.classList.add('waiting');
    dimming ??= setTimeout(() => document.body.classList.add('dimmed'), LATER);
    sendNext();
}

function sendNext() {
    if (underWay || !waiting) return;
    underWay = true;
    worker.postMessage(waiting);
    waiting = null;
}

function receive(answer) {
    if (answer.ready) return start(answer.ready);
    if (!answer.sequence) return failed(answer.error);
    underWay = false;
    if (answer.sequence === sequence) {
        answered = sequence;
        clearTimeout(dimming);
        dimming = null;
        for (const name of ['waiting', 'dimmed']) document.body.classList.toggle(name, Boolean(answer.error));
        showMessage(answer.error ?? '');
        if (answer.view) showView({ ...readView(answer.view), beside: answer.view.beside && readView(answer.view.beside) });
        if (answer.walk) change({ walk: readWalk(answer.walk) });
        if (answer.rest) change({ rests: readRest(answer.rest) });
    } else if (waiting) waiting.isAgain = true; // the answer is dropped, so the engine may not rely on it
    sendNext();
}

function showMessage(text) {
    element('message').textContent = text;
}

function failed(text) {
    showMessage(`the page cannot start: ${text}`);
}

// Whether the page shows the answer to the last request, with all that is done later.
function isSettled() {
    return answered === sequence && !postponed.size;
}

// The English name of a language; null for what is not the code of one, as in a toy of letters.
function languageName(code) {
    try {
        return new Intl.DisplayNames('en', { type: 'language', fallback: 'none' }).of(code) ?? null;
    } catch {
        return null;
    }
}

// The engine is ready: asks for the first view.
function start({ colormaps: names, colors, ...facts }) {
    takeColormaps(names, colors);
    change({ facts: facts.choices ? facts : null });
    underWay = false;
    element('key').hidden = false;
    ask();
}

function showRun() {
    const { name, source, target, summary } = run, language = code => languageName(code) ?? code;
    element('name').textContent = document.title = name;
    element('title').textContent = `Watch a small model ${hasSource ? 'translate' : 'write'}`;
    element('about').textContent = `${hasSource ? `translates ${language(source)} to ${language(target)}` : `continues a text in ${language(target)}`}; the model runs in this page`;
    element('model').textContent = summary.replace(/\d{4,}(?= parameters)/, count => Number(count).toLocaleString('en'));
    for (const id of languageName(source) ? ['source', 'source-words'] : []) element(id).lang = source;
    for (const id of languageName(target) ? ['own', 'target', 'target-words', ...(hasSource ? [] : ['source'])] : []) element(id).lang = target;
    document.body.classList.add(hasSource ? 'has-source' : 'has-text');
    if (hasSource) return;
    element('intro').textContent = 'This small model learned to continue a text. Type a beginning: the map shows at which words before it each word looked. Drag the slider to “random” to see it untrained.';
    element('source').ariaLabel = element('source').placeholder = 'Type the beginning of a text';
    element('target-words').ariaLabel = 'Words of the text';
}

function showView(view) {
    const keeps = view.heads.some(head => head.name === state.head);
    const cross = view.heads.filter(head => head.kind === 'cross');
    const head = keeps ? state.head : bestAlignedHead() ?? (cross.at(-1) ?? view.heads.at(-1))?.name ?? null;
    // An address may name heads and words that are not there.
    const silent = view.heads.filter(other => other.isSilent).map(other => other.name).join();
    const silentWords = [...view.silent_words].flatMap((isSilent, i) => (isSilent ? [i + 1] : [])).join();
    change({ view: viewInWords(view), head, silent, silentWords, cell: null, hover: null, held: null, step: Math.min(state.step ?? view.given[0], view.target_outputs.length - 1) });
}

function openAddress() {
    change(readAddress());
    if (scenes) return;
    showFields();
    if (!state.source) change({ source: element('source').value });
}

element('theme').addEventListener('click', () => setTheme(!state.isDark));
element('present').addEventListener('click', () => {
    change({ isPresenting: !state.isPresenting });
    writeAddressLater();
});
always('isPresenting', () => {
    element('present').setAttribute('aria-pressed', state.isPresenting);
    document.documentElement.classList.toggle('presenting', state.isPresenting);
    dispatchEvent(new Event('resize')); // all that depends on the size of text
});
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
prefersDark.addEventListener('change', event => setTheme(event.matches));
addEventListener('popstate', () => {
    openAddress();
    ask();
});

element('source').defaultValue = run?.sentence ?? '';
setTheme(prefersDark.matches);
if (scenes) change({ isWalking: true });
else showRun();
openAddress();
worker = startWorker(receive, failed, { model: element('model-data').textContent, snapshots: takeSnapshots(), holdsScenes: scenes !== null });
element('model-data').remove();
