// A page of scenes: the calculations of attention tutorials, with their own numbers or with new random ones.
'use strict';

// [{tutorial, file, name, about, seed, isRandom}] of each scene, where isRandom says whether another seed gives it other numbers;
// null: the page holds a trained run.
const scenes = JSON.parse(textOf('scenes-data'));
const LARGEST_SEED = 4294967295;

// ---- the address ----

function readSceneAddress(fields) {
    const scene = Math.max(0, scenes.findIndex(({ file }) => file === fields.get('scene')));
    const text = fields.get('seed') ?? '', seed = Number(text);
    return { scene, seed: /^[0-9]{1,10}$/.test(text) && seed <= LARGEST_SEED ? seed : null, head: fields.get('head'), colors: readColors(fields.get('colors')),
        isWalking: true };
}

function writeSceneAddress(fields) {
    fields.set('scene', scenes[state.scene].file);
    if (state.seed !== null) fields.set('seed', state.seed);
}

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
    change({ scene, seed, number: null, terms: null, cell: null, hover: null, held: null });
    writeAddress(true);
    ask();
}

// A seed that is easy to read and to pass on.
function newSeed() {
    const { seed } = scenes[state.scene];
    for (;;) {
        const drawn = 1 + Math.floor(999 * Math.random());
        if (drawn !== seed && drawn !== state.seed) return drawn;
    }
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
    element('scene').hidden = false;
    element('scene').append(element('message'));
    element('source-words').setAttribute('aria-label', 'Words with keys');
    element('target-words').setAttribute('aria-label', 'Words with queries');
    fillChoice();
    element('scene-choice').addEventListener('change', () => goToScene(Number(element('scene-choice').value), null));
    element('draw').addEventListener('click', () => goToScene(state.scene, newSeed()));
    element('own-numbers').addEventListener('click', () => {
        goToScene(state.scene, null);
        element('draw').focus();
    });
    listen(changed => {
        if (['scene', 'seed', 'view'].some(name => changed.has(name))) showScene();
    });
}
