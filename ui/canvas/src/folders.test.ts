/** Folders know each other in one direction only: each the ones named before it, so that none can be part of a circle. */

import { expect, test } from 'vitest';

const ORDER = [
  'document',
  'rules',
  'link',
  'volume',
  'volume/gl',
  'state',
  'view/parts',
  'view/look/volume',
  'view/look',
  'view/canvas',
  'view/palette',
  'view/inspector/fields',
  'view/inspector',
  'view/dialogs',
  'view/toolbar',
  'view/dock',
  'view',
  'view/picture',
  '',
];
/** Beside the folders, made from Python's models. */
const FOR_ALL = 'protocol';
/** What is for tests alone may look at every folder, and nothing else imports it. */
const FOR_TESTS = /\.test\.tsx?$|^(testing|arbitraries)\.ts$/;

const FILES: Record<string, string> = import.meta.glob('./**/*.{ts,tsx}', {
  query: '?raw',
  import: 'default',
  eager: true,
});

function folderOf(path: string): string {
  return path.split('/').slice(0, -1).join('/');
}

/** `../a` of a file in `b/c` is `b/a`. */
function resolved(folder: string, relative: string): string {
  return new URL(relative, `file:///${folder === '' ? '' : `${folder}/`}`).pathname.slice(1);
}

function importedBy(path: string, text: string): string[] {
  const found = text.matchAll(/\b(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return Array.from(found, ([, relative]) => resolved(folderOf(path), relative!));
}

test('a folder and those in it are named one after the other, so that the order holds for all of it', () => {
  const parents = ORDER.flatMap((folder) => folder.split('/').map((_, at, parts) => parts.slice(0, at + 1).join('/')));
  const apart = parents.filter((parent) => {
    const places = ORDER.flatMap((folder, place) => (`${folder}/`.startsWith(`${parent}/`) ? [place] : []));
    return places.at(-1)! - places[0]! >= places.length;
  });
  expect(apart).toEqual([]);
});

test('a folder imports only folders that are named before it', () => {
  const wrong: string[] = [];
  let seen = 0;
  for (const [key, text] of Object.entries(FILES)) {
    const path = key.replace('./', '');
    if (FOR_TESTS.test(path)) continue;
    const place = ORDER.indexOf(folderOf(path));
    if (place < 0) wrong.push(`${path} is in a folder without a place in this order`);
    for (const imported of importedBy(path, text)) {
      if (imported === FOR_ALL || imported.endsWith('.css')) continue;
      seen += 1;
      const its = ORDER.indexOf(folderOf(imported));
      if (its < 0 || its > place || FOR_TESTS.test(`${imported}.ts`)) wrong.push(`${path} imports ${imported}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(seen).toBeGreaterThan(500);
});
