/** The panel at the right: what is selected, and everything about it that can be changed. */

import { useEffect, useMemo, useRef } from 'react';

import { own } from '../../document/own';
import { useApp, useCanvas } from '../../state/hooks';
import { keep, panels, showPanel, usePanels } from '../../state/panels';
import type { Destination } from '../../state/state';
import { Resizer } from '../parts/Resizer';
import { AnnotationInspector } from './AnnotationInspector';
import { EdgeInspector } from './EdgeInspector';
import { FormEpoch, useFormUndo } from '../parts/typed';
import { FoldButton } from './FoldButton';
import { NodeInspector } from './NodeInspector';
import { PipelineInspector } from './PipelineInspector';
import { SelectionInspector } from './SelectionInspector';

const NARROWEST = 260;
const WIDEST = 640;
const FLASH_MS = 1200;

export function Inspector() {
  const open = usePanels((p) => p.inspector);
  const width = usePanels((p) => p.inspectorWidth);
  const ready = useCanvas((s) => s.document !== null);
  const panel = useRef<HTMLElement>(null);
  useArrival(panel);
  if (!open) {
    return (
      <aside className="inspector inspector-folded" aria-label="Inspector" ref={panel}>
        <FoldButton open={false} />
      </aside>
    );
  }
  return (
    <aside className="inspector" aria-label="Inspector" ref={panel} style={{ width }}>
      <Resizer
        label="Width of the inspector"
        direction="left"
        value={width}
        least={NARROWEST}
        most={WIDEST}
        onChange={(inspectorWidth) => {
          keep({ inspectorWidth });
        }}
      />
      {ready ? <Subject /> : <Skeleton />}
    </aside>
  );
}

function Subject() {
  const { epoch, onKeyDown } = useFormUndo();
  const selection = useCanvas((s) => s.selection);
  const [node] = selection.nodes;
  const [edge] = selection.edges;
  const [annotation] = selection.annotations ?? [];
  const known = useCanvas((s) =>
    node === undefined ? edge !== undefined && edge in s.doc.edges : node in s.doc.nodes,
  );
  const subject = useMemo(() => {
    const drawn = selection.annotations?.length ?? 0;
    if (annotation !== undefined && drawn + selection.nodes.length + selection.edges.length === 1)
      return <AnnotationInspector key={annotation} id={annotation} />;
    if (!known && drawn < 2) return <PipelineInspector />;
    if (drawn + selection.nodes.length + selection.edges.length > 1)
      return <SelectionInspector selection={selection} />;
    if (node !== undefined) return <NodeInspector key={node} id={node} />;
    return edge === undefined ? <PipelineInspector /> : <EdgeInspector key={edge} edge={edge} />;
  }, [known, selection, node, edge, annotation]);
  return (
    // Only listens to what the fields inside let pass.
    // eslint-disable-next-line jsx-a11y/no-static-element-interactions
    <div className="inspector-subject" onKeyDown={onKeyDown}>
      <FormEpoch value={epoch}>{subject}</FormEpoch>
    </div>
  );
}

function Skeleton() {
  return (
    <div className="skeleton-lines" aria-busy="true" aria-label="Loading">
      {[60, 90, 40, 90, 70, 90].map((share, index) => (
        <span key={index} className="skeleton" style={{ width: `${share}%` }} />
      ))}
    </div>
  );
}

/** Brings the person to the field they asked for: opens the panel, unfolds, scrolls, focuses. */
function useArrival(panel: { readonly current: HTMLElement | null }): void {
  const app = useApp();
  const destination = useCanvas((s) => s.destination);
  // What was asked for before this panel was there has been answered.
  const arrived = useRef(destination?.n ?? 0);
  useEffect(() => {
    if (!destination || destination.n === arrived.current || destination.parameter === null) return;
    const { node, parameter } = destination;
    const field = node === null ? null : fieldOf(app.state, node, parameter);
    showPanel('inspector', true);
    panels.setState({ inspectorTab: 'parameters' });
    // The panel, its tab and the folded part may have to be drawn first.
    const frame = requestAnimationFrame(() => {
      if (field?.advanced) unfold(panel.current);
      requestAnimationFrame(() => {
        arrived.current = destination.n;
        focusField(panel.current, destination);
      });
    });
    return () => {
      cancelAnimationFrame(frame);
    };
  }, [app, destination, panel]);
}

type Known = ReturnType<typeof useApp>['state'];

function fieldOf({ doc, types }: Known, node: string, parameter: string) {
  return own(types, own(doc.nodes, node)?.type ?? '')?.fields.find(({ name }) => name === parameter);
}

function unfold(panel: HTMLElement | null): void {
  for (const details of panel?.querySelectorAll('details') ?? []) details.open = true;
}

function focusField(panel: HTMLElement | null, { parameter }: Destination): void {
  const field = panel?.querySelector(`.field[data-field="${CSS.escape(parameter ?? '')}"]`);
  if (!field) return;
  field.scrollIntoView({ block: 'center' });
  field
    .querySelector<HTMLElement>('input, select, textarea, [role=switch], .chip-open')
    ?.focus({ preventScroll: true });
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  field.animate([{ background: 'var(--vf-accent-soft)' }, { background: 'transparent' }], FLASH_MS);
}
