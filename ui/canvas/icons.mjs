// Writes engine/declare/icons.py: the icons that a node may be given by name, as SVG paths.
//
//     npm run icons                  writes the icons that are there again
//     npm run icons -- NAME...       adds others of Lucide's (https://lucide.dev/icons)

import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, '..', '..', 'engine', 'declare', 'icons.py');
const lucide = join(here, 'node_modules', 'lucide-react');
const WIDTH = 100;

/** SVG shapes as path data that can follow other path data, so a first move is absolute. */
const SHAPES = {
  path: ({ d }) => absolute(d),
  line: ({ x1, y1, x2, y2 }) => `M${x1} ${y1}L${x2} ${y2}`,
  polyline: ({ points }) => `M${points}`,
  polygon: ({ points }) => `M${points}z`,
  circle: ({ cx, cy, r }) => round(Number(cx), Number(cy), Number(r), Number(r)),
  ellipse: ({ cx, cy, rx, ry }) => round(Number(cx), Number(cy), Number(rx), Number(ry)),
  rect: ({ x = 0, y = 0, width, height, rx = 0, ry = rx }) => {
    const corner = (dx, dy) => (Number(rx) === 0 ? '' : `a${rx} ${ry} 0 0 1 ${dx} ${dy}`);
    const [across, down] = [Number(width) - 2 * Number(rx), Number(height) - 2 * Number(ry)];
    const start = `M${Number(x) + Number(rx)} ${y}`;
    const top = `h${across}${corner(rx, ry)}v${down}${corner(-rx, ry)}`;
    return `${start}${top}h${-across}${corner(-rx, -ry)}v${-down}${corner(rx, -ry)}z`;
  },
};

function round(cx, cy, rx, ry) {
  return `M${cx - rx} ${cy}a${rx} ${ry} 0 1 0 ${2 * rx} 0a${rx} ${ry} 0 1 0 ${-2 * rx} 0`;
}

function absolute(d) {
  const [, x, y, rest] = /^[Mm]\s*(-?\d*\.?\d+)[\s,]*(-?\d*\.?\d+)\s*(.*)$/s.exec(d);
  // What follows a move without a letter are lines, relative ones after a relative move.
  const lines = /^[-.\d]/.test(rest) ? (d[0] === 'm' ? 'l' : 'L') : '';
  return `M${x} ${y}${lines}${rest}`;
}

/** A path in pieces that fit into a line of source, cut at its spaces. */
function pieces(path) {
  const out = [''];
  for (const word of path.split(' ')) {
    const longer = out.at(-1) === '' ? word : `${out.at(-1)} ${word}`;
    if (longer.length <= WIDTH) out[out.length - 1] = longer;
    else out.push(word);
  }
  return out;
}

const [head, table] = readFileSync(target, 'utf8').split(/^ICONS\b.*$/m);
const known = [...(table ?? '').matchAll(/^ {4}"([a-z0-9-]+)": /gm)].map(([, name]) => name);
const names = [...new Set([...known, ...process.argv.slice(2)])].sort();
const entries = [];
for (const name of names) {
  const { __iconData } = await import(join(lucide, 'dist', 'esm', 'icons', `${name}.mjs`));
  const parts = __iconData.node.flatMap(([shape, attributes]) => pieces(SHAPES[shape](attributes)));
  entries.push(`    "${name}": (\n${parts.map((part) => `        "${part}",\n`).join('')}    ),\n`);
}
const { version } = JSON.parse(readFileSync(join(lucide, 'package.json'), 'utf8'));
const licence = readFileSync(join(lucide, 'LICENSE'), 'utf8');
writeFileSync(target, `${head}ICONS: Final[dict[str, tuple[str, ...]]] = {\n${entries.join('')}}\n`);
writeFileSync(
  join(dirname(target), 'icons-LICENSE.txt'),
  `The paths in icons.py are those of Lucide ${version}.\n\n${licence}`,
);
