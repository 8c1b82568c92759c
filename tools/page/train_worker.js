// The worker of the training: the same code and module as engine.js, which it follows, but with a model of its own, so that
// the page stays usable. Messages in: {engine} once, then {call, ...}. Messages out: {pairs}, {sequence, losses, view,
// translation} or {sequence, error}. `sequence` counts the trainings: the page drops what an earlier one sends.
'use strict';

const SLICE = 100; // milliseconds of updates between two messages
let isTraining = false, rate = 0, training = 0, shownPair = null, next = null; // next: the timer of the next slice

// Writes texts into the module's memory and returns their sizes.
function putTexts(...texts) {
    const parts = texts.map(text => new TextEncoder().encode(text));
    put(...parts);
    return parts.map(part => part.length);
}

function check(done) {
    if (!done) throw new Error(text('message'));
}

// The map of the pair; where its target is not known, that of the model's own translation.
function showPair() {
    const { source, target } = shownPair;
    check(engine.page_training_show_translation(...putTexts(source)));
    const translation = list('translations')[0] ?? '';
    if (target !== null) check(engine.page_training_show_forced(...putTexts(source, target)));
    return { view: view(), translation };
}

// Does updates for about a slice, then lets messages in.
function train() {
    if (!isTraining) return;
    const losses = [], began = performance.now();
    try {
        do {
            check(engine.page_training_update(1, rate));
            losses.push(...array('losses', Float64Array));
        } while (performance.now() - began < SLICE);
        postMessage({ sequence: training, losses, ...showPair() });
        trainLater();
    } catch (error) {
        isTraining = false;
        postMessage({ sequence: training, losses, error: error.message });
    }
}

function trainLater() {
    clearTimeout(next);
    next = setTimeout(train);
}

const TRAINING_CALLS = {
    generate: ({ task }) => {
        check(engine.page_training_generate(...putTexts(task)));
        postMessage({ pairs: text('pairs') });
    },
    begin: ({ sequence, pairs, seed, pair }) => {
        isTraining = false;
        training = sequence;
        shownPair = pair;
        check(engine.page_training_start(...putTexts(pairs), seed));
        postMessage({ sequence, losses: [], ...showPair() });
    },
    show: ({ pair }) => {
        shownPair = pair;
        if (!isTraining) postMessage({ sequence: training, losses: [], ...showPair() });
    },
    rate: message => { rate = message.rate; },
    go: message => {
        rate = message.rate;
        isTraining = true;
        trainLater();
    },
    stop: () => { isTraining = false; },
};

onmessage = async ({ data }) => {
    try {
        if (!engine) {
            compiled = await WebAssembly.compile(await unpack(data.engine));
            await instantiate();
            postMessage({ ready: true });
        } else {
            TRAINING_CALLS[data.call](data);
        }
    } catch (error) {
        postMessage({ sequence: training, losses: [], error: error.message });
    }
};
