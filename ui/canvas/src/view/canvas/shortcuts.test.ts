import { describe, expect, test } from 'vitest';

import { printed, shortcutFor, SHORTCUTS, type Chord } from './shortcuts';

function chord(keys: string): Chord {
  const parts = keys === '+' ? ['+'] : keys.split('+');
  const has = (name: string) => parts.includes(name);
  return { key: parts.at(-1)!, ctrlKey: has('Ctrl'), metaKey: has('Cmd'), shiftKey: has('Shift'), altKey: has('Alt') };
}

describe('shortcuts', () => {
  test('every chord of the table does what its line says', () => {
    for (const { keys, action } of SHORTCUTS) {
      if (action === null) continue;
      for (const text of keys) expect(shortcutFor(chord(text))?.action, text).toBe(action);
    }
  });

  test('no chord is in two lines', () => {
    const all = SHORTCUTS.filter(({ group }) => group !== 'Mouse').flatMap(({ keys }) => keys);
    expect(new Set(all).size).toBe(all.length);
  });

  test.each([
    ['z', null],
    ['Ctrl+z', 'undo'],
    ['Cmd+z', 'undo'],
    ['Ctrl+Shift+z', 'redo'],
    ['Ctrl+Alt+z', null],
    ['f', 'fit'],
    ['Shift+F', null],
    ['Ctrl+f', null],
    // A German keyboard has / and ? on keys with Shift, a US one has + there.
    ['Shift+/', 'add'],
    ['?', 'help'],
    ['Shift+?', 'help'],
    ['Ctrl+c', null],
    ['Ctrl+A', 'all'],
    ['Ctrl+Shift+A', 'arrange'],
    ['n', 'next'],
    ['Shift+N', 'previous'],
    ['ArrowLeft', 'move'],
    ['Shift+ArrowLeft', 'move-far'],
    ['Ctrl+ArrowLeft', null],
  ])('%s: %s', (keys, action) => {
    expect(shortcutFor(chord(keys))?.action ?? null).toBe(action);
  });

  test('plus, with and without Shift', () => {
    expect(shortcutFor({ ...chord('+'), shiftKey: true })?.action).toBe('zoom-in');
    expect(shortcutFor(chord('+'))?.action).toBe('zoom-in');
  });

  test('are printed as the keyboard prints them', () => {
    expect(printed('Ctrl+Shift+Z', false)).toBe('Ctrl+Shift+Z');
    expect(printed('Ctrl+Shift+Z', true)).toBe('⌘⇧Z');
    expect(printed('Shift+ArrowLeft', false)).toBe('Shift+←');
  });
});
