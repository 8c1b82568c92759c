// What `qkv page` has measured on sentence pairs: what silencing each head changes, as a table, and alignment errors.
'use strict';

// { pairs, file, loss, bleu, heads: [{name, loss, bleu}] }, where the loss and BLEU of a head are the changes when it alone is
// silent; null: nothing was measured. The errors of a moment of training (learning.js) have the order of these heads.
const measured = JSON.parse(textOf('heads-data'));

// The alignment error rate of a head at a moment, 0 to 1; null: not measured, or it has none.
function errorAt(moment, name) {
    return moment.errors?.[measured.heads.findIndex(head => head.name === name)] ?? null;
}

function errorText(rate) {
    return `${(100 * rate).toFixed(1)} %`;
}

// The words of a head's name: 'cross-2-1' is that of head 1 of layer 2.
function wordsOfHead(name) {
    const [kind, layer, head] = name.split('-');
    return `${kind}, layer ${layer}, head ${head}`;
}

function signed(number, digits) {
    return `${number < 0 ? '−' : '+'}${Math.abs(number).toFixed(digits)}`;
}

function makeEffect(head) {
    const silent = make('span', { className: 'effect-silent', textContent: ', silent' }); // to hear; to see, the name is struck through
    const button = make('button', { type: 'button', textContent: wordsOfHead(head.name) });
    button.addEventListener('click', () => {
        change({ head: head.name, cell: null });
        writeAddress(true);
    });
    const row = make('tr', { 'data-test': `effect-${head.name}` }, make('th', { scope: 'row' }, button, silent),
        make('td', { textContent: signed(head.loss, 4) }), make('td', { textContent: signed(head.bleu, 2) }));
    row.dataset.name = head.name;
    return row;
}

// The table, with the heads that the model needs most on top.
function showEffects() {
    const { pairs, file, loss, bleu, heads } = measured;
    element('effects-note').textContent = `Measured on ${pairs} pairs of ${file} with the learned weights: loss ${loss.toFixed(4)} ` +
        `nats a token, BLEU ${bleu.toFixed(2)}. What changes when one head alone is silent, from the head that the model needs most to the one that it needs least:`;
    element('effects-rows').append(...[...heads].sort((a, b) => b.loss - a.loss).map(makeEffect));
    element('effects').hidden = false;
}

function markEffects() {
    for (const row of element('effects-rows').children) {
        const { name } = row.dataset;
        row.classList.toggle('silenced', Boolean(state.view.heads.find(head => head.name === name)?.isSilent));
        row.firstChild.firstChild.setAttribute('aria-pressed', name === state.head);
    }
}

if (measured) {
    showEffects();
    listen(changed => {
        if (state.view && (changed.has('view') || changed.has('head'))) markEffects();
    });
}
