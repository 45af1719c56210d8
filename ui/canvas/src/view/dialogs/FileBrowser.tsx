/** Files and folders of the machine that Voxelflow runs on; those that pipelines may not use yet are set apart. */

import { ChevronRight, File, Folder, HardDrive, ShieldAlert } from 'lucide-react';
import { useEffect, useId, useRef, useState } from 'react';

import type { Entry, Listing } from '../../protocol';
import { crumbs, folderOf, inside } from '../../rules/paths';
import { size } from '../../rules/wording';
import type { App } from '../../state/app';
import { useApp } from '../../state/hooks';
import { closeDialog, type Browsing } from '../../state/panels';
import { moveFocus } from '../parts/rove';
import { Dialog } from '../parts/Dialog';

interface FileBrowserProps {
  browsing: Browsing;
  /** For a dialog that it lies over. */
  onClose?: () => void;
}

export function FileBrowser({ browsing, onClose = closeDialog }: FileBrowserProps) {
  const app = useApp();
  const { title, folders, write = false, start, choose } = browsing;
  const [roots, setRoots] = useState<readonly string[]>([]);
  const [elsewhere, setElsewhere] = useState(false);
  const [listing, setListing] = useState<Listing | null>(null);
  const [path, setPath] = useState(start);
  /** A folder was clicked and is on its way: until then the folder before is shown, and would be chosen. */
  const [entering, setEntering] = useState(false);
  const asked = useRef(0);
  const id = useId();

  useEffect(() => {
    asked.current += 1;
    const question = asked.current;
    void opening(app, start).then(({ top, found }) => {
      if (question !== asked.current) return;
      setElsewhere(top.elsewhere.length > 0);
      setRoots(top.entries.map((entry) => entry.path));
      setListing(found);
      if (folders && start === '' && found.path !== null) setPath(found.path);
    });
  }, [app, start, folders]);

  const enter = async (to: string | null) => {
    asked.current += 1;
    const question = asked.current;
    setEntering(true);
    const found = await app.browse(to);
    // Only the answer to the latest question counts.
    if (question !== asked.current) return;
    setEntering(false);
    setListing(found);
    if (folders && found.path !== null && !found.problem) setPath(found.path);
  };
  const onEnter = (to: string | null) => {
    void enter(to);
  };
  /** What is typed is left to the checks; what was looked at here is known to be outside. */
  const outside = listing?.allowed === false && listing.path !== null && inside(path.trim(), listing.path);
  const ready = path.trim() !== '' && !(folders && entering);
  const take = (chosen: string) => {
    if (chosen.trim() === '') return;
    onClose();
    if (outside) app.say({ type: 'allow-folder', path: chosen.trim() });
    choose(chosen.trim());
  };
  return (
    <Dialog
      title={title}
      size="medium"
      onClose={onClose}
      onSubmit={() => {
        if (ready) take(path);
      }}
      footer={
        <>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="btn btn-primary" disabled={!ready}>
            {outside ? 'Allow and choose' : folders ? 'Choose this folder' : 'Choose'}
          </button>
        </>
      }
    >
      <Crumbs listing={listing} roots={roots} elsewhere={elsewhere} onEnter={onEnter} />
      {listing?.allowed === false && (
        <p className="files-outside" role="note">
          <ShieldAlert size={15} aria-hidden />
          <span>
            <b>Outside the workspace’s folders.</b> Choosing here lets the pipelines of this workspace read and write in
            this folder from now on; workspace.json keeps it.
          </span>
        </p>
      )}
      <Entries
        listing={listing}
        busy={entering}
        folders={folders}
        chosen={path}
        onEnter={onEnter}
        onPick={setPath}
        onTake={take}
      />
      <label className="dialog-label" htmlFor={id}>
        {write ? 'Path (a new name makes a new one)' : 'Path'}
      </label>
      <input
        id={id}
        className="input input-mono"
        spellCheck={false}
        value={path}
        onChange={(event) => {
          setPath(event.currentTarget.value);
        }}
      />
    </Dialog>
  );
}

/** Where the field points to; else the only root, else all of them. */
async function opening(app: App, start: string): Promise<{ top: Listing; found: Listing }> {
  const top = await app.browse(null);
  for (const place of [start, folderOf(start)]) {
    if (!place) continue;
    const found = await app.browse(place);
    if (!found.problem) return { top, found };
  }
  const [only, ...others] = top.entries;
  return { top, found: only && others.length === 0 ? await app.browse(only.path) : top };
}

interface CrumbsProps {
  listing: Listing | null;
  /** Whether there is more to see than the roots. */
  elsewhere: boolean;
  roots: readonly string[];
  onEnter: (path: string | null) => void;
}

function Crumbs({ listing, roots, elsewhere, onEnter }: CrumbsProps) {
  const path = listing?.path ?? null;
  const steps = path === null ? [] : crumbs(path, listing?.allowed === false ? ['/'] : roots);
  return (
    <nav className="crumbs" aria-label="Folder">
      {(roots.length > 1 || path === null || listing?.allowed === false || elsewhere) && (
        <button
          type="button"
          className="link"
          onClick={() => {
            onEnter(null);
          }}
        >
          Folders
        </button>
      )}
      {steps.map((step, index) => (
        <span key={step.path} className="crumb">
          {(index > 0 || roots.length > 1 || elsewhere) && <ChevronRight size={12} aria-hidden />}
          <button
            type="button"
            className="link"
            aria-current={index === steps.length - 1 ? 'page' : undefined}
            onClick={() => {
              onEnter(step.path);
            }}
          >
            {step.name}
          </button>
        </span>
      ))}
    </nav>
  );
}

interface EntriesProps {
  listing: Listing | null;
  busy: boolean;
  folders: boolean;
  chosen: string;
  onEnter: (path: string) => void;
  onPick: (path: string) => void;
  onTake: (path: string) => void;
}

function Entries({ listing, busy, folders, chosen, onEnter, onPick, onTake }: EntriesProps) {
  if (listing === null)
    return (
      <div className="files quiet" aria-busy="true">
        Looking…
      </div>
    );
  const entries = [...listing.entries].sort(byKind);
  return (
    <div className="files" aria-busy={busy} data-outside={!listing.allowed || undefined}>
      {listing.problem && (
        <p className="note-warning padded" role="alert">
          {listing.problem}
        </p>
      )}
      {!listing.problem && entries.length === 0 && <p className="quiet padded">This folder is empty.</p>}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- arrows go from row to row */}
      <ul
        aria-label="Files and folders"
        onKeyDown={(event) => {
          if (moveFocus(event.currentTarget, 'button:not(:disabled)', event.key)) event.preventDefault();
        }}
      >
        {entries.map((entry) => (
          <li key={entry.path}>
            <button
              type="button"
              className="file-row"
              data-kind={entry.kind}
              aria-pressed={entry.kind === 'file' ? entry.path === chosen : undefined}
              // Files only show what is there when a folder is looked for.
              disabled={folders && entry.kind === 'file'}
              onClick={() => {
                if (entry.kind === 'folder') onEnter(entry.path);
                else onPick(entry.path);
              }}
              onDoubleClick={() => {
                if (entry.kind === 'file') onTake(entry.path);
              }}
            >
              {entry.kind === 'folder' ? <Folder size={15} aria-hidden /> : <File size={15} aria-hidden />}
              <bdi className="file-name">{entry.name}</bdi>
              <span className="quiet">{entry.bytes === null ? '' : size(entry.bytes)}</span>
            </button>
          </li>
        ))}
      </ul>
      {listing.elsewhere.length > 0 && (
        <section className="files-elsewhere" aria-label="Outside the workspace">
          <h3>Outside the workspace</h3>
          <ul>
            {listing.elsewhere.map((entry) => (
              <li key={entry.path}>
                <button
                  type="button"
                  className="file-row"
                  data-kind="folder"
                  onClick={() => {
                    onEnter(entry.path);
                  }}
                >
                  <HardDrive size={15} aria-hidden />
                  <bdi className="file-name">{entry.name}</bdi>
                  <span className="quiet">{entry.path}</span>
                </button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {listing.truncated && <p className="quiet padded">There is more than is shown: type the path below.</p>}
    </div>
  );
}

function byKind(a: Entry, b: Entry): number {
  if (a.kind !== b.kind) return a.kind === 'folder' ? -1 : 1;
  return a.name.localeCompare(b.name, undefined, { numeric: true });
}
