// Training in the page: a small model of its own learns pairs of sentences, with its loss and the map of one pair.
'use strict';

const TRAIN_TASKS = { reverse: 'a sequence backwards', copy: 'a sequence unchanged', sort: 'a sequence in ascending order' };

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

// The worker starts when the block is first used or seen, so that the page opens as fast as without it.
function trainingWorker() {
    if (training.worker) return training.worker;
    const code = ['worker', 'train-worker'].map(id => element(id).textContent).join('\n');
    const address = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
    training.worker = new Worker(address);
    training.worker.onmessage = receiveTraining;
    training.worker.onerror = event => say(`training failed: ${event.message}`, true);
    training.worker.postMessage({ engine: engineData });
    return training.worker;
}

function receiveTraining({ data }) {
    if (data.ready) return chooseTask();
    if (data.pairs !== undefined) {
        element('train-pairs').value = data.pairs;
        element('train-sentence').value = data.pairs.slice(0, data.pairs.indexOf('\t'));
        return beginTraining();
    }
    if (data.sequence !== training.sequence) return;
    for (const loss of data.losses) training.losses.push(loss);
    if (data.error) {
        setRunning(false);
        if (!training.losses.length && !data.view && !training.view) element('train-go').disabled = true;
        say(data.error, true);
    }
    if (data.view) {
        element('train-go').disabled = false;
        training.view = readView(data.view);
        training.translation = data.translation;
    }
    drawTraining();
}

// ---- what one does ----

function chooseTask() {
    const task = element('train-task').value;
    if (task) trainingWorker().postMessage({ call: 'generate', task });
}

function seedOfTraining() {
    return Math.max(0, Math.floor(Number(element('train-seed').value)) || 0);
}

function shownPair() {
    const source = element('train-sentence').value;
    return { source, target: training.targets?.get(source.trim().split(/\s+/).join(' ')) ?? null };
}

// Makes a new model with random parameters: update 0.
function beginTraining() {
    const pairs = element('train-pairs').value;
    training.targets = new Map(pairs.split('\n').map(line => line.replace(/\r$/, '').split('\t')));
    training.sequence++;
    if (training.losses.length) training.earlier = training.losses;
    training.losses = [];
    training.view = null;
    setRunning(false);
    say('');
    if (!training.targets.has(element('train-sentence').value)) {
        const [first] = training.targets.keys();
        element('train-sentence').value = first;
    }
    trainingWorker().postMessage({ call: 'begin', sequence: training.sequence, pairs, seed: seedOfTraining(), pair: shownPair() });
}

function setRunning(running) {
    training.running = running;
    element('train-go').textContent = running ? 'stop' : training.losses.length ? 'go on' : 'start';
}

// The slider is the exponent: half a step is a factor of about three.
function rateOfTraining() {
    return Number((10 ** Number(element('train-rate').value)).toPrecision(2));
}

function showRate() {
    element('train-rate-value').textContent = rateOfTraining();
    element('train-rate').setAttribute('aria-valuetext', rateOfTraining());
}

function goOn() {
    setRunning(true);
    say('');
    trainingWorker().postMessage({ call: 'go', rate: rateOfTraining() });
}

element('train-go').addEventListener('click', () => {
    if (!training.running) return goOn();
    setRunning(false);
    trainingWorker().postMessage({ call: 'stop' });
});
element('train-again').addEventListener('click', () => {
    const wasRunning = training.running;
    element('train-seed').value = seedOfTraining() + 1;
    beginTraining();
    if (wasRunning) goOn();
});
element('train-seed').addEventListener('change', beginTraining);
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
    training.worker?.postMessage({ call: 'rate', rate: rateOfTraining() });
});
onText(element('train-sentence'), () => training.worker?.postMessage({ call: 'show', pair: shownPair() }));

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

const CURVE = { width: 600, height: 180, left: 36, bottom: 22 };

function drawLosses() {
    const { losses, earlier } = training, canvas = element('train-curve'), ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth || CURVE.width, { height, left, bottom } = CURVE;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    const color = name => style.getPropertyValue(name).trim();
    const updates = Math.max(100, losses.length, earlier.length);
    const max = Math.max(1, Math.ceil(Math.max(...curveOf(losses, updates).concat(curveOf(earlier, updates), [[0, 0]]).map(([, y]) => y))));
    const x = update => left + (width - left - 8) * update / updates, y = loss => 8 + (height - bottom - 8) * (1 - loss / max);
    context.scale(ratio, ratio);
    context.font = '12px system-ui, sans-serif';
    context.fillStyle = color('--quiet');
    context.strokeStyle = color('--border');
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const loss of [0, max / 2, max]) {
        context.fillText(loss, left - 6, y(loss));
        context.beginPath();
        context.moveTo(left, y(loss));
        context.lineTo(width - 8, y(loss));
        context.stroke();
    }
    context.fillText(`${updates} updates`, width - 8, height - 8);
    context.textAlign = 'left';
    context.fillText('0', left, height - 8);
    for (const [points, stroke] of [[curveOf(earlier, updates), '--quiet'], [curveOf(losses, updates), '--accent']]) {
        context.beginPath();
        points.forEach(([update, loss], i) => context[i ? 'lineTo' : 'moveTo'](x(update), y(loss)));
        context.strokeStyle = color(stroke);
        context.lineWidth = stroke === '--accent' ? 2 : 1;
        context.stroke();
    }
    element('train-update').textContent = `update ${losses.length}${losses.length ? `, loss ${lossText(losses.slice(-20))}` : ': random'}`;
    canvas.setAttribute('aria-label', `Loss of training: ${element('train-update').textContent}`);
}

// A map between the words of its rows and columns; longer words stand upright above it.
function makeTrainedMap(head) {
    const canvas = make('canvas', { className: 'small', role: 'img',
        'aria-label': `${head.kind} attention, head ${head.head}, of ${head.rowWords.join(' ')} on ${head.columnWords.join(' ')}` });
    const size = Math.max(1, Math.min(20, Math.floor(200 / Math.max(head.rows, head.columns))));
    drawMap(canvas, head, size);
    const words = (name, texts) => make('div', { className: name, 'aria-hidden': 'true' },
        ...texts.map(text => make('span', { textContent: text, className: columnClass(text), dir: 'auto' })));
    const box = make('div', { className: 'with-words' }, words('across', head.columnWords), words('down', head.rowWords), canvas);
    box.style.setProperty('--cell', `${size}px`);
    return box;
}

// The maps of cross attention and of the encoder.
function drawTrainedMaps() {
    const { view } = training;
    element('train-maps').hidden = !view;
    if (!view) return;
    element('train-translation').textContent = training.translation || '(no word)';
    element('train-maps').replaceChildren(...view.heads.filter(head => head.kind !== 'decoder').map(head => {
        return make('figure', { 'data-test': `train-map-${head.kind}-${head.head}` }, makeTrainedMap(head),
            make('figcaption', { textContent: `${head.kind}, head ${head.head}` }));
    }));
}

listen(changed => {
    if (changed.has('theme') && training.worker) drawTraining();
});
addEventListener('resize', () => training.worker && drawTraining());

for (const [task, title] of Object.entries(TRAIN_TASKS))
    element('train-task').append(make('option', { value: task, textContent: `${task}: ${title}` }));
element('train-task').append(make('option', { value: '', textContent: 'pairs of my own' }));
showRate();
new IntersectionObserver((entries, observer) => {
    if (!entries.some(entry => entry.isIntersecting)) return;
    observer.disconnect();
    trainingWorker();
}).observe(element('train'));
