/** A hundred lines of a log, drawn once. */

import { memo, type CSSProperties, type ReactNode } from 'react';

import type { LogLine } from '../../protocol';
import { sameBlock, type Block } from '../../rules/logs';
import { timeOfDay } from '../../rules/wording';

interface LogBlockProps {
  block: Block;
  search: string;
}

export const LogBlock = memo(
  function LogBlock({ block, search }: LogBlockProps) {
    return (
      <div className="log-block" style={{ '--lines': block.lines.length } as CSSProperties}>
        {block.lines.map((line, index) => (
          <Line key={block.first + index} line={line} search={search} />
        ))}
      </div>
    );
  },
  (a, b) => a.search === b.search && sameBlock(a.block, b.block),
);

function Line({ line, search }: { line: LogLine; search: string }) {
  return (
    <div className="log-line" data-level={line.level}>
      <span className="log-time">{line.time === null ? '' : timeOfDay(line.time)}</span>
      {(line.level === 'warning' || line.level === 'error') && <span className="log-level">{line.level}</span>}
      <span className="log-text">
        <Marked text={line.text} search={search.trim()} />
      </span>
    </div>
  );
}

/** `text` with what was searched for marked. */
function Marked({ text, search }: { text: string; search: string }) {
  if (search === '') return text;
  const out: ReactNode[] = [];
  const low = text.toLowerCase();
  const wanted = search.toLowerCase();
  let from = 0;
  // Lower case may be longer than the text in a few scripts: then nothing is marked rather than the wrong letters.
  if (low.length !== text.length) return text;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
    out.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    from = at + wanted.length;
  }
  out.push(text.slice(from));
  return out;
}
