/** The log of the selected node, as it is written. */

import { ArrowDownToLine, Copy, Search } from 'lucide-react';
import { useDeferredValue, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from 'react';

import { own } from '../../document/own';
import type { NodeStatus } from '../../protocol';
import { nameOf } from '../../rules/ports';
import { asText, blocks, matching } from '../../rules/logs';
import { plural } from '../../rules/wording';
import { useApp, useCanvas } from '../../state/hooks';
import type { Log } from '../../state/state';
import { Failure } from '../inspector/NodeResult';
import { NodeState } from '../parts/StateMark';
import { useLight } from '../canvas/use_light';
import { copy } from '../parts/copying';
import { LogBlock } from './LogBlock';

export function LogPanel() {
  const [node, ...others] = useCanvas((s) => s.selection.nodes);
  if (node === undefined || others.length > 0) {
    return <p className="quiet dock-empty">Select one node to see its log.</p>;
  }
  return <NodeLog key={node} node={node} />;
}

function NodeLog({ node }: { node: string }) {
  const log = useCanvas((s) => (s.log?.node === node ? s.log : null));
  const status = useCanvas((s) => own(s.status, node));
  const name = useCanvas((s) => nameOf(s.doc, node));
  const shown = useCanvas((s) => s.run !== null);
  const [search, setSearch] = useState('');
  const wanted = useDeferredValue(search);
  return (
    <div className="log">
      <div className="log-bar">
        <span className="log-name" dir="auto">
          {name}
        </span>
        {status && (status.state === 'running' ? <HowFar node={node} /> : <NodeState state={status.state} />)}
        <label className="log-search">
          <Search size={13} aria-hidden />
          <input
            className="input"
            type="search"
            aria-label="Search the log"
            placeholder="Search"
            value={search}
            onChange={(event) => {
              setSearch(event.currentTarget.value);
            }}
          />
        </label>
        {log && <CopyLog log={log} search={wanted} />}
      </div>
      {status?.failure && <Failure node={node} failure={status.failure} />}
      {log && log.lines.length > 0 ? (
        <Lines log={log} search={wanted} />
      ) : (
        <p className="quiet dock-empty">{whyEmpty(status?.state, shown)}</p>
      )}
    </div>
  );
}

/** The phase, the share of the whole task and the time left, as on the card. */
function HowFar({ node }: { node: string }) {
  const { word, time, share, full } = useLight(node);
  return (
    <span className="log-progress" title={full}>
      <span className="log-phase">{word}</span>
      {share !== null && (
        <span className="bar" data-known aria-hidden>
          <span style={{ width: `${share * 100}%` }} />
        </span>
      )}
      {share !== null && <span className="quiet">{Math.floor(share * 100)}%</span>}
      <span className="quiet">{time}</span>
    </span>
  );
}

function whyEmpty(state: NodeStatus['state'] | undefined, shown: boolean): string {
  switch (state) {
    case undefined:
      return shown ? 'This run did not include it: there is no log.' : 'There is no run to show a log of.';
    case 'queued':
    case 'waiting':
    case 'running':
      return 'It has written nothing yet.';
    case 'cached':
      return 'It did not run: its result was there already.';
    case 'skipped':
      return 'It did not run.';
    case 'done':
    case 'failed':
    case 'cancelled':
      return 'It wrote nothing.';
  }
}

function CopyLog({ log, search }: { log: Log; search: string }) {
  const app = useApp();
  return (
    <button
      type="button"
      className="btn btn-small"
      onClick={() => {
        const lines = matching(log.lines, search);
        const done = `Copied ${plural(lines.length, 'lines')}.`;
        void copy(app, asText(lines), done, 'Select the lines and copy them by hand.');
      }}
    >
      <Copy size={12} aria-hidden /> Copy
    </button>
  );
}

const NEAR_THE_END = 24;

function Lines({ log, search }: { log: Log; search: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const shown = useMemo(() => {
    const lines = matching(log.lines, search);
    return blocks(lines, lines === log.lines ? log.first : 0);
  }, [log, search]);
  const toEnd = () => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  useLayoutEffect(() => {
    if (!atEnd || !box.current) return undefined;
    toEnd();
    // Blocks out of sight are guessed in height, and found out when they come into it.
    const observer = new ResizeObserver(toEnd);
    for (const block of box.current.children) observer.observe(block);
    return () => {
      observer.disconnect();
    };
  }, [shown, atEnd]);
  return (
    <Framed atEnd={atEnd} toEnd={toEnd}>
      <div
        ref={box}
        className="log-lines"
        role="log"
        aria-label="Log lines"
        // A region that scrolls must be within reach of the keyboard.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        onScroll={(event) => {
          const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
          setAtEnd(scrollHeight - scrollTop - clientHeight < NEAR_THE_END);
        }}
      >
        {shown.map((block) => (
          <LogBlock key={block.first} block={block} search={search} />
        ))}
        {shown.length === 0 && <p className="quiet dock-empty">No line holds “{search}”.</p>}
      </div>
    </Framed>
  );
}

function Framed({ atEnd, toEnd, children }: { atEnd: boolean; toEnd: () => void; children: ReactNode }) {
  return (
    <div className="log-frame">
      {children}
      {!atEnd && (
        <button type="button" className="btn btn-small log-end" onClick={toEnd}>
          <ArrowDownToLine size={12} aria-hidden /> To the end
        </button>
      )}
    </div>
  );
}
