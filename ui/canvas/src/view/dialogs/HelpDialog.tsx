/** All shortcuts, from the table that the keyboard itself reads. */

import { closeDialog } from '../../state/panels';
import { printed, SHORTCUTS } from '../canvas/shortcuts';
import { Dialog } from '../parts/Dialog';

export function HelpDialog() {
  const groups = [...new Set(SHORTCUTS.map(({ group }) => group))];
  return (
    <Dialog title="Keyboard shortcuts" size="large" onClose={closeDialog}>
      <div className="shortcuts">
        {groups.map((group) => (
          <section key={group} aria-label={group}>
            <h3>{group}</h3>
            <dl>
              {SHORTCUTS.filter((shortcut) => shortcut.group === group).map(({ keys, label }) => (
                <div key={`${label} ${keys.join()}`}>
                  <dt>{label}</dt>
                  <dd>
                    {keys.map((chord) => (
                      <kbd key={chord}>{printed(chord)}</kbd>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
