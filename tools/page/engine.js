// The worker: runs the engine, a WebAssembly module, so that the page never waits for it. Messages in: {engine, model, snapshots, holdsScenes}
// once, then {sequence, call, ...}. Messages out: {ready: {...}}, then {sequence, view, walk, terms} or {sequence, error}: a view
// and a walk only when they have changed.
// Everything here moves bytes; all numbers are computed by the engine.
'use strict';

// Results of the module, by name: see module.c.
const TEXTS = ['source_tokens', 'target_inputs', 'target_outputs', 'translations', 'next_words'];
const ARRAYS = {
    scores: Float64Array, log_probability: Float64Array, known_sources: Int32Array, known_targets: Int32Array, probabilities: Float64Array,
    source_words: Int32Array, target_words: Int32Array, next_probabilities: Float64Array, maps: Int32Array, silent: Int32Array, silent_sources: Int32Array, entropies: Float64Array, weights: Float32Array,
};

const STEP_TEXTS = ['step_names', 'step_titles', 'step_formulas', 'step_notes', 'step_words'];

let compiled, modelBytes, holdsScenes, engine; // modelBytes: a packed run, or packed scenes
let snapshots = [];    // parameters of some updates: packed, in base64, until they are asked for
let shown = null;      // the request whose view was sent last, as a text
let walked = null;     // the layer whose walk was sent last, as a text
let moment = 'learned'; // whose parameters the engine uses: 'random', 'learned' or the number of a snapshot

async function unpack(base64) {
    const text = atob(base64), packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
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
            errorText += new TextDecoder().decode(new Uint8Array(memory.buffer, memory.getUint32(parts + 8 * i, true), length));
            size += length;
        }
        memory.setUint32(written, size, true);
        return SUCCESS;
    },
    proc_exit: () => { throw new Error(errorText || 'it ended'); },
};

function text(name) {
    const bytes = new Uint8Array(engine.memory.buffer, engine['page_' + name](), engine[`page_${name}_count`]());
    return new TextDecoder().decode(bytes);
}

function list(name) {
    return text(name).split('\n').slice(0, -1);
}

function array(name, type) {
    return new type(engine.memory.buffer, engine['page_' + name](), engine[`page_${name}_count`]()).slice();
}

// Writes byte arrays one after another into the module's memory.
function put(...parts) {
    const size = parts.reduce((sum, part) => sum + part.length, 0);
    let address = engine.page_memory(size);
    if (!address) throw new Error('out of memory');
    for (const part of parts) {
        new Uint8Array(engine.memory.buffer, address, part.length).set(part);
        address += part.length;
    }
}

async function instantiate() {
    const system = {};
    for (const { name } of WebAssembly.Module.imports(compiled)) system[name] = SYSTEM[name] ?? (() => NOT_SUPPORTED);
    errorText = '';
    engine = (await WebAssembly.instantiate(compiled, { wasi_snapshot_preview1: system })).exports;
    engine._initialize();
}

async function open() {
    await instantiate();
    shown = walked = null;
    moment = 'learned';
    put(modelBytes);
    const opens = holdsScenes ? engine.page_open_scenes : engine.page_open_model;
    if (!opens(modelBytes.length)) throw new Error(text('message'));
}

function view() {
    const result = {};
    for (const name of TEXTS) result[name] = list(name);
    for (const name in ARRAYS) result[name] = array(name, ARRAYS[name]);
    return result;
}

const CALLS = {
    scene: ({ scene, seed }) => engine.page_show_scene(scene, seed ?? -1),
    translate: ({ source, beam, choice }) => {
        const bytes = new TextEncoder().encode(source);
        put(bytes);
        return engine.page_translate_text(bytes.length, beam) && (!choice || engine.page_choose_translation(choice));
    },
    force: ({ source, target }) => {
        const from = new TextEncoder().encode(source), to = new TextEncoder().encode(target);
        put(from, to);
        return engine.page_force_target(from.length, to.length);
    },
};

// heads: [kind, layer, head] of each head that is silent.
function silence(heads) {
    put(new Uint8Array(Int32Array.from(heads.flat()).buffer));
    engine.page_silence_heads(heads.length);
}

// words: number of each word of the sentence to which nothing attends; false: page_message says why not.
function silenceWords(words) {
    put(new Uint8Array(Int32Array.from(words).buffer));
    return engine.page_silence_source(words.length);
}

// Has the engine use the parameters of another moment of training.
async function goTo(wanted) {
    if (wanted === moment) return true;
    moment = null;
    if (typeof wanted === 'number') {
        if (typeof snapshots[wanted] === 'string') snapshots[wanted] = await unpack(snapshots[wanted]);
        put(snapshots[wanted]);
        if (!engine.page_snapshot(snapshots[wanted].length)) return false;
    } else if (!(wanted === 'random' ? engine.page_random() : engine.page_learned())) return false;
    moment = wanted;
    return true;
}

// Computes what a request asks for beyond what was sent last, or all of it if the page has dropped that (isAgain); false:
// page_message says why not.
async function compute(request, result) {
    const { sequence, walk, number, isAgain, ...asked } = request, key = JSON.stringify(asked);
    if (isAgain || key !== shown) {
        shown = walked = null;
        if (!holdsScenes && !await goTo(request.moment)) return false;
        if (!holdsScenes) silence(request.silent);
        if (!holdsScenes && !silenceWords(request.silentWords)) return false;
        if (!CALLS[request.call](request)) return false;
        result.view = view();
        shown = key;
    }
    if (!walk) return true;
    if (walked !== String(walk)) {
        walked = null;
        if (!holdsScenes && !engine.page_walk_through(...walk)) return false; // a scene is walked through when it is shown
        result.walk = { steps: array('steps', Int32Array), step_values: array('step_values', Float32Array) };
        for (const name of STEP_TEXTS) result.walk[name] = list(name);
        walked = String(walk);
    }
    if (!number || !engine.page_walk_to(...number)) return true; // a shorter sentence may not have the number any more
    const names = list('term_names'), numbers = array('terms', Float64Array), [value, sum] = array('term_result', Float64Array);
    result.terms = { value, sum, terms: names.map((name, i) => [name, ...numbers.subarray(3 * i, 3 * i + 3)]) };
    return true;
}

async function answer(request) {
    const { sequence } = request, result = { sequence };
    try {
        postMessage(await compute(request, result) ? result : { sequence, error: text('message') });
    } catch (error) { // a bug or no memory: the state of the module is unknown, so it starts again
        postMessage({ sequence, error: `the engine failed and has started again: ${error.message}` });
        await open();
    }
}

onmessage = async ({ data }) => {
    if (data.sequence) return answer(data);
    ({ snapshots, holdsScenes } = data);
    try {
        [compiled, modelBytes] = await Promise.all([unpack(data.engine).then(WebAssembly.compile), unpack(data.model)]);
        await open();
        postMessage({ ready: { name: text('name'), source: text('source_language'), target: text('target_language'),
            colormaps: list('colormaps'), colors: array('colors', Uint32Array) } });
    } catch (error) {
        postMessage({ failed: error.message });
    }
};
