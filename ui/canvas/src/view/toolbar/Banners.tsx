/** What a person must know before they go on, in a line below the toolbar. */

import { FileWarning, WifiOff } from 'lucide-react';
import { useEffect } from 'react';

import { useApp, useCanvas } from '../../state/hooks';
import { openDialog } from '../../state/panels';
import { keepMine, takeTheirs } from '../../state/commands';
import { useConnectionLost } from './connection_lost';

export function Banners() {
  return (
    <>
      <ConnectionLost />
      <FileConflict />
    </>
  );
}

function ConnectionLost() {
  const stalled = useCanvas((s) => s.stalled);
  const lost = useConnectionLost();
  useEffect(() => {
    if (!stalled) return undefined;
    // Closing the page now would lose what only it holds.
    const warn = (event: BeforeUnloadEvent) => {
      event.preventDefault();
    };
    window.addEventListener('beforeunload', warn);
    return () => {
      window.removeEventListener('beforeunload', warn);
    };
  }, [stalled]);
  return (
    <div role="status">
      {(stalled || lost) && (
        <div className="banner">
          <WifiOff size={14} aria-hidden />
          <span>
            Connection lost, changes are kept here
            <span className="quiet"> and sent as soon as Voxelflow answers again.</span>
          </span>
        </div>
      )}
    </div>
  );
}

function FileConflict() {
  const app = useApp();
  const file = useCanvas((s) => s.file);
  const conflict = file?.disk === 'changed' || file?.disk === 'deleted' ? file.disk : null;
  return (
    <div role="status">
      {conflict && file && (
        <div className="banner banner-warning">
          <FileWarning size={14} aria-hidden />
          <span className="banner-text">
            <bdi title={file.path}>{file.path}</bdi>{' '}
            {conflict === 'changed' ? 'was changed on disk by someone else.' : 'was deleted on disk by someone else.'}
          </span>
          {conflict === 'changed' && (
            <button
              type="button"
              className="btn btn-small"
              title={file.dirty ? 'Your unsaved changes are dropped' : 'Show what the file holds now'}
              onClick={() => {
                takeTheirs(app);
              }}
            >
              Take theirs
            </button>
          )}
          <button
            type="button"
            className="btn btn-small"
            title={conflict === 'changed' ? 'Write your version over theirs' : 'Write the file again'}
            onClick={() => {
              keepMine(app);
            }}
          >
            {conflict === 'changed' ? 'Keep mine' : 'Save again'}
          </button>
          <button
            type="button"
            className="btn btn-small"
            onClick={() => {
              openDialog({ kind: 'save-as' });
            }}
          >
            Save as…
          </button>
        </div>
      )}
    </div>
  );
}
