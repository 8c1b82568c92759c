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

// Draws a small map: `size` pixels a cell.
function drawMap(canvas, head, size) {
    canvas.width = head.columns * size;
    canvas.height = head.rows * size;
    const context = canvas.getContext('2d');
    const image = context.createImageData(canvas.width, canvas.height);
    const background = isDark ? BACKGROUND.dark : BACKGROUND.light, hatching = isDark ? [62, 66, 68] : [214, 216, 218];
    for (let y = 0; y < canvas.height; y++)
        for (let x = 0; x < canvas.width; x++) {
            const weight = head.weights[Math.floor(y / size) * head.columns + Math.floor(x / size)];
            const color = !isHidden(weight) ? colorOf(weight) : (x + y) % 4 ? background : hatching;
            image.data.set([...color, 255], 4 * (y * canvas.width + x));
        }
    context.putImageData(image, 0, 0);
}
