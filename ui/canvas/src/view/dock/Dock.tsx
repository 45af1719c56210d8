/** The panel below the canvas: all problems, and the log of the selected node. */

import { ChevronDown, ChevronUp, RefreshCw } from 'lucide-react';
import type { ReactNode } from 'react';

import { worst } from '../../rules/problems';
import { useApp, useCanvas } from '../../state/hooks';
import { keep, panels, usePanels, type Panels } from '../../state/panels';
import { moveFocus } from '../parts/rove';
import { LogPanel } from './LogPanel';
import { Problems } from './Problems';
import { Resizer } from '../parts/Resizer';

type Tab = NonNullable<Panels['dock']>;

const LEAST = 96;
const MOST = 600;

export function Dock() {
  const open = usePanels((p) => p.dock);
  const height = usePanels((p) => p.dockHeight);
  return (
    <section className="dock" aria-label="Problems and log">
      {open && (
        <Resizer
          label="Height of the dock"
          direction="up"
          value={height}
          least={LEAST}
          most={MOST}
          onChange={(dockHeight) => {
            keep({ dockHeight });
          }}
        />
      )}
      <div className="dock-bar">
        <div role="tablist" aria-label="Dock" className="tabs">
          <DockTab tab="problems" word="Problems" open={open} first={open !== 'log'}>
            <ProblemCount />
          </DockTab>
          <DockTab tab="log" word="Log" open={open} first={open === 'log'} />
        </div>
        {open === 'problems' && <CheckAgain />}
        <button
          type="button"
          className="btn btn-icon"
          aria-label={open ? 'Hide the dock' : 'Show the dock'}
          aria-expanded={open !== null}
          onClick={() => {
            panels.setState({ dock: open ? null : 'problems' });
          }}
        >
          {open ? <ChevronDown size={16} aria-hidden /> : <ChevronUp size={16} aria-hidden />}
        </button>
      </div>
      {open && (
        <div className="dock-body" role="tabpanel" aria-label={open === 'log' ? 'Log' : 'Problems'} style={{ height }}>
          {open === 'log' ? <LogPanel /> : <Problems />}
        </div>
      )}
    </section>
  );
}

interface DockTabProps {
  tab: Tab;
  word: string;
  open: Panels['dock'];
  /** The one that the Tab key reaches. */
  first: boolean;
  children?: ReactNode;
}

function DockTab({ tab, word, open, first, children }: DockTabProps) {
  return (
    <button
      type="button"
      role="tab"
      className="tab"
      aria-selected={open === tab}
      tabIndex={first ? 0 : -1}
      onClick={() => {
        panels.setState({ dock: open === tab ? null : tab });
      }}
      onKeyDown={(event) => {
        const key = { ArrowRight: 'ArrowDown', ArrowLeft: 'ArrowUp' }[event.key] ?? event.key;
        if (moveFocus(event.currentTarget.parentElement, '[role=tab]', key)) event.preventDefault();
      }}
    >
      {word}
      {children}
    </button>
  );
}

function CheckAgain() {
  const app = useApp();
  const document = useCanvas((s) => s.document);
  return (
    <button
      type="button"
      className="btn btn-small"
      title="Look again at folders, tables and what is kept from earlier runs"
      disabled={document === null}
      onClick={() => {
        if (document !== null) app.say({ type: 'recheck', document });
      }}
    >
      <RefreshCw size={12} aria-hidden /> Check again
    </button>
  );
}

function ProblemCount() {
  const problems = useCanvas((s) => s.problems);
  const catalogue = useCanvas((s) => s.welcome?.problems.length ?? 0);
  const severity = worst(problems) ?? (catalogue > 0 ? 'warning' : null);
  if (severity === null) return null;
  return <span className={`badge badge-${severity}`}>{problems.length + catalogue}</span>;
}
