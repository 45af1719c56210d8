/** The versions of a pipeline, each save one; what changed, as a picture and in words; and the way back to one. */

import { LoaderCircle, RotateCcw } from 'lucide-react';
import { useEffect, useState } from 'react';

import { difference, isAlike, summary } from '../../document/difference';
import type { Doc, VersionInfo } from '../../protocol';
import { ago, plural, timeOfDay } from '../../rules/wording';
import { restore } from '../../state/commands';
import { useApp, useCanvas, useNow } from '../../state/hooks';
import { closeDialog } from '../../state/panels';
import { moveFocus } from '../parts/rove';
import { Dialog } from '../parts/Dialog';
import { DifferencePicture } from './DifferencePicture';

type Against = 'before' | 'now';

export function HistoryDialog({ document }: { document: string }) {
  const app = useApp();
  const now = useCanvas((s) => s.doc);
  const [versions, setVersions] = useState<readonly VersionInfo[] | null>(null);
  const [chosen, setChosen] = useState('');
  const [against, setAgainst] = useState<Against>('before');
  const docs = useVersions(document);
  const place = versions?.findIndex(({ version }) => version === chosen) ?? -1;
  const info = versions?.[place];
  const before = versions?.[place + 1];
  const { load } = docs;
  useEffect(() => {
    void app.versions(document).then((found) => {
      setVersions(found.versions);
      setChosen(found.versions[0]?.version ?? '');
    });
  }, [app, document]);
  useEffect(() => {
    for (const wanted of [chosen, before?.version ?? '']) if (wanted !== '') load(wanted);
  }, [chosen, before, load]);
  const shown = docs.of(chosen);
  // The first version is compared with nothing: all of it is new.
  const other = against === 'now' ? now : before ? docs.of(before.version) : NOTHING;
  return (
    <Dialog
      title="Version history"
      size="large"
      onClose={closeDialog}
      footer={
        <>
          {info && (
            <span className="dialog-note quiet">
              Restoring keeps what is on the canvas now as a version; undo takes it back.
            </span>
          )}
          <button type="button" className="btn" onClick={closeDialog}>
            Close
          </button>
          {info && (
            <button
              type="button"
              className="btn btn-primary"
              disabled={!shown?.doc || isAlike(now, shown.doc)}
              onClick={() => {
                if (!shown?.doc) return;
                closeDialog();
                restore(app, shown.doc, moment(info.saved));
              }}
            >
              <RotateCcw size={14} aria-hidden /> Restore this version
            </button>
          )}
        </>
      }
    >
      {versions === null && (
        <p className="quiet" aria-busy="true">
          Looking…
        </p>
      )}
      {versions?.length === 0 && <p className="quiet">No version yet: each save makes one.</p>}
      {versions !== null && versions.length > 0 && (
        <div className="history">
          <VersionList versions={versions} chosen={chosen} onChoose={setChosen} />
          <div className="history-shown">
            <div className="history-against" role="radiogroup" aria-label="Compare with">
              {(['before', 'now'] as const).map((value) => (
                <button
                  key={value}
                  type="button"
                  role="radio"
                  aria-checked={against === value}
                  onClick={() => {
                    setAgainst(value);
                  }}
                >
                  {value === 'before' ? 'What this version changed' : 'Against the canvas now'}
                </button>
              ))}
            </div>
            {shown?.problem && <p className="note-warning">{shown.problem}</p>}
            {shown?.doc && other && other !== shown ? (
              <Shown before={'problem' in other ? (other.doc ?? EMPTY_DOC) : other} after={shown.doc} />
            ) : (
              !shown?.problem && (
                <p className="quiet padded" aria-busy="true">
                  <LoaderCircle size={14} aria-hidden /> Reading…
                </p>
              )
            )}
          </div>
        </div>
      )}
    </Dialog>
  );
}

const EMPTY_DOC: Doc = { name: '', description: '', parameters: {}, nodes: {}, edges: {}, annotations: {}, ui: {} };
const NOTHING = { doc: EMPTY_DOC, problem: '' };

function Shown({ before, after }: { before: Doc; after: Doc }) {
  const found = difference(before, after);
  return (
    <>
      <p role="status" className="history-summary">
        {summary(found) || 'Nothing differs.'}
      </p>
      <DifferencePicture before={before} after={after} found={found} />
      {found.lines.length > 0 && (
        <ul className="history-lines" aria-label="Changed values">
          {found.lines.map((line) => (
            <li key={line} dir="auto">
              {line}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

interface ListProps {
  versions: readonly VersionInfo[];
  chosen: string;
  onChoose: (version: string) => void;
}

function VersionList({ versions, chosen, onChoose }: ListProps) {
  const now = useNow(false);
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- arrows go from row to row
    <ul
      className="history-list"
      aria-label="Versions"
      onKeyDown={(event) => {
        if (moveFocus(event.currentTarget, 'button', event.key)) event.preventDefault();
      }}
    >
      {versions.map(({ version, saved, unsaved, nodes, problem }, index) => (
        <li key={version}>
          <button
            type="button"
            className="history-row"
            aria-pressed={version === chosen}
            title={moment(saved)}
            onClick={() => {
              onChoose(version);
            }}
          >
            <span className="history-when">{moment(saved)}</span>
            <span className="quiet">
              {problem ? 'cannot be read' : plural(nodes, 'nodes')} · {ago(saved, now)}
            </span>
            {index === 0 && !unsaved && <span className="tag">saved last</span>}
            {unsaved && <span className="tag">before a restore</span>}
          </button>
        </li>
      ))}
    </ul>
  );
}

function moment(saved: number): string {
  const at = new Date(saved * 1000);
  const date = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((n) => String(n).padStart(2, '0')).join('-');
  return `${date} ${timeOfDay(saved)}`;
}

interface Read {
  readonly doc: Doc | null;
  readonly problem: string;
}

/** Versions that were read already are not asked for again. */
function useVersions(document: string) {
  const app = useApp();
  const [known, setKnown] = useState<ReadonlyMap<string, Read>>(new Map());
  const [load] = useState(() => {
    const asked = new Set<string>();
    return (version: string) => {
      if (asked.has(version)) return;
      asked.add(version);
      void app.readVersion(document, version).then(({ doc, problem }) => {
        setKnown((before) => new Map(before).set(version, { doc, problem }));
      });
    };
  });
  return { load, of: (version: string) => known.get(version) };
}
