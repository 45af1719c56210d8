/** The top of a card: icon, title, type, problems. */

import { CircleAlert, Monitor, TriangleAlert, Zap } from 'lucide-react';
import { Fragment, useCallback, useState, type KeyboardEvent, type MouseEvent } from 'react';

import { own } from '../../document/own';
import type { NodeTypeInfo } from '../../protocol';
import { whereItRuns } from '../../rules/lights';
import { pinnedTo, worst } from '../../rules/problems';
import { useCanvas } from '../../state/hooks';
import { usePicture } from '../../state/picture';
import { theEditor } from './editor';
import { focusNode } from '../parts/focus';
import { NodeIcon } from '../parts/NodeIcon';
import { ProblemList } from '../parts/ProblemText';
import { stage, useStage } from './stage';
import { useTip } from './tips';

export function CardHead({ id, type }: { id: string; type: NodeTypeInfo | undefined }) {
  const title = useCanvas((s) => own(s.doc.nodes, id)?.title ?? '');
  const typeName = useCanvas((s) => own(s.doc.nodes, id)?.type ?? '');
  const fixed = usePicture() !== null;
  const renaming = useStage((s) => s.renaming === id);
  const tip = useTip(
    useCallback(() => <HeadTip id={id} />, [id]),
    'top',
  );
  const does = useCanvas((s) => own(s.does, id) ?? '');
  const below = does || (title === '' ? (type?.category ?? 'Not installed') : typeName);
  const rename = (event: MouseEvent) => {
    event.stopPropagation();
    stage.setState({ renaming: id, tip: null });
  };
  return (
    <div className="card-head">
      <NodeIcon type={type} size={16} />
      <div className="card-names">
        {renaming ? (
          <TitleField id={id} title={title} typeName={typeName} />
        ) : (
          <div className="card-title" dir="auto" onDoubleClick={fixed ? undefined : rename} {...tip}>
            <Breakable text={title || typeName} />
          </div>
        )}
        <div className="card-type" dir="auto" title={does || undefined}>
          {below}
        </div>
      </div>
      <BackendMark id={id} />
      <ProblemBadge id={id} />
    </div>
  );
}

/** Far away a title takes two lines: a name without spaces may go on in the second one where its next word begins. */
export function Breakable({ text }: { text: string }) {
  const parts = /\s/.test(text) ? [text] : text.split(/(?<=\p{Ll})(?=\p{Lu})|(?<=[_./-])(?=[^_./-])/u);
  return parts.map((part, at) => (
    <Fragment key={at}>
      {at > 0 && <wbr />}
      {part}
    </Fragment>
  ));
}

/** Where the node works, when the profile chosen is for more than this machine's own workers. */
function BackendMark({ id }: { id: string }) {
  const forecast = useCanvas((s) => own(s.forecasts, id));
  const tip = useTip(
    useCallback(() => <BackendTip id={id} />, [id]),
    'top',
  );
  if (!forecast?.backend_reason) return null;
  const spark = forecast.backend === 'spark';
  return (
    <span
      className="card-backend"
      data-backend={forecast.backend}
      role="img"
      aria-label={spark ? 'Runs on Spark' : 'Runs on the driver'}
      {...tip}
    >
      {spark ? <Zap size={13} /> : <Monitor size={13} />}
    </span>
  );
}

function BackendTip({ id }: { id: string }) {
  const forecast = useCanvas((s) => own(s.forecasts, id));
  return forecast ? whereItRuns(forecast) : null;
}

function TitleField({ id, title, typeName }: { id: string; title: string; typeName: string }) {
  const [before] = useState(title);
  const [text, setText] = useState(title);
  const leave = (keep: boolean) => {
    // Leaving the field by Enter or Escape blurs it as well: only the first counts.
    if (stage.getState().renaming !== id) return;
    stage.setState({ renaming: null });
    // Others may have given it another title meanwhile: only what was typed here is written.
    if (keep && text !== before) theEditor()?.rename(id, text);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // Saving saves what is typed here too.
    if ((event.ctrlKey || event.metaKey) && event.key === 's') leave(true);
    if (event.key !== 'Enter' && event.key !== 'Escape') return;
    event.preventDefault();
    leave(event.key === 'Enter');
    const editor = theEditor();
    if (editor) focusNode(editor.frame, id);
  };
  return (
    <input
      className="card-title-field nodrag nopan"
      aria-label="Title"
      dir="auto"
      placeholder={typeName}
      value={text}
      ref={focusAll}
      onChange={(event) => {
        setText(event.target.value);
      }}
      onKeyDown={onKeyDown}
      onBlur={() => {
        leave(true);
      }}
    />
  );
}

function focusAll(field: HTMLInputElement | null): void {
  field?.focus({ preventScroll: true });
  field?.select();
}

function HeadTip({ id }: { id: string }) {
  const node = useCanvas((s) => own(s.doc.nodes, id));
  const type = useCanvas((s) => own(s.types, node?.type ?? ''));
  if (!node) return null;
  return (
    <>
      <div className="tip-title" dir="auto">
        {node.title || node.type}
      </div>
      <div className="tip-muted">
        {node.type} · <span className="mono">{id}</span>
      </div>
      {type ? (
        <div>{type.summary}</div>
      ) : (
        <div>This node type is not installed. The node keeps its parameters and wires.</div>
      )}
    </>
  );
}

function ProblemBadge({ id }: { id: string }) {
  const problems = useCanvas((s) => pinnedTo(s.problems, id));
  const tip = useTip(
    useCallback(() => <ProblemTip id={id} />, [id]),
    'top',
  );
  const severity = worst(problems);
  if (severity === null || severity === 'info') return null;
  const counted = problems.filter((p) => p.severity === severity).length;
  const word = severity === 'error' ? 'error' : 'warning';
  return (
    <span
      className="card-problems"
      data-severity={severity}
      role="img"
      aria-label={`${counted} ${word}${counted === 1 ? '' : 's'}`}
      {...tip}
    >
      {severity === 'error' ? <CircleAlert size={14} /> : <TriangleAlert size={14} />}
      {counted > 1 && <span aria-hidden="true">{counted}</span>}
    </span>
  );
}

function ProblemTip({ id }: { id: string }) {
  return <ProblemList problems={useCanvas((s) => pinnedTo(s.problems, id))} />;
}
