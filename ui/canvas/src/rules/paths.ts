/** Paths of the machine that runs Voxelflow, taken apart for the file browser. */

import { own } from '../document/own';
import { wholeReference } from '../document/references';
import type { Doc } from '../protocol';

export interface Crumb {
  readonly name: string;
  readonly path: string;
}

/** The folders from the root that holds `path` down to it; the root is named whole. */
export function crumbs(path: string, roots: readonly string[]): Crumb[] {
  const root = roots.filter((r) => inside(path, r)).sort((a, b) => b.length - a.length)[0];
  if (root === undefined) return [{ name: path, path }];
  const separator = separatorOf(path);
  const names = path
    .slice(root.length)
    .split(separator)
    .filter((name) => name !== '');
  const base = root.endsWith(separator) ? root.slice(0, -1) : root;
  return [
    { name: root, path: root },
    ...names.map((name, index) => ({ name, path: [base, ...names.slice(0, index + 1)].join(separator) })),
  ];
}

/** Whether a path is a folder, or lies in it. */
export function inside(path: string, root: string): boolean {
  const separator = separatorOf(root);
  return path === root || path.startsWith(root.endsWith(separator) ? root : root + separator);
}

function separatorOf(path: string): string {
  return path.includes('\\') && !path.includes('/') ? '\\' : '/';
}

/** The path that a node's parameter holds, or takes from a parameter of the pipeline; "" when there is none. */
export function pathAt(doc: Doc, node: string | null, parameter: string | null): string {
  const value = own(own(doc.nodes, node ?? '')?.params ?? {}, parameter ?? '');
  const name = wholeReference(value);
  const found = name === null ? value : own(doc.parameters, name)?.value;
  return typeof found === 'string' ? found : '';
}

/** The folder that a path lies in; null for a bare name. */
export function folderOf(path: string): string | null {
  const at = Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\'));
  if (at < 0) return null;
  return at === 0 ? path.slice(0, 1) : path.slice(0, at);
}

/** A file's name without what it ends in; what is no ending of a file stays. */
export function stem(name: string): string {
  return name.replace(/(?<=[^/\\])\.[a-z][a-z0-9]{0,5}(\.gz)?$/i, '');
}
