/** Two versions of a pipeline in one picture: what was added, removed and changed, by colour, line and sign. */

import { boxOf } from '../../document/annotations';
import type { Change, Difference } from '../../document/difference';
import { end } from '../../document/ends';
import { own } from '../../document/own';
import type { Doc, DocNode } from '../../protocol';
import { FOOT, HEAD, ROW, WIDTH } from '../canvas/size';

const HEIGHT = HEAD + ROW + FOOT;
const SPACE = 40;
const SIGNS: Readonly<Record<Change, string>> = { added: '+', removed: '−', changed: '~', same: '' };

interface Props {
  before: Doc;
  after: Doc;
  found: Difference;
}

export function DifferencePicture({ before, after, found }: Props) {
  const nodes = [...found.nodes].flatMap(([id, change]) => {
    const node = own(after.nodes, id) ?? own(before.nodes, id);
    return node ? [{ id, change, node }] : [];
  });
  const drawn = [...found.annotations].flatMap(([id, change]) => {
    const item = own(after.annotations, id) ?? own(before.annotations, id);
    return item ? [{ id, change, item }] : [];
  });
  const places = new Map(nodes.map(({ id, node }) => [id, node.position]));
  const boxes = [
    ...nodes.map(({ node }) => ({ ...node.position, width: WIDTH, height: HEIGHT })),
    ...drawn.map(({ item }) => boxOf(item)),
  ];
  if (boxes.length === 0) return <p className="quiet padded">An empty pipeline.</p>;
  const left = Math.min(...boxes.map(({ x }) => x)) - SPACE;
  const top = Math.min(...boxes.map(({ y }) => y)) - SPACE;
  const width = Math.max(...boxes.map((box) => box.x + box.width)) + SPACE - left;
  const height = Math.max(...boxes.map((box) => box.y + box.height)) + SPACE - top;
  return (
    <svg
      className="difference"
      viewBox={[left, top, width, height].join(' ')}
      role="img"
      aria-label="The two versions in one picture"
    >
      {drawn.map(({ id, change, item }) => (
        <g key={id} data-change={change} className="difference-annotation">
          <rect {...boxOf(item)} rx={12} />
          <text x={item.position.x + 14} y={item.position.y + 30}>
            {cut(`${SIGNS[change]} ${item.text}`, Math.floor(item.width / 12))}
          </text>
        </g>
      ))}
      {[...found.edges].map(([key, change]) => {
        const edge = own(after.edges, key) ?? own(before.edges, key);
        const from = places.get(end(edge?.source ?? '').node);
        const to = places.get(end(edge?.target ?? '').node);
        if (!from || !to) return null;
        const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEAD + ROW / 2, to.x, to.y + HEAD + ROW / 2];
        const bend = Math.max(40, Math.abs(x2 - x1) / 2);
        const path = `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
        return <path key={key} data-change={change} className="difference-wire" d={path} />;
      })}
      {nodes.map(({ id, change, node }) => (
        <NodeBox key={id} id={id} change={change} node={node} />
      ))}
    </svg>
  );
}

function NodeBox({ id, change, node }: { id: string; change: Change; node: DocNode }) {
  const { x, y } = node.position;
  return (
    <g data-change={change} data-node={id} className="difference-node">
      <title>{`${node.title || node.type} (${id}): ${change}`}</title>
      <rect x={x} y={y} width={WIDTH} height={HEIGHT} rx={10} />
      <text x={x + 16} y={y + 34}>
        {cut(node.title || node.type, 18)}
      </text>
      <text className="difference-type" x={x + 16} y={y + 62}>
        {cut(id, 26)}
      </text>
      <text className="difference-sign" x={x + WIDTH - 16} y={y + HEIGHT - 16} textAnchor="end">
        {change === 'same' ? '' : `${SIGNS[change]} ${change}`}
      </text>
    </g>
  );
}

function cut(text: string, most: number): string {
  const letters = Array.from(text);
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}…` : text;
}
