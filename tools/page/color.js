// Light and dark, and the colours of weights. The strongest weight stands out from the background of either: it is the darkest
// in the light and the brightest in the dark, and the weakest weights fade into the background, which is the colour of 0.
'use strict';

let isDark = matchMedia('(prefers-color-scheme: dark)').matches;
let colormaps = []; // [{name, colors: [256] as 0xRRGGBB}]: those of the engine, the first of which is the usual one
let palette = []; // [256] colours of weights from 0 to 1, as [red, green, blue]
let paletteTexts = []; // the same for style sheets
let palettePixels = new Uint32Array(256); // the same as pixels of a canvas

const BACKGROUND = { light: [255, 255, 255], dark: [24, 26, 27] };
const COLORS = 256, FADED = 24; // colours that fade into the background

function partsOf(color) {
    return [color >> 16, color >> 8 & 255, color & 255];
}

// The luminance of a colour (WCAG 2.2).
function luminance(parts) {
    const [red, green, blue] = parts.map(part => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// A colour as a pixel of a canvas.
function pixelOf([red, green, blue]) {
    return (0xff000000 | blue << 16 | green << 8 | red) >>> 0;
}

// The colormaps that the engine has, by their names and all their colours one after another.
function takeColormaps(names, colors) {
    colormaps = names.map((name, i) => ({ name, colors: colors.subarray(i * COLORS, (i + 1) * COLORS) }));
    element('colors').replaceChildren(...names.map(name => make('option', { value: name, textContent: name })));
    change({ colors: readColors(state.colors) });
    setPalette();
}

// The name of a colormap; null: the usual one, also for a name that the engine does not have.
function readColors(name) {
    return !colormaps.length || colormaps.slice(1).some(map => map.name === name) ? name : null;
}

function setPalette() {
    const { name, colors } = colormaps.find(map => map.name === state.colors) ?? colormaps[0] ?? { name: '', colors: new Uint32Array(COLORS) };
    const background = isDark ? BACKGROUND.dark : BACKGROUND.light;
    const growsBright = luminance(partsOf(colors[COLORS - 1])) > luminance(partsOf(colors[0]));
    palette = Array.from({ length: COLORS }, (_, i) => {
        const color = partsOf(colors[growsBright === isDark ? i : COLORS - 1 - i]), share = Math.min(1, i / FADED);
        return color.map((part, k) => Math.round(share * part + (1 - share) * background[k]));
    });
    palettePixels = Uint32Array.from(palette, pixelOf);
    paletteTexts = palette.map(color => `rgb(${color})`);
    element('colors').value = name;
    const image = new ImageData(COLORS, 1);
    new Uint32Array(image.data.buffer).set(palettePixels);
    element('scale').getContext('2d').putImageData(image, 0, 0);
}

// Draws everything in other colours.
function repaint() {
    setPalette();
    for (const listener of listeners) listener(new Set(['theme']));
}

// The number of a weight's colour.
function shadeOfWeight(weight) {
    return weight > 0 ? Math.min(COLORS - 1, Math.round(weight * (COLORS - 1))) : 0;
}

function colorOf(weight) {
    return palette[shadeOfWeight(weight)];
}

function setTheme(dark) {
    isDark = dark;
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    element('theme').textContent = dark ? 'light theme' : 'dark theme';
    repaint();
}

// Hidden cells have a weight of -1 (PAGE_HIDDEN_CELL): no colour, but hatching.
function isHidden(weight) {
    return weight < 0;
}

let mapImage = null; // of the last map that was drawn

// Draws a small map: one pixel a cell, which the browser makes `size` pixels wide. Masked cells are transparent: behind them is
// the hatching of the canvas.
function drawMap(canvas, head, size) {
    const shape = `width:${head.columns * size}px;height:${head.rows * size}px`;
    if (canvas.dataset.shape !== shape || canvas.width !== head.columns || canvas.height !== head.rows) {
        canvas.width = head.columns;
        canvas.height = head.rows;
        canvas.style.cssText = canvas.dataset.shape = shape;
    }
    if (mapImage?.width !== head.columns || mapImage.height !== head.rows) mapImage = new ImageData(head.columns, head.rows);
    const colors = new Uint32Array(mapImage.data.buffer), { weights } = head;
    for (let i = 0; i < weights.length; i++) colors[i] = isHidden(weights[i]) ? 0 : palettePixels[shadeOfWeight(weights[i])];
    canvas.getContext('2d').putImageData(mapImage, 0, 0);
}

element('colors').addEventListener('change', () => {
    change({ colors: readColors(element('colors').value) });
    writeAddress(true);
});
listen(changed => {
    if (changed.has('colors')) repaint();
});
