// Light and dark, and the colours of weights. The darkest weight stands out from the background of either: in the light
// the colours run backwards, and the weakest weights fade into the background, which is the colour of 0.
'use strict';

let isDark = matchMedia('(prefers-color-scheme: dark)').matches;
let palette = []; // [256] colours of weights from 0 to 1, as [red, green, blue]
let engineColors = new Uint32Array(256);

const BACKGROUND = { light: [255, 255, 255], dark: [24, 26, 27] };
const FADED = 24; // colours that fade into the background

function setPalette(colors = engineColors) {
    engineColors = colors;
    const background = isDark ? BACKGROUND.dark : BACKGROUND.light;
    palette = Array.from({ length: 256 }, (_, i) => {
        const color = colors[isDark ? i : 255 - i], share = Math.min(1, i / FADED);
        return [color >> 16, color >> 8 & 255, color & 255].map((part, k) => Math.round(share * part + (1 - share) * background[k]));
    });
    const canvas = element('scale'), context = canvas.getContext('2d');
    palette.forEach((color, i) => {
        context.fillStyle = `rgb(${color})`;
        context.fillRect(i, 0, 1, 1);
    });
}

function colorOf(weight) {
    return palette[Math.max(0, Math.min(255, Math.round(weight * 255)))];
}

function setTheme(dark) {
    isDark = dark;
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    element('theme').textContent = dark ? 'light theme' : 'dark theme';
    setPalette();
    for (const listener of listeners) listener(new Set(['theme']));
}

// Hidden cells have a weight of -1 (PAGE_HIDDEN_CELL): no colour, but hatching.
function isHidden(weight) {
    return weight < 0;
}

// Draws a small map: one pixel a cell, which the browser makes `size` pixels wide. Masked cells are transparent: behind them is
// the hatching of the canvas.
function drawMap(canvas, head, size) {
    canvas.width = head.columns;
    canvas.height = head.rows;
    canvas.style.width = `${head.columns * size}px`;
    canvas.style.height = `${head.rows * size}px`;
    const context = canvas.getContext('2d'), image = context.createImageData(head.columns, head.rows);
    head.weights.forEach((weight, i) => {
        if (!isHidden(weight)) image.data.set(colorOf(weight), 4 * i);
        image.data[4 * i + 3] = isHidden(weight) ? 0 : 255;
    });
    context.putImageData(image, 0, 0);
}
