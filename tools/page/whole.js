// The whole model at one glance: its parts in the order in which a sentence goes through them, as squares whose areas are their numbers
// of parameters. A click leads to the numbers of a part.
'use strict';

const LARGEST_PART = 5.5; // rem: the side of the largest square

// What parts are called, the group of steps that shows their numbers, and the attention in whose walk (steps.js) that is.
const PARTS = {
    embeddings: { title: 'embeddings', fold: 'Words become vectors' },
    self: { title: 'attention' },
    cross: { title: 'cross attention' },
    feed_forward: { title: 'feed forward', fold: 'The rest of the layer' },
    output: { title: 'scores of words', fold: 'The word is chosen' },
};

// The parts, [{stack, layer, part, count}], from the names of parameters, such as encoder.1.self.query.weight.
function partsOfModel({ parameter_names: names, parameter_counts: counts }) {
    const parts = new Map();
    names.forEach((name, i) => {
        const [stack, second, third] = name.split('.'), layer = Number(second) || null;
        const part = stack === 'output' ? 'output' : layer ? third : second === 'positions' ? 'embeddings' : second;
        const key = [stack, layer, part].join();
        parts.set(key, { stack: stack === 'output' ? 'decoder' : stack, layer, part, count: (parts.get(key)?.count ?? 0) + counts[i] });
    });
    return [...parts.values()];
}

// The head in whose layer a part is: feed forward follows the last attention of the layer, and words are chosen after the last layer.
function headOfPart({ stack, layer, part }) {
    const heads = state.view.heads.filter(({ kind }) => kind === stack || (kind === 'cross' && stack === 'decoder' && part !== 'embeddings' && part !== 'self'));
    const wanted = part === 'output' ? Math.max(...heads.map(head => head.layer)) : layer ?? 1;
    return heads.filter(head => head.layer === wanted).sort((a, b) => (a.kind === 'cross' ? 0 : 1) - (b.kind === 'cross' ? 0 : 1))[0];
}

function makePart(part, scale) {
    const { title, fold } = PARTS[part.part] ?? { title: part.part.replaceAll('_', ' ') }, count = part.count.toLocaleString('en');
    const box = make('span', { className: 'part-box' });
    box.style.width = box.style.height = `${scale * Math.sqrt(part.count)}rem`;
    const button = make('button', { type: 'button', className: 'part', tabIndex: -1, 'data-test': ['part', part.stack, part.layer, part.part].filter(Boolean).join('-') },
        box, make('span', { textContent: title }), ' ', make('span', { className: 'shape', textContent: count }));
    button.disabled = !PARTS[part.part] || !headOfPart(part);
    button.addEventListener('click', () => {
        if (fold) openGroups.add(fold);
        go({ head: headOfPart(part).name, isWalking: true, number: null }, true);
        showSteps();
        element('steps').scrollIntoView();
    });
    return button;
}

// The parts of a stack: what goes in, those before the layers, the layers, and the rest.
function makeStack(parts, scale, reads, makes) {
    const arrow = () => make('span', { className: 'operator', textContent: '→' });
    const text = id => make('span', { className: 'part-text', id });
    const layers = new Map();
    for (const part of parts) layers.set(part.layer ?? part.part, [...(layers.get(part.layer ?? part.part) ?? []), part]);
    const boxes = [...layers].map(([layer, inside]) => make('span', { className: 'stack-layer', role: 'group', 'aria-label': `${inside[0].stack}, ${typeof layer === 'number' ? `layer ${layer}` : layer}` }, ...inside.map(part => makePart(part, scale)),
        ...(typeof layer === 'number' ? [make('span', { className: 'layer-name', textContent: `layer ${layer}` })] : [])));
    return make('div', { className: 'stack' }, text(reads), ...boxes.flatMap(box => [arrow(), box]), arrow(), text(makes));
}

function showWhole() {
    element('whole').hidden = !state.facts || !state.view.heads.length;
    if (element('whole').hidden || element('whole-flow').firstChild) return;
    const parts = partsOfModel(state.facts), scale = LARGEST_PART / Math.sqrt(Math.max(...parts.map(({ count }) => count)));
    const stacks = ['encoder', 'decoder'].map(name => parts.filter(({ stack }) => stack === name));
    element('whole-flow').append(...stacks.map((inside, i) => inside.length ? makeStack(inside, scale, `reads-${i}`, `makes-${i}`) : ''));
    element('whole-of').textContent = `${parts.reduce((sum, { count }) => sum + count, 0).toLocaleString('en')} parameters: the area of a square is the number of them in a part`;
    stopAt([...element('whole-flow').querySelectorAll('.part:enabled')], 0);
}

onChange('view facts', () => {
    showWhole();
    const { source_tokens: source, target_inputs: read, target_outputs: written } = state.view;
    const texts = { 'reads-0': source, 'makes-0': ['to cross attention'], 'reads-1': read, 'makes-1': written };
    for (const [id, words] of Object.entries(texts)) if (element(id)) element(id).textContent = words.join(' ');
});
moveByArrows(element('whole-flow'), '.part:enabled');
