'use strict';

// { pairs, file, loss, bleu, heads: [{name, loss, bleu}] }, where the loss and BLEU of a head are the changes when it alone is
// silent; null: nothing was measured. The errors of a moment of training have the order of these heads.
const measured = dataOf('heads-data');

// The alignment error rate of a head at a moment, 0 to 1; null: not measured, or it has none.
function errorAt(moment, name) {
    return moment.errors?.[measured.heads.findIndex(head => head.name === name)] ?? null;
}

function errorText(rate) {
    return `${(100 * rate).toFixed(1)}\u00a0%`;
}

// The words of a head's name: 'cross-2-1' is that of head 1 of layer 2.
function wordsOfHead(name) {
    const [kind, layer, head] = name.split('-');
    return `${kind}, layer ${layer}, head ${head}`;
}

// moments: [{update, training_loss, training_until, loss, errors}], first the random weights, last the learned ones. What is not
// known is missing. training_loss: the mean of the updates up to training_until; loss and errors (see errorAt): with the
// parameters of the moment, on the measured pairs.
// training: [[update, loss in training up to it, without label smoothing]]; curve: [[update, loss on the dev text]].
const learning = dataOf('learning-data') ?? { moments: [{ update: -1 }], curve: [], training: [] };
const FRAME = 1200; // milliseconds that playing shows a moment, at least
let playing = null; // the timer that goes on playing

// The number of the moment that the state names.
function momentNumber() {
    const found = learning.moments.findIndex(moment => moment.update === state.update);
    return found < 0 ? learning.moments.length - 1 : found;
}

function isAtEnd() {
    return momentNumber() === learning.moments.length - 1;
}

// 'random, update 0', 'update 82' or 'learned, update 4000'.
function momentTitle(number) {
    const { update } = learning.moments[number], name = number === learning.moments.length - 1 ? 'learned' : number ? '' : 'random';
    return [name, update >= 0 && `update ${update}`].filter(Boolean).join(', ');
}

// The moment in the words of the worker.
function engineMoment() {
    return isAtEnd() ? 'learned' : momentNumber() === 0 ? 'random' : momentNumber() - 1;
}

// An update of the address; null: the learned weights, also for an update that the page does not hold.
function readUpdate(text) {
    const found = learning.moments.slice(0, -1).find(moment => String(moment.update) === text);
    return found ? found.update : null;
}

// The packed parameters of the snapshots, which leave the document for the worker.
function takeSnapshots() {
    return [...document.querySelectorAll('.snapshot-data')].map(script => {
        script.remove();
        return script.textContent;
    });
}

function goToMoment(number) {
    change({ update: number === learning.moments.length - 1 ? null : learning.moments[number].update, choice: 0 });
    writeAddressLater();
    ask();
}

// ---- the strip ----

// The name of the head that has learned to align best; null: no errors are measured.
function bestAlignedHead() {
    const { errors } = learning.moments.at(-1);
    if (!errors) return null;
    const best = Math.min(...errors.filter(error => error !== null));
    return measured.heads[errors.indexOf(best)]?.name ?? null;
}

// The head whose alignment errors are shown: the selected one; if it has none, the best one.
function alignedHead() {
    return errorAt(learning.moments.at(-1), state.head) !== null ? state.head : bestAlignedHead();
}

// When the alignment of a head appeared: the two moments between which its error falls most. '': it never falls.
function sayFall(name) {
    if (learning.moments.length < 3) return '; measured only before and after training';
    const errors = learning.moments.map(moment => errorAt(moment, name)), falls = errors.slice(1).map((error, i) => errors[i] - error);
    const largest = Math.max(...falls), i = falls.indexOf(largest);
    if (!(largest > 0)) return '';
    const last = learning.moments[i + 1].update;
    return `; it falls most between update ${learning.moments[i].update} and ${last < 0 ? 'the end' : last}, ` +
        `from ${errorText(errors[i])} to ${errorText(errors[i + 1])}`;
}

// The loss at a moment: measured on the pairs, or else that of training, which is a mean of updates.
function sayLoss({ update, loss, training_loss: mean, training_until: until }) {
    if (loss !== undefined) return `, loss ${loss.toFixed(4)}`;
    if (mean === undefined) return '';
    return `, training loss ${mean.toFixed(4)}${until > update && update >= 0 ? ` up to update ${until}` : ''}`;
}

function sayMoment() {
    const moment = learning.moments[momentNumber()], { update } = moment, head = alignedHead();
    const where = update === 0 ? 'before training: random weights' : update < 0 ? 'learned' : `update ${update}`;
    const error = head ? `, alignment error ${errorText(errorAt(moment, head))}` : '';
    return where + sayLoss(moment) + error;
}

function showMoment() {
    const slider = element('learning');
    slider.max = learning.moments.length - 1;
    slider.value = momentNumber();
    slider.setAttribute('aria-valuetext', sayMoment());
    element('moment').textContent = sayMoment();
}

// Where an update is on the slider, from 0 to 1: in the logarithm of 1 + update between two moments.
function positionOf(update) {
    const { moments } = learning, last = moments.length - 1;
    let i = 0;
    while (i < last - 1 && moments[i + 1].update <= update) i++;
    const from = Math.log1p(moments[i].update), to = Math.log1p(moments[i + 1].update);
    return (i + Math.min(1, (Math.log1p(update) - from) / (to - from))) / last;
}

function drawCurve() {
    const { moments } = learning, last = moments.at(-1).update, name = alignedHead();
    if (!(last > 0)) return;
    const [training, dev] = [learning.training, learning.curve].map(points => points.filter(([update]) => update <= last));
    const guessing = state.facts ? Math.log(state.facts.choices[0]) : 0; // with the same probability for each word; 0: not known yet
    const max = Math.max(guessing, ...[...training, ...dev].map(point => point[1])) * 1.08;
    const lineOf = (kind, points) => makeLine(kind, points.map(([update, height]) => [100 * positionOf(update), 100 * (1 - height)]));
    const lossOf = (kind, points) => lineOf(kind, points.map(([update, loss]) => [update, Math.max(0, loss) / max]));
    const errors = name ? moments.map(moment => [moment.update, errorAt(moment, name)]) : [];
    element('curve').replaceChildren(lossOf('guess', guessing ? [[0, guessing], [last, guessing]] : []), lossOf('training', training), lossOf('dev', dev),
        ...(name ? [lineOf('error', errors), ...errors.map(point => lineOf('measured', [point, point]))] : []));
    for (const [kind, points] of Object.entries({ dev, training, error: errors })) element(`${kind}-key`).hidden = !points.length;
    element('chart').hidden = false;
    element('guess').textContent = guessing ? `${guessing.toFixed(1)} guessing` : '';
    element('guess').style.top = `${100 * (1 - guessing / max)}%`;
    if (measured) element('measured').textContent = `The loss and the alignment error of a moment are means over ${measured.pairs} sentence pairs of ${measured.file}.`;
    if (name) element('curve-head').textContent = `Dashed: the alignment error of ${wordsOfHead(name)}, 100\u00a0% at the top${sayFall(name)}.`;
}

// ---- playing ----

function setPlaying(timer) {
    clearTimeout(playing);
    playing = timer;
    document.body.classList.toggle('playing', timer !== null);
    element('play').textContent = timer === null ? '▶' : '❚❚';
    element('play').setAttribute('aria-label', timer === null ? 'Play the training' : 'Pause');
}

// Goes on when the view of the moment is there, and has been seen.
function playOn() {
    if (!isSettled()) return setPlaying(setTimeout(playOn, 50));
    setPlaying(setTimeout(() => {
        if (isAtEnd()) return setPlaying(null);
        goToMoment(momentNumber() + 1);
        playOn();
    }, FRAME));
}

// Readers who want less motion see one moment for each press.
function play() {
    if (playing !== null) return setPlaying(null);
    goToMoment(isAtEnd() ? 0 : momentNumber() + 1);
    if (!matchMedia('(prefers-reduced-motion: reduce)').matches) playOn();
}

// Space plays where it has no other use: on the slider, on the map, and where nothing has the focus.
document.addEventListener('keydown', event => {
    if (scenes || !isKey(event, ' ')) return;
    if (event.target !== element('learning') && event.target !== document.body && !element('map').contains(event.target)) return;
    event.preventDefault();
    if (!event.repeat) play();
});
element('play').addEventListener('click', play);
element('learning').addEventListener('input', () => {
    setPlaying(null);
    goToMoment(Number(element('learning').value));
});
const MOST_TICKS = 6;

// Under the slider: the updates of moments, as many as have room, and the alignment errors then.
function drawTicks() {
    const last = learning.moments.length - 1, head = alignedHead(), every = Math.ceil(last / MOST_TICKS) || 1;
    element('ticks').replaceChildren(...learning.moments.flatMap((moment, i) => {
        if (i !== last && (i % every || last - i < every)) return [];
        const { update } = moment, name = i === last ? 'learned' : i ? '' : 'random', error = head && errorAt(moment, head);
        const tick = make('span', {}, [update < 0 ? '' : update, name].filter(text => text !== '').join(', '), make('small', { textContent: error === null ? '' : errorText(error) }));
        tick.style.setProperty('--at', i / (last || 1));
        return [tick];
    }));
}

always('head facts', drawTicks);
always('head facts', drawCurve);
always('update head', showMoment);
drawTicks();
drawCurve();
showMoment();
