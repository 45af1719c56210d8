/** All pipelines of the workspace, and the templates to start from. */

import { FileJson, FilePlus, LayoutTemplate, Search, TriangleAlert } from 'lucide-react';
import { useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';

import type { PipelineInfo, TemplateInfo } from '../../protocol';
import { score } from '../../rules/search';
import { ago, plural } from '../../rules/wording';
import { useApp, useCanvas, useNow } from '../../state/hooks';
import { closeDialog } from '../../state/panels';
import { moveFocus } from '../parts/rove';
import { Dialog } from '../parts/Dialog';

export function OpenDialog({ only }: { only: 'templates' | null }) {
  const app = useApp();
  const library = useCanvas((s) => s.library);
  const [query, setQuery] = useState('');
  const list = useRef<HTMLDivElement>(null);
  const pipelines = useMemo(() => (only ? [] : found(library?.pipelines ?? [], query)), [library, query, only]);
  const templates = useMemo(() => found(library?.templates ?? [], query), [library, query]);
  const choose = (command: Parameters<typeof app.say>[0]) => {
    closeDialog();
    app.say(command);
  };
  const first = () => list.current?.querySelector<HTMLElement>('button');
  const onKeyDown = (event: KeyboardEvent) => {
    if (moveFocus(list.current, 'button', event.key)) event.preventDefault();
  };
  const empty = pipelines.length === 0 && templates.length === 0;
  return (
    <Dialog
      title={only ? 'New from template' : 'Open'}
      size="medium"
      onClose={closeDialog}
      onSubmit={() => first()?.click()}
    >
      {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions -- arrows go from row to row */}
      <div onKeyDown={onKeyDown}>
        <label className="search-box">
          <Search size={14} aria-hidden />
          <input
            className="input"
            type="search"
            data-autofocus
            aria-label="Search pipelines"
            placeholder="Search"
            value={query}
            onChange={(event) => {
              setQuery(event.currentTarget.value);
            }}
          />
        </label>
        <div ref={list} className="library" aria-busy={library === null}>
          {pipelines.length > 0 && (
            <Section title="Pipelines">
              {pipelines.map((pipeline) => (
                <PipelineRow
                  key={pipeline.document}
                  pipeline={pipeline}
                  onChoose={() => {
                    choose({ type: 'open', document: pipeline.document });
                  }}
                />
              ))}
            </Section>
          )}
          <Section title="Start a new one">
            {query === '' && (
              <Row
                icon={<FilePlus size={16} />}
                name="Empty pipeline"
                text="Nothing on the canvas yet"
                onChoose={() => {
                  choose({ type: 'new', template: null });
                }}
              />
            )}
            {templates.map((template) => (
              <Row
                key={template.template}
                icon={<LayoutTemplate size={16} />}
                name={template.name}
                text={template.description}
                side={plural(template.nodes, 'nodes')}
                onChoose={() => {
                  choose({ type: 'new', template: template.template });
                }}
              />
            ))}
          </Section>
          {empty && query !== '' && <p className="quiet padded">Nothing is called so.</p>}
        </div>
      </div>
    </Dialog>
  );
}

function found<T extends PipelineInfo | TemplateInfo>(items: readonly T[], query: string): T[] {
  return items
    .map((item) => ({ item, points: Math.max(score(query, item.name), score(query, item.description) >= 40 ? 20 : 0) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .map(({ item }) => item);
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul>{children}</ul>
    </section>
  );
}

function PipelineRow({ pipeline, onChoose }: { pipeline: PipelineInfo; onChoose: () => void }) {
  const open = useCanvas((s) => s.document === pipeline.document);
  const now = useNow(false);
  const { name, problem, description, unsaved, modified } = pipeline;
  const when = modified === null ? 'not saved' : ago(modified, now);
  return (
    <Row
      icon={problem ? <TriangleAlert size={16} className="sign-warning" /> : <FileJson size={16} />}
      name={name}
      text={problem || description}
      side={open ? `${when} · open now` : when}
      unsaved={unsaved}
      title={`${pipeline.document}.json`}
      onChoose={onChoose}
    />
  );
}

interface RowProps {
  icon: ReactNode;
  name: string;
  text: string;
  side?: string;
  unsaved?: boolean;
  title?: string;
  onChoose: () => void;
}

function Row({ icon, name, text, side, unsaved = false, title, onChoose }: RowProps) {
  return (
    <li>
      <button type="button" className="library-row" title={title} onClick={onChoose}>
        <span aria-hidden>{icon}</span>
        <span className="library-name" dir="auto">
          {name}
        </span>
        {unsaved && <span className="tag">unsaved</span>}
        <span className="library-side">{side}</span>
        <span className="library-text" dir="auto">
          {text}
        </span>
      </button>
    </li>
  );
}
