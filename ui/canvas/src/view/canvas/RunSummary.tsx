/**
 * What a run came to, once it has ended: a quiet panel in the canvas's corner. It takes no focus, and waits until the
 * pointer is elsewhere and no button of it is pressed, so that it never comes between a person and what they do.
 */

import { ArrowDownRight, ArrowRight, ArrowUpRight, Eye, X } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';

import { own } from '../../document/own';
import type { RunFigure, RunInfo } from '../../protocol';
import { duration } from '../../rules/figures';
import { nameOf } from '../../rules/ports';
import { elapsed, figureChange, figureText, runAddress } from '../../rules/runs';
import { look } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { useViews } from '../../state/views';

const MOST = 4;
const SIGNS = { more: ArrowUpRight, less: ArrowDownRight, same: ArrowRight };
/** Until it looks for the first time whether it is in the way. */
const PATIENCE_MS = 400;

export function RunSummary() {
  const run = useCanvas((s) => (s.finished !== null && s.run?.run_id === s.finished ? s.run : null));
  const [closed, setClosed] = useState<string | null>(null);
  const pointer = usePointer();
  if (run?.state !== 'done' || run.figures.length === 0 || closed === run.run_id) return null;
  return (
    <Panel
      key={run.run_id}
      run={run}
      pointer={pointer}
      onClose={() => {
        setClosed(run.run_id);
      }}
    />
  );
}

interface Pointer {
  x: number;
  y: number;
  pressed: boolean;
}

type PointerRef = Readonly<{ current: Pointer }>;

function usePointer(): PointerRef {
  const pointer = useRef<Pointer>({ x: -1, y: -1, pressed: false });
  useEffect(() => {
    const note = ({ clientX, clientY, buttons }: PointerEvent) => {
      pointer.current = { x: clientX, y: clientY, pressed: buttons !== 0 };
    };
    const kinds = ['pointermove', 'pointerdown', 'pointerup', 'pointercancel'] as const;
    for (const kind of kinds) window.addEventListener(kind, note, { capture: true, passive: true });
    return () => {
      for (const kind of kinds) window.removeEventListener(kind, note, { capture: true });
    };
  }, []);
  return pointer;
}

interface PanelProps {
  run: RunInfo;
  pointer: PointerRef;
  onClose: () => void;
}

function Panel({ run, pointer, onClose }: PanelProps) {
  const box = useRef<HTMLElement>(null);
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (shown) return undefined;
    const timer = setInterval(() => {
      if (box.current && !inTheWay(box.current, pointer.current)) setShown(true);
    }, PATIENCE_MS);
    return () => {
      clearInterval(timer);
    };
  }, [shown, pointer]);
  const figures = run.figures.slice(0, MOST);
  const nodes = new Set(figures.map(({ node }) => node));
  const last = figures[0]?.node ?? '';
  return (
    <aside ref={box} className="run-summary" aria-label="Result of the run" data-shown={shown} inert={!shown}>
      <header>
        <strong>Done in {duration(elapsed(run, run.ended ?? run.created))}</strong>
        <button type="button" className="btn btn-icon btn-tiny" aria-label="Close" onClick={onClose}>
          <X size={13} aria-hidden />
        </button>
      </header>
      <ul>
        {figures.map((figure) => (
          <Tile key={`${figure.node} ${figure.name}`} figure={figure} several={nodes.size > 1} />
        ))}
      </ul>
      {run.against !== '' && <p className="quiet">compared with run {run.against.split('-').at(-1)}</p>}
      <footer>
        <a className="btn btn-small" href={runAddress(run.run_id)}>
          See results
        </a>
        <LookAt node={last} />
      </footer>
    </aside>
  );
}

function inTheWay(box: Element, { x, y, pressed }: Pointer): boolean {
  const { left, right, top, bottom } = box.getBoundingClientRect();
  return pressed || (x >= left && x <= right && y >= top && y <= bottom);
}

function Tile({ figure, several }: { figure: RunFigure; several: boolean }) {
  const { node, name, value } = figure;
  // The node may be gone since.
  const title = useCanvas((s) => (own(s.doc.nodes, node) ? nameOf(s.doc, node) : figure.title));
  const { sign, words, verdict } = figureChange(figure);
  const Sign = SIGNS[sign];
  return (
    <li>
      <span className="run-summary-name" title={title}>
        {several ? `${name}, ${title}` : name}
      </span>
      <span className="run-summary-value">{figureText(value)}</span>
      {words !== '' && (
        <span className="run-summary-change" data-better={verdict ?? undefined}>
          <Sign size={12} aria-hidden /> {words}
        </span>
      )}
    </li>
  );
}

function LookAt({ node }: { node: string }) {
  const app = useApp();
  const views = useViews(node);
  if (views.length === 0) return null;
  return (
    <button
      type="button"
      className="btn btn-small"
      onClick={() => {
        look(app, node);
      }}
    >
      <Eye size={13} aria-hidden /> Look at it
    </button>
  );
}
