/** How the person likes volumes to be shown: kept for the next visit. */

import { useStore } from 'zustand';
import { createStore } from 'zustand/vanilla';

import type { Layout } from '../volume/arrangement';
import { COLOUR_NAMES, type Colours } from '../volume/colours';
import { recall, remember } from './browser_storage';

interface Viewing {
  readonly colours: Colours;
  readonly choose: (colours: Colours) => void;
  readonly layout: Layout;
  readonly chooseLayout: (layout: Layout) => void;
}

const viewing = createStore<Viewing>((set) => ({
  colours: known(recall<string>('colours', 'auto')),
  choose: (colours) => {
    set({ colours });
    remember('colours', colours);
  },
  // Not kept: in 3-D a large volume takes much of a graphics card, and the next one may be.
  layout: 'planes',
  chooseLayout: (layout) => {
    set({ layout });
  },
}));

function known(name: string): Colours {
  return Object.hasOwn(COLOUR_NAMES, name) ? (name as Colours) : 'auto';
}

export function useViewing<T>(select: (viewing: Viewing) => T): T {
  return useStore(viewing, select);
}
