// Training in the page: a small model of its own learns pairs of sentences, with its loss and the map of one pair.
'use strict';

const TRAIN_TASKS = { reverse: 'a sequence backwards', copy: 'a sequence unchanged', sort: 'a sequence in ascending order' };

const LAST = 100, NEXT_TO_NOTHING = 0.01; // updates, and nats per word: training ends by itself

const training = {
    worker: null,
    sequence: 0,     // of this training: answers of earlier ones are dropped
    running: false,
    losses: [],      // of each update, nats per word
    earlier: [],     // the losses of the training before, to compare
    view: null,
    targets: null,   // Map: source to target
    isDrawn: true,   // false: a frame is asked for
};

function say(text, isError) {
    element('train-message').textContent = text;
    element('train-message').classList.toggle('wrong', Boolean(isError));
}

function receiveTraining({ ready, pairs, sequence = training.sequence, losses = [], view, translation, error }) {
    if (ready) return chooseTask();
    if (pairs) {
        element('train-pairs').value = pairs.join('\n');
        element('train-sentence').value = pairs[0].split('\t')[0];
        return beginTraining();
    }
    if (sequence !== training.sequence) return;
    training.losses.push(...losses);
    if (training.running && isLearned()) {
        train(false);
        say('learned: the training has ended');
    }
    if (error) {
        setRunning(false);
        if (!training.losses.length && !training.view) element('train-go').disabled = true;
        say(error, true);
    }
    if (view) {
        element('train-go').disabled = false;
        training.view = readView(view);
        training.translation = translation;
    }
    drawTraining();
}

// Whether the last updates leave next to nothing to learn.
function isLearned() {
    const last = training.losses.slice(-LAST);
    return last.length === LAST && last.reduce((sum, loss) => sum + loss) < NEXT_TO_NOTHING * LAST;
}

// ---- what one does ----

function chooseTask() {
    const task = element('train-task').value;
    if (task) training.worker.postMessage({ task });
}

function seedOfTraining() {
    return Math.max(0, Math.floor(Number(element('train-seed').value)) || 0);
}

// The slider is the exponent: half a step is a factor of about three.
function rateOfTraining() {
    return Number((10 ** Number(element('train-rate').value)).toPrecision(2));
}

// Tells the worker what is wanted: see takeUp in engine.js.
function sendTraining() {
    const source = element('train-sentence').value, target = training.targets?.get(source.trim().split(/\s+/).join(' ')) ?? null;
    training.worker?.postMessage({ sequence: training.sequence, pairs: element('train-pairs').value, seed: seedOfTraining(),
        rate: rateOfTraining(), pair: { source, target }, running: training.running });
}

// Makes a new model with random parameters: update 0.
function beginTraining(running = false) {
    const lines = element('train-pairs').value.split('\n');
    training.targets = new Map(lines.map(line => line.replace(/\r$/, '').split('\t')));
    training.sequence++;
    if (training.losses.length) training.earlier = training.losses;
    training.losses = [];
    training.view = null;
    if (!training.targets.has(element('train-sentence').value)) [element('train-sentence').value] = training.targets.keys();
    train(running);
}

function setRunning(running) {
    training.running = running;
    element('train-go').textContent = running ? 'stop' : training.losses.length ? 'go on' : 'start';
}

// Stops or goes on, with a new model or the one before.
function train(running) {
    setRunning(running);
    say('');
    sendTraining();
}

function showRate() {
    element('train-rate-value').textContent = rateOfTraining();
    element('train-rate').setAttribute('aria-valuetext', rateOfTraining());
}

element('train-go').addEventListener('click', () => train(!training.running));
element('train-again').addEventListener('click', () => {
    element('train-seed').value = seedOfTraining() + 1;
    beginTraining(training.running);
});
element('train-seed').addEventListener('change', () => beginTraining());
element('train-task').addEventListener('change', () => {
    if (element('train-task').value) chooseTask();
    else element('train-pairs').focus();
});
element('train-pairs').addEventListener('change', () => {
    element('train-task').value = '';
    beginTraining();
});
element('train-rate').addEventListener('input', () => {
    showRate();
    if (training.running) sendTraining();
});
onText(element('train-sentence'), sendTraining);

// ---- drawing ----

function drawTraining() {
    if (!training.isDrawn) return;
    training.isDrawn = false;
    requestAnimationFrame(() => {
        training.isDrawn = true;
        drawLosses();
        drawTrainedMaps();
    });
}

// At most so many points: means of as many updates as it takes.
const CURVE_POINTS = 300;

function curveOf(losses, updates) {
    const step = Math.max(1, Math.ceil(updates / CURVE_POINTS)), points = [];
    for (let i = 0; i < losses.length; i += step) {
        const part = losses.slice(i, i + step);
        points.push([i + part.length, part.reduce((sum, loss) => sum + loss) / part.length]);
    }
    return points;
}

// The mean of losses, which is not 0, however small it is.
function lossText(losses) {
    const mean = losses.reduce((sum, loss) => sum + loss) / losses.length;
    return mean < 0.001 ? '<0.001' : mean.toFixed(3);
}

const LEFT = 36, RIGHT = 8, TOP = 8, BOTTOM = 22, HEIGHT = 180; // pixels around the curve, and of the whole

function drawLosses() {
    const chart = element('train-curve'), width = chart.clientWidth, updates = Math.max(100, training.losses.length, training.earlier.length);
    const [now, earlier] = [training.losses, training.earlier].map(losses => curveOf(losses, updates));
    const max = Math.max(1, Math.ceil(Math.max(...[...now, ...earlier].map(([, loss]) => loss))));
    const x = update => LEFT + (width - LEFT - RIGHT) * update / updates, y = loss => TOP + (HEIGHT - BOTTOM - TOP) * (1 - loss / max);
    const line = (name, points) => makeLine(name, points.map(([update, loss]) => [x(update), y(loss)]));
    const label = (text, place) => {
        const made = makeSvg('text', place);
        made.textContent = text;
        return made;
    };
    chart.replaceChildren(
        ...[0, max / 2, max].map(loss => label(loss, { x: LEFT - 6, y: y(loss) + 4, class: 'end' })),
        ...[0, max / 2, max].map(loss => line('axis', [[0, loss], [updates, loss]])),
        label('0', { x: LEFT, y: HEIGHT - 4 }), label(`${updates} updates`, { x: width - RIGHT, y: HEIGHT - 4, class: 'end' }),
        line('earlier', earlier), line('now', now));
    const said = now.length ? `, loss ${lossText(training.losses.slice(-20))}` : ': random';
    element('train-update').textContent = `update ${training.losses.length}${said}`;
    chart.setAttribute('aria-label', `Loss of training: ${element('train-update').textContent}`);
}

// A map between the words of its rows and columns; longer words stand upright above it.
function makeMapWithWords(head, size) {
    const canvas = make('canvas', { className: 'small', role: 'img',
        'aria-label': `${head.kind} attention, head ${head.head}, of ${head.rowWords.join(' ')} on ${head.columnWords.join(' ')}` });
    drawMap(canvas, head, size);
    const words = (name, texts) => make('div', { className: name, 'aria-hidden': 'true' },
        ...texts.map(text => make('span', { textContent: text, className: columnClass(text), dir: 'auto' })));
    const box = make('div', { className: 'with-words' }, words('across', head.columnWords), words('down', head.rowWords), canvas);
    box.style.setProperty('--cell', `${size}px`);
    return box;
}

// The maps of cross attention and of the encoder.
function drawTrainedMaps() {
    const { view, translation } = training;
    element('train-maps').hidden = !view;
    if (!view) return;
    element('train-translation').textContent = translation || '(no word)';
    element('train-maps').replaceChildren(...view.heads.filter(head => head.kind !== 'decoder').map(head =>
        make('figure', { 'data-test': `train-map-${head.kind}-${head.head}` },
            makeMapWithWords(head, Math.max(1, Math.min(20, Math.floor(200 / Math.max(head.rows, head.columns))))),
            make('figcaption', { textContent: `${head.kind}, head ${head.head}` }))));
}

always('isDark colors', () => training.worker && drawTraining());
addEventListener('resize', () => training.worker && drawTraining());

for (const [task, title] of Object.entries(TRAIN_TASKS))
    element('train-task').append(make('option', { value: task, textContent: `${task}: ${title}` }));
element('train-task').append(make('option', { value: '', textContent: 'pairs of my own' }));
showRate();

// The worker starts when the block is opened, so that the page opens as fast as without it.
element('train').addEventListener('toggle', () => {
    training.worker ??= startWorker(receiveTraining, text => say(`training failed: ${text}`, true));
    drawTraining();
});
