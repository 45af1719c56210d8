/** How the person likes volumes to be shown: kept for the next visit. */

import { useStore } from 'zustand';
import { createStore } from 'zustand/vanilla';

import { COLOUR_MAP_NAMES, type ColourMap } from '../volume/colours';
import { recall, remember } from './browser_storage';

interface Viewing {
  readonly colours: ColourMap;
  readonly choose: (colours: ColourMap) => void;
}

const viewing = createStore<Viewing>((set) => ({
  colours: known(recall<string>('colours', 'grey')),
  choose: (colours) => {
    set({ colours });
    remember('colours', colours);
  },
}));

function known(name: string): ColourMap {
  return Object.hasOwn(COLOUR_MAP_NAMES, name) ? (name as ColourMap) : 'grey';
}

export function useViewing<T>(select: (viewing: Viewing) => T): T {
  return useStore(viewing, select);
}
