/** Several things at once. */

import { CopyPlus, Trash2, Workflow } from 'lucide-react';

import { removeItems } from '../../document/edits';
import { nameOf } from '../../rules/ports';
import { plural } from '../../rules/wording';
import { useApp, useCanvas } from '../../state/hooks';
import type { Selection } from '../../state/state';
import { duplicate } from '../canvas/clipboard';
import { useEditor } from '../canvas/editor';
import { FoldButton } from './FoldButton';

export function SelectionInspector({ selection }: { selection: Selection }) {
  const app = useApp();
  const doc = useCanvas((s) => s.doc);
  const editor = useEditor();
  const { nodes, edges, annotations = [] } = selection;
  const what = [
    nodes.length > 0 ? plural(nodes.length, 'nodes') : '',
    edges.length > 0 ? plural(edges.length, 'wires') : '',
    annotations.length > 0 ? plural(annotations.length, 'annotations') : '',
  ].filter((text) => text !== '');
  return (
    <>
      <header className="inspector-head">
        <h2>{what.join(', ')} selected</h2>
        <FoldButton open />
      </header>
      <div className="inspector-scroll">
        <div className="button-row padded">
          <button
            type="button"
            className="btn"
            disabled={!editor || nodes.length < 2}
            onClick={() => {
              editor?.arrange();
            }}
          >
            <Workflow size={14} aria-hidden /> Arrange
          </button>
          <button
            type="button"
            className="btn"
            disabled={!editor || nodes.length === 0}
            onClick={() => {
              if (editor) duplicate(editor);
            }}
          >
            <CopyPlus size={14} aria-hidden /> Duplicate
          </button>
          <button
            type="button"
            className="btn btn-danger"
            onClick={() => {
              if (editor) editor.remove();
              else app.edit('Delete', removeItems(doc, nodes, edges, annotations));
            }}
          >
            <Trash2 size={14} aria-hidden /> Delete
          </button>
        </div>
        <ul className="selected-list">
          {nodes.map((id) => (
            <li key={id}>
              <button
                type="button"
                className="link"
                dir="auto"
                onClick={() => {
                  app.goTo(id);
                }}
              >
                {nameOf(doc, id)}
              </button>
              <span className="quiet"> {id}</span>
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}
