/** The editor's frame: toolbar above, palette, canvas and inspector side by side, logs and problems below. */

import { useMemo } from 'react';

import type { DatasetTypeInfo } from '../protocol';
import { useCanvas, useUntouched } from '../state/hooks';
import { Canvas } from './canvas/Canvas';
import { kindColours } from './parts/colours';
import { Palette } from './palette/Palette';
import { Inspector } from './inspector/Inspector';
import { Dock } from './dock/Dock';
import { Toolbar } from './toolbar/Toolbar';
import { Dialogs } from './dialogs/Dialogs';
import { Toasts } from './dialogs/Toasts';

const NONE: readonly DatasetTypeInfo[] = [];

export function Studio() {
  const datasets = useCanvas((s) => s.welcome?.datasets ?? NONE);
  const colours = useMemo(() => kindColours(datasets), [datasets]);
  const untouched = useUntouched();
  return (
    <div className="studio" style={colours} data-untouched={untouched || undefined}>
      <Toolbar />
      <div className="studio-body">
        <Palette />
        <div className="studio-middle">
          <Canvas />
          <Dock />
        </div>
        <Inspector />
      </div>
      <Dialogs />
      <Toasts />
    </div>
  );
}
