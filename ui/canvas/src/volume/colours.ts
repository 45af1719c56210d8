/** Colour maps as tables of 256 colours, and which of them suits some values. */

import { COLOUR_MAPS } from '../protocol';

export type ColourMap = keyof typeof COLOUR_MAPS;

/** What a person chooses: a map, or that the values decide. */
export type Colours = ColourMap | 'auto';

export const COLOUR_NAMES: Readonly<Record<Colours, string>> = {
  auto: 'Automatic',
  grey: 'Grey',
  seismic: 'Seismic',
  viridis: 'Viridis',
};

/** The map for values: red and blue, where they have both signs. */
export function mapFor(colours: Colours, twoSided: boolean): ColourMap {
  if (colours !== 'auto') return colours;
  return twoSided ? 'seismic' : 'grey';
}

/** Values of these are shown about zero: its colour is the middle one. */
export function isSigned(map: ColourMap): boolean {
  return map === 'seismic';
}

/** Of what is infinite: none of the maps has it. What is no number is clear. */
export const INFINITE = [255, 64, 200] as const;

/** Red, green and blue of the colours that the map is made of, at equal distances. */
export function stops(map: ColourMap): [number, number, number][] {
  return COLOUR_MAPS[map].map(
    (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) as [number, number, number],
  );
}

/** 256 colours, four bytes each: red, green, blue, opaque. */
export function palette(map: ColourMap): Uint8ClampedArray<ArrayBuffer> {
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

/** As a gradient of a style sheet, from the lowest value to the highest. */
export function gradient(map: ColourMap): string {
  return `linear-gradient(to right, ${COLOUR_MAPS[map].join(', ')})`;
}
