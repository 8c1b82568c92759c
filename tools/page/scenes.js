// A page of scenes: the calculations of attention tutorials, with their own numbers or with new random ones.
'use strict';

// ---- what the page says ----

function sayNumbers() {
    const { isRandom, seed } = scenes[state.scene];
    if (!isRandom) return 'nothing in this scene is random';
    return state.seed === null ? `the scene’s own numbers, drawn with seed ${seed}` : `new random numbers, seed ${state.seed}: nothing was learned`;
}

function showScene() {
    const { name, about, isRandom } = scenes[state.scene];
    element('scene-choice').value = state.scene;
    element('scene-name').textContent = name;
    element('scene-about').textContent = about;
    element('numbers').textContent = sayNumbers();
    element('draw').disabled = !isRandom;
    element('own-numbers').hidden = state.seed === null;
    element('heads').hidden = (state.view?.heads.length ?? 0) < 2;
    document.title = `${name}: attention step by step`;
}

// ---- what one does ----

function goToScene(scene, seed) {
    go({ scene, seed, number: null, cell: null, hover: null, held: null });
}

// A group for each tutorial.
function fillChoice() {
    const groups = new Map();
    scenes.forEach(({ tutorial, name }, i) => {
        const option = make('option', { value: i, textContent: name });
        if (!tutorial) return element('scene-choice').append(option);
        if (!groups.has(tutorial)) groups.set(tutorial, make('optgroup', { label: tutorial }));
        groups.get(tutorial).append(option);
        element('scene-choice').append(groups.get(tutorial));
    });
}

if (scenes) {
    document.body.classList.add('of-scenes');
    element('title').textContent = 'Attention, step by step';
    element('about').textContent = 'the numbers are computed in this page';
    element('scene').hidden = false;
    element('scene').append(element('message'));
    element('source-words').setAttribute('aria-label', 'Words with keys');
    element('target-words').setAttribute('aria-label', 'Words with queries');
    fillChoice();
    element('scene-choice').addEventListener('change', () => goToScene(Number(element('scene-choice').value), null));
    element('draw').addEventListener('click', () => goToScene(state.scene, (state.seed ?? scenes[state.scene].seed) + 1));
    element('own-numbers').addEventListener('click', () => {
        goToScene(state.scene, null);
        element('draw').focus();
    });
    always('scene seed view', showScene);
}
