/** What a volume is shown with: everything that the planes and the rendering have in common. */

import type { ColourMap } from '../../../volume/colours';
import type { View } from '../../../volume/planes';
import type { Range } from '../../../volume/ranges';
import type { Place, Volume } from '../../../volume/volume';

export interface Shown {
  readonly volume: Volume;
  readonly channel: number;
  readonly map: ColourMap;
  /** What the window is at first. */
  readonly usual: Range;
  readonly window: Range;
  /** Where the planes cross. */
  readonly place: Place;
  readonly view: View;
}

export interface Changes {
  readonly onPlace: (place: Place) => void;
  readonly onWindow: (window: Range) => void;
  readonly onView: (view: View) => void;
}
