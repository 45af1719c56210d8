/** Colour maps as tables of 256 colours. */

import { COLOUR_MAPS } from '../protocol';

export type ColourMap = keyof typeof COLOUR_MAPS;

export const COLOUR_MAP_NAMES: Readonly<Record<ColourMap, string>> = {
  grey: 'Grey',
  seismic: 'Seismic',
  viridis: 'Viridis',
};

/** Values of these are shown about zero: its colour is the middle one. */
export function isSigned(map: ColourMap): boolean {
  return map === 'seismic';
}

/** Red, green and blue of the colours that the map is made of, at equal distances. */
export function stops(map: ColourMap): [number, number, number][] {
  return COLOUR_MAPS[map].map(
    (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) as [number, number, number],
  );
}

/** 256 colours, four bytes each: red, green, blue, opaque. */
export function palette(map: ColourMap): Uint8ClampedArray {
  const colours = stops(map);
  const out = new Uint8ClampedArray(1024);
  for (let level = 0; level < 256; level += 1) {
    const place = (level / 255) * (colours.length - 1);
    const before = Math.min(Math.floor(place), colours.length - 2);
    const [from, to] = [colours[before], colours[before + 1]];
    for (let part = 0; part < 3; part += 1) {
      const [a, b] = [from?.[part] ?? 0, to?.[part] ?? 0];
      out[4 * level + part] = a + (b - a) * (place - before);
    }
    out[4 * level + 3] = 255;
  }
  return out;
}
