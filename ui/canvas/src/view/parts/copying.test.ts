import { afterEach, expect, test, vi } from 'vitest';

import { App } from '../../state/app';
import { copy } from './copying';

afterEach(() => {
  vi.unstubAllGlobals();
});

async function said(clipboard: unknown): Promise<string[]> {
  vi.stubGlobal('navigator', { clipboard });
  const app = new App('me');
  await copy(app, 'some text', 'Copied.', 'Select the text and copy it by hand.');
  return app.state.toasts.map(({ level, text, hint }) => `${level}: ${text} ${hint}`.trim());
}

test('what was copied is said', async () => {
  const written: string[] = [];
  const writeText = (text: string) => Promise.resolve(written.push(text));
  expect(await said({ writeText })).toEqual(['success: Copied.']);
  expect(written).toEqual(['some text']);
});

test.each([
  ['the browser does not allow it', { writeText: () => Promise.reject(new Error('denied')) }],
  ['the page came over plain http, where there is no clipboard', undefined],
])('where %s, the person is told how to copy it', async (_why, clipboard) => {
  expect(await said(clipboard)).toEqual([
    'warning: The browser does not allow copying here. Select the text and copy it by hand.',
  ]);
});
