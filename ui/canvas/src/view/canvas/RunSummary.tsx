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
import { size } from '../../rules/wording';
import { look } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { useViews } from '../../state/views';

const MOST = 4;
const SIGNS = { more: ArrowUpRight, less: ArrowDownRight, same: ArrowRight };
/** Until it looks for the first time whether it is in the way. */
const PATIENCE_MS = 400;
/** Until it looks again for a place where no card is. */
const NO_ROOM_MS = 2000;

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
  const [corner, setCorner] = useState<Corner>('top-right');
  // What a table is like stands on its card as well: such a panel covers no card.
  const ofTable = run.figures.some(({ unit }) => unit === 'bytes');
  useEffect(() => {
    if (shown) return undefined;
    let timer: ReturnType<typeof setTimeout>;
    const appear = () => {
      const found = box.current && freeCorner(box.current, ofTable);
      if (found && !inTheWay(found.place, pointer.current)) {
        setCorner(found.corner);
        setShown(true);
        return;
      }
      timer = setTimeout(appear, found ? PATIENCE_MS : NO_ROOM_MS);
    };
    timer = setTimeout(appear, PATIENCE_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [shown, pointer, ofTable]);
  const figures = run.figures.slice(0, MOST);
  const nodes = [...new Set(figures.map(({ node }) => node))];
  const last = figures[0]?.node ?? '';
  const name = useName(last, figures[0]?.title ?? '');
  return (
    <aside
      ref={box}
      className="run-summary"
      aria-label="Result of the run"
      data-shown={shown}
      data-corner={corner}
      inert={!shown}
    >
      <header>
        <strong>Done in {duration(elapsed(run, run.ended ?? run.created))}</strong>
        <button type="button" className="btn btn-icon btn-tiny" aria-label="Close" onClick={onClose}>
          <X size={13} aria-hidden />
        </button>
      </header>
      {nodes.map((node) => (
        <Figures key={node} figures={figures.filter((figure) => figure.node === node)} titled={nodes.length > 1} />
      ))}
      {ofTable && <p className="quiet">{name}</p>}
      {run.against !== '' && <p className="quiet">compared with run {run.against.split('-').at(-1)}</p>}
      <footer>
        <a className="btn btn-small" href={runAddress(run.run_id)}>
          See results
        </a>
        <LookAt node={last}>{ofTable ? 'Open table' : 'Look at it'}</LookAt>
      </footer>
    </aside>
  );
}

type Corner = 'top-right' | 'bottom-right' | 'top-left';
const CORNERS: readonly Corner[] = ['top-right', 'bottom-right', 'top-left'];

/** Cards, frames and notes, and the overview where it is shown. */
const TAKEN = '.react-flow__node, .overview:not(.overview-unneeded)';

/**
 * A corner of the canvas where the panel lies on no card. Where cards are everywhere, the first one, or null for a panel
 * that may cover none.
 */
function freeCorner(box: Element, coversNone: boolean): { corner: Corner; place: DOMRect } | null {
  const canvas = box.closest('.canvas');
  if (canvas === null) return null;
  const taken = Array.from(canvas.querySelectorAll(TAKEN), (each) => each.getBoundingClientRect());
  const [frame, panel] = [canvas.getBoundingClientRect(), box.getBoundingClientRect()];
  const places = CORNERS.map((corner) => ({ corner, place: placed(panel, frame, corner) }));
  const free = places.find(({ place }) => !taken.some((each) => meet(each, place)));
  return free ?? (coversNone ? null : (places[0] ?? null));
}

/** Pixels from the canvas's edges, as in summary.css. */
const MARGIN = 12;

function placed({ width, height }: DOMRect, frame: DOMRect, corner: Corner): DOMRect {
  const x = corner === 'top-left' ? frame.left + MARGIN : frame.right - MARGIN - width;
  const y = corner === 'bottom-right' ? frame.bottom - MARGIN - height : frame.top + MARGIN;
  return new DOMRect(x, y, width, height);
}

function meet(one: DOMRect, other: DOMRect): boolean {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}

function inTheWay({ left, right, top, bottom }: DOMRect, { x, y, pressed }: Pointer): boolean {
  return pressed || (x >= left && x <= right && y >= top && y <= bottom);
}

/** What one node came to; its name above where several have figures, for names of figures alone fit beside each other. */
export function Figures({ figures, titled }: { figures: readonly RunFigure[]; titled: boolean }) {
  const title = useName(figures[0]?.node ?? '', figures[0]?.title ?? '');
  return (
    <>
      {titled && (
        <h3 className="run-summary-node" dir="auto">
          {title}
        </h3>
      )}
      <ul>
        {figures.map((figure) => (
          <Tile key={figure.name} figure={figure} title={title} />
        ))}
      </ul>
    </>
  );
}

function Tile({ figure, title }: { figure: RunFigure; title: string }) {
  const { name, value, unit } = figure;
  const { sign, words, verdict } = figureChange(figure);
  const Sign = SIGNS[sign];
  return (
    <li>
      <span className="run-summary-name" title={`${name}, ${title}`}>
        {name}
      </span>
      <span className="run-summary-value">{unit === 'bytes' ? size(value) : figureText(value)}</span>
      {words !== '' && (
        <span className="run-summary-change" data-better={verdict ?? undefined}>
          <Sign size={12} aria-hidden /> {words}
        </span>
      )}
    </li>
  );
}

/** What a node is called; `title` is its name in the run, since it may be gone by now. */
function useName(node: string, title: string): string {
  return useCanvas((s) => (own(s.doc.nodes, node) ? nameOf(s.doc, node) : title));
}

function LookAt({ node, children }: { node: string; children: string }) {
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
      <Eye size={13} aria-hidden /> {children}
    </button>
  );
}
