/** What a volume is shown with, whatever draws it. */

import type { ColourMap } from './colours';
import type { Place, Range } from './nifti';

export type Layout = 'all' | 'slices' | 'z' | 'rendering';

export interface SceneSettings {
  readonly channel: number;
  readonly colours: ColourMap;
  readonly window: Range;
  readonly layout: Layout;
}

/** A volume that is drawn. */
export interface Scene {
  set(now: SceneSettings, before: SceneSettings): void;
  move(place: Place): void;
  close(): void;
}
