/** The editor's frame: toolbar above, palette, canvas and inspector side by side, logs and problems below. */

import { Canvas } from './canvas/Canvas';
import { Palette } from './palette/Palette';
import { Inspector } from './inspector/Inspector';
import { Dock } from './dock/Dock';
import { Toolbar } from './toolbar/Toolbar';
import { Dialogs } from './dialogs/Dialogs';
import { Toasts } from './dialogs/Toasts';

export function Studio() {
  return (
    <div className="studio">
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
