// The link to the worker. One request is under way at a time; of those that wait, only the last is sent, and an answer
// that is no longer asked for is dropped.
'use strict';

let worker, sequence = 0, answered = 0, underWay = false, waiting = null;
const engineData = element('engine-data').textContent; // also for the worker of the training

function send(request) {
    waiting = { ...request, silent: silentHeads(), silentWords: silentWords(), moment: engineMoment(), walk: wantedWalk(), number: wantedNumber(), sequence: ++sequence };
    document.body.classList.add('waiting');
    sendNext();
}

function sendNext() {
    if (underWay || !waiting || !worker) return;
    underWay = true;
    worker.postMessage(waiting);
    waiting = null;
}

function receive({ data }) {
    if (data.failed) return showMessage(`the page cannot start: ${data.failed}`);
    if (data.ready) return start(data.ready);
    underWay = false;
    if (data.sequence === sequence) {
        answered = data.sequence;
        document.body.classList.toggle('waiting', Boolean(data.error));
        showMessage(data.error ?? '');
        if (data.view) showView(readView(data.view));
        const terms = data.terms && state.number ? { ...data.terms, of: state.number } : null;
        if (data.walk) change({ walk: readWalk(data.walk), terms });
        else if (!data.error) change({ terms });
    } else if (waiting) waiting.isAgain = true; // the answer is dropped, so the engine may not rely on it
    sendNext();
}

function showMessage(text) {
    element('message').textContent = text;
}

// Whether the page shows the answer to the last request, with all that is done later.
function isSettled() {
    return answered === sequence && !postponed.size;
}

function startWorker() {
    const code = URL.createObjectURL(new Blob([element('worker').textContent], { type: 'text/javascript' }));
    const first = new Worker(code);
    first.onmessage = receive;
    first.onerror = event => showMessage(`the page cannot start: ${event.message}`);
    first.postMessage({ engine: engineData, model: element('model-data').textContent, snapshots: takeSnapshots(),
        holdsScenes: scenes !== null });
    element('engine-data').remove();
    element('model-data').remove();
    worker = first;
}

// Asks for what the state says.
function ask() {
    if (scenes) return send({ call: 'scene', scene: state.scene, seed: state.seed });
    if (state.own !== null) send({ call: 'force', source: state.source, target: state.own });
    else if (!state.source.trim()) send({ call: 'force', source: '', target: '' }); // as qkv translate: no words give none
    else send({ call: 'translate', source: state.source, beam: state.beam, choice: state.choice });
}
