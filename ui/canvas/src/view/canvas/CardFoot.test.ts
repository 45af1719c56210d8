import { createElement } from 'react';
import { expect, test } from 'vitest';

import { light } from '../../rules/lights';
import { nodeStatus, runInfo } from '../../testing';
import { markup, texts } from '../parts/testing';
import { CardFoot, without } from './CardFoot';

test('the figure that the strip shows large is not said again', () => {
  const headline = { name: 'Validation AUC', value: 0.9583 };
  const output = { port: 'out', kind: 'TrainedModel', uri: 'u', figures: '', headline, view: '' };
  const made = 'Validation AUC 0.9583, Loss 0.0287';
  const status = nodeStatus('done', { made, outputs: [output] });
  const run = runInfo();
  const foot = (shown: typeof status) =>
    texts(
      markup(createElement(CardFoot, { id: 'a', light: light(shown, undefined, run, 0) }), {
        run,
        status: { a: shown },
      }),
    );
  expect(foot(status)).toContain('Loss 0.0287');
  expect(foot(status).join(' ')).not.toContain('AUC');
  expect(foot({ ...status, outputs: [] })).toEqual(expect.arrayContaining(['Validation AUC 0.9583', 'Loss 0.0287']));
});

test('only the figure of that name goes', () => {
  expect(without('AUC 0.7, AUC of a step 0.6, 12 rows', 'AUC')).toBe('AUC of a step 0.6, 12 rows');
  expect(without('Accuracy 1,024', 'Accuracy')).toBe('');
  expect(without('Loss 0.03, AUC 0.7 and 3 more', 'AUC')).toBe('Loss 0.03 and 3 more');
  expect(without('AUC 0.7 and 3 more', 'AUC')).toBe('3 more');
  expect(without('a reason, AUC unknown', 'AUC')).toBe('a reason, AUC unknown');
});
