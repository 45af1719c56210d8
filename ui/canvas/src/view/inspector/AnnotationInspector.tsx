/** A frame or a note: its text, its colour, and what a frame holds. */

import { Maximize2, Trash2 } from 'lucide-react';
import { useId } from 'react';

import { COLOURS, framed } from '../../document/annotations';
import { own } from '../../document/own';
import { plural } from '../../rules/wording';
import { useApp, useCanvas } from '../../state/hooks';
import { write } from '../../state/writing';
import { useEditor } from '../canvas/editor';
import { useTyped } from '../parts/typed';
import { TypedArea } from './fields/TypedArea';
import { FoldButton } from './FoldButton';

export function AnnotationInspector({ id }: { id: string }) {
  const app = useApp();
  const editor = useEditor();
  const field = useId();
  const item = useCanvas((s) => own(s.doc.annotations, id));
  const held = useCanvas((s) => (editor ? framed(s.doc, id, editor.sizes()).nodes.length : 0));
  const typed = useTyped(item?.text ?? '', (text) => {
    write(app, id, text);
  });
  if (!item) return null;
  const frame = item.kind === 'frame';
  return (
    <>
      <header className="inspector-head">
        <h2>{frame ? 'Frame' : 'Note'}</h2>
        <FoldButton open />
        <p className="inspector-facts">
          <span>
            {frame ? `holds ${plural(held, 'nodes')}, and takes them along` : 'for people: runs do not read it'}
          </span>
        </p>
      </header>
      <div className="inspector-scroll">
        <div className="form">
          <div className="field">
            <label htmlFor={field}>{frame ? 'Title' : 'Text'}</label>
            <TypedArea typed={typed} id={field} className="input" rows={frame ? 2 : 8} />
          </div>
          <div className="field">
            <span id={`${field}-colour`}>Colour</span>
            <div className="swatches" role="radiogroup" aria-labelledby={`${field}-colour`}>
              {COLOURS.map((colour) => (
                <button
                  key={colour}
                  type="button"
                  role="radio"
                  className="swatch"
                  data-colour={colour}
                  aria-checked={item.colour === colour}
                  aria-label={colour}
                  title={colour}
                  onClick={() => editor?.colour([id], colour)}
                />
              ))}
            </div>
          </div>
          <div className="button-row">
            {frame && (
              <button type="button" className="btn" disabled={held === 0} onClick={() => editor?.fitFrame(id)}>
                <Maximize2 size={14} aria-hidden /> Fit to its nodes
              </button>
            )}
            <button type="button" className="btn btn-danger" onClick={() => editor?.remove()}>
              <Trash2 size={14} aria-hidden /> Delete
            </button>
          </div>
        </div>
      </div>
    </>
  );
}
