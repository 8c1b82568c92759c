// Keyboard: one stop of Tab for a group of things, and arrows within it; and text that is typed.
'use strict';

// Arrows move the focus among the children of `group` that match `selector`. columns(): number of things in a row, for
// up and down; 0: these keys are not used.
function moveByArrows(group, selector, columns = () => 0) {
    group.addEventListener('keydown', event => {
        const things = [...group.querySelectorAll(selector)], at = things.indexOf(event.target);
        const backwards = getComputedStyle(event.target).direction === 'rtl' ? -1 : 1;
        const step = { ArrowLeft: -backwards, ArrowRight: backwards, ArrowUp: -columns(), ArrowDown: columns() }[event.key];
        const to = event.key === 'Home' ? 0 : event.key === 'End' ? things.length - 1 : at + step;
        if (at < 0 || !things[to] || to === at) return;
        event.preventDefault();
        focusOn(things, to);
    });
    group.addEventListener('focusin', event => {
        const things = [...group.querySelectorAll(selector)], at = things.indexOf(event.target);
        if (at >= 0) stopAt(things, at);
    });
}

// Makes one of the things the stop of Tab.
function stopAt(things, at) {
    things.forEach((thing, i) => { thing.tabIndex = i === at ? 0 : -1; });
}

function focusOn(things, at) {
    stopAt(things, at);
    things[at].focus();
}

// Calls typed() when the text of a field has changed; while an input method composes a word, when the word is there.
function onText(field, typed) {
    field.addEventListener('input', event => {
        if (!event.isComposing) typed();
    });
    field.addEventListener('compositionend', typed);
}

document.addEventListener('keydown', event => {
    if (event.key === 'Escape' && !event.isComposing) change({ hover: null, held: null, cell: null, number: null, terms: null });
});
