import { expect, test } from 'vitest';

import { factText } from './facts';

test.each([
  ['volumes', 2000, '2,000 volumes'],
  ['volumes', 1, '1 volume'],
  ['bytes', 720_000_000, '720 MB'],
  ['version', 1, 'version 1'],
  ['loss', 1, 'loss 1'],
  ['dtype', 'float32', 'float32'],
  // Three decimals would make nothing of these.
  ['val_loss', 0.0004, 'val loss 0.0004'],
  ['learning_rate', 0.00001235, 'learning rate 0.00001235'],
  ['mean', -0.000123456, 'mean -0.0001235'],
  ['loss', 3.4567, 'loss 3.457'],
])('%s %s is %s', (name, value, text) => {
  expect(factText(name, value)).toBe(text);
});
