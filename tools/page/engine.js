// The worker: runs the engine, a WebAssembly module, so that the page never waits for it. Everything here moves bytes; all numbers are
// computed by the engine. Messages in: {engine, model, snapshots, holdsScenes} once, then what the page asks for. Messages out: {ready},
// then {sequence, view, walk, rest}, a view, a walk and a rest only when they have changed, or {sequence, error}. A second worker trains
// a model of its own: see train.
'use strict';

let compiled, modelBytes, holdsScenes, engine; // modelBytes: a packed run, or packed scenes
let snapshots = [];     // parameters of some updates: packed, in base64, until they are asked for
let shown = null;       // the request whose view was sent last, as a text
let walked = null;      // the layer whose walk was sent last, as a text
let rested = null;      // what was asked about a word of that view, as a text
let moment = 'learned'; // whose parameters the engine uses: 'random', 'learned' or the number of a snapshot

async function unpack(base64) {
    const text = atob(base64), packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// ---- calls of the module: see module.h ----

class Refused extends Error {} // the module works on, with page_message as its reason

function textAt(address, size) {
    const bytes = new Uint8Array(engine.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(address, size === undefined ? bytes.indexOf(0, address) : address + size));
}

// A copy of the results of the last call, by their names.
function results() {
    const { buffer } = engine.memory, found = {};
    for (let at = engine.page_results(); ; at += 16) {
        const [name, type, address, count] = new Uint32Array(buffer, at, 4);
        if (!name) return found;
        found[textAt(name)] = type === 0 ? textAt(address, count).split('\n').slice(0, -1)
            : new [null, Int32Array, Float32Array, Float64Array][type](buffer, address, count).slice();
    }
}

// Writes blocks, texts or bytes, one after another into the module's memory, and calls a function with their sizes and numbers.
function call(name, blocks, ...numbers) {
    const parts = blocks.map(block => (typeof block === 'string' ? new TextEncoder().encode(block) : block));
    let address = engine.page_input(parts.reduce((sum, part) => sum + part.length, 0));
    for (const part of parts) {
        new Uint8Array(engine.memory.buffer, address, part.length).set(part);
        address += part.length;
    }
    if (engine[name](...parts.map(part => part.length), ...numbers)) throw new Refused(textAt(engine.page_message()));
    return results();
}

// The calls of WASI that the module links. It writes only the message of a bug, just before it ends; it has neither
// environment variables nor files.
const SUCCESS = 0, NOT_SUPPORTED = 52;
let errorText = '';

const SYSTEM = {
    environ_sizes_get: (count, size) => {
        const memory = new DataView(engine.memory.buffer);
        memory.setUint32(count, 0, true);
        memory.setUint32(size, 0, true);
        return SUCCESS;
    },
    environ_get: () => SUCCESS,
    fd_write: (file, parts, count, written) => {
        const memory = new DataView(engine.memory.buffer);
        let size = 0;
        for (let i = 0; i < count; i++) {
            const length = memory.getUint32(parts + 8 * i + 4, true);
            errorText += textAt(memory.getUint32(parts + 8 * i, true), length);
            size += length;
        }
        memory.setUint32(written, size, true);
        return SUCCESS;
    },
    proc_exit: () => { throw new Error(errorText || 'it ended'); },
};

async function open() {
    const imports = { wasi_snapshot_preview1: {}, env: {} };
    for (const { module, name } of WebAssembly.Module.imports(compiled))
        imports[module][name] = SYSTEM[name] ?? (() => {
            if (module === 'env') throw new Error(`${name} is not in the page`);
            return NOT_SUPPORTED;
        });
    errorText = '';
    engine = (await WebAssembly.instantiate(compiled, imports)).exports;
    engine._initialize();
    shown = walked = rested = null;
    moment = 'learned';
    if (modelBytes) call(holdsScenes ? 'page_open_scenes' : 'page_open_model', [modelBytes]);
}

// ---- what the page asks for ----

// Has the engine use the parameters of another moment of training.
async function goTo(wanted) {
    if (wanted === moment) return;
    moment = null;
    if (typeof snapshots[wanted] === 'string') snapshots[wanted] = await unpack(snapshots[wanted]);
    call('page_moment', [snapshots[wanted] ?? ''], wanted === 'random');
    moment = wanted;
}

function bytesOf(integers) {
    return new Uint8Array(Int32Array.from(integers).buffer);
}

const kept = new Map(); // translations of the learned parameters, by what they depend on

// Has the calls that follow work without these heads and words, and draw words, if they do, at this temperature.
function setUp({ temperature, seed }, silent, silentWords) {
    call('page_silence', [bytesOf(silent.flat()), bytesOf(silentWords)]);
    call('page_sample', [], temperature, seed ?? -1);
}

// The translation with the learned parameters. Sliding and silencing ask for the same one again and again.
async function learnedTranslation(asked, silent, silentWords) {
    const { source, beam, choice, temperature, seed } = asked, key = JSON.stringify([source, beam, choice, temperature, seed, silent, silentWords]);
    if (!kept.has(key)) {
        await goTo('learned');
        setUp(asked, silent, silentWords);
        if (kept.size > 3) kept.clear();
        kept.set(key, call('page_translate', [source], beam, choice, 0).translations[choice]);
    }
    return kept.get(key);
}

// silent: [kind, layer, head] of each silent head; silentWords: the numbers of words of the sentence, or of the text, to which nothing
// attends. Without a source, the model is a language model, which continues also an empty text. isHeld: other moments of training show the
// learned translation, and `itself` is that of the moment. isBeside: also the view of the other end of training, with the same translation.
async function viewOf(asked) {
    const { scene, seed, hasSource, source, own, beam, choice, length, silent, silentWords, isHeld, isBeside, moment: wanted } = asked;
    if (holdsScenes) return call('page_scene', [], scene, seed ?? -1);
    const searches = hasSource && own === null && Boolean(source.trim()), isLearned = wanted === 'learned';
    const held = searches && isHeld && !isLearned ? await learnedTranslation(asked, silent, silentWords) : null;
    const unsilenced = searches && isLearned && silent.length + silentWords.length ? [await learnedTranslation(asked, [], [])] : [];
    const force = target => call('page_force', [source.trim() && source, target]); // as qkv translate: no words give none
    await goTo(wanted);
    setUp(asked, silent, silentWords);
    const itself = held === null ? [] : call('page_translate', [source], beam, choice, 0).translations.slice(choice, choice + 1);
    const view = held !== null ? { ...force(held), translations: [held] }
        : searches || !hasSource ? call('page_translate', [source], beam, choice, length) : force(own ?? '');
    if (isBeside && hasSource) {
        await goTo(isLearned ? 'random' : 'learned');
        view.beside = force(own ?? view.translations?.[choice] ?? '');
        await goTo(wanted);
        force(own ?? view.translations?.[choice] ?? ''); // a walk that follows is that of the view
    }
    return { ...view, unsilenced, itself };
}

// What a request asks for beyond what was sent last, or all of it if the page has dropped that (isAgain).
async function answerTo({ sequence, walk, rest, isAgain, ...asked }) {
    const answer = { sequence }, key = JSON.stringify(asked);
    if (isAgain || key !== shown) {
        shown = walked = rested = null;
        answer.view = await viewOf(asked);
        shown = key;
    }
    if (walk && walked !== String(walk)) {
        walked = null;
        answer.walk = holdsScenes ? answer.view : call('page_walk', [], ...walk);
        walked = String(walk);
    }
    if (rest && rested !== String(rest)) {
        answer.rest = restOf(rest);
        rested = String(rest);
    }
    return answer;
}

// What the word of a step rests on; with another sentence, what patching from it changes. The page shows a refusal in its place.
function restOf([step, other]) {
    try {
        return other ? call('page_patch', [other], step) : call('page_erase', [], step);
    } catch (error) {
        if (error instanceof Refused) return { error: error.message };
        throw error;
    }
}

// ---- training ----

const SLICE = 100; // milliseconds of updates between two messages
let wanted = null, next = null; // what the page wants, and the timer of the next slice
let isBegun = false;            // there is a model

// The maps of the pair; where its target is not known, those of the model's own translation.
function sendTrained(losses) {
    const { sequence, pair: { source, target } } = wanted, own = call('page_translate', [source], 1, 0);
    postMessage({ sequence, losses, view: target === null ? own : call('page_force', [source, target]), translation: own.translations[0] ?? '' });
}

// Does updates for about a slice, then lets messages in.
function train() {
    const losses = [], began = performance.now();
    do losses.push(call('page_update', [], wanted.rate).loss[0]); while (performance.now() - began < SLICE);
    sendTrained(losses);
    next = setTimeout(() => report(wanted, train));
}

// Begins a training if `sequence`, which counts them, is new, and does what the page wants: {sequence, pairs, seed, rate, pair, running}.
function takeUp(message) {
    const isNew = message.sequence !== wanted?.sequence;
    wanted = message;
    clearTimeout(next);
    if (isNew) {
        isBegun = false;
        call('page_begin', [wanted.pairs], wanted.seed);
        isBegun = true;
    }
    if (!isBegun) return;
    if (isNew || !wanted.running) sendTrained([]);
    if (wanted.running) train();
}

// ---- messages ----

async function take(message) {
    if (message.engine) {
        ({ snapshots, holdsScenes } = message);
        [compiled, modelBytes] = await Promise.all([unpack(message.engine).then(WebAssembly.compile), message.model && unpack(message.model)]);
        await open();
        postMessage({ ready: { ...call('page_colors', []), ...(holdsScenes || !modelBytes ? {} : call('page_facts', [])) } });
    } else if (message.task) postMessage(call('page_generate', [message.task]));
    else if (message.pairs === undefined) postMessage(await answerTo(message));
    else takeUp(message);
}

// Works, and sends what went wrong. After a bug, or without memory, the state of the module is unknown, so it starts again.
async function report({ sequence }, work) {
    try {
        await work();
    } catch (error) {
        const isOpen = engine && !(error instanceof Refused);
        postMessage({ sequence, error: isOpen ? `the engine failed and has started again: ${error.message}` : error.message });
        if (isOpen) await open();
    }
}

onmessage = ({ data }) => report(data, () => take(data));
