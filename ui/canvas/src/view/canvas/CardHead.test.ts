import { createElement } from 'react';
import { expect, test } from 'vitest';

import { markup } from '../parts/testing';
import { Breakable } from './CardHead';

test.each([
  ['VolumeFolder', 'Volume<wbr/>Folder'],
  ['TrainResNet3D', 'Train<wbr/>Res<wbr/>Net3D'],
  ['my_own-node.v2', 'my_<wbr/>own-<wbr/>node.<wbr/>v2'],
  ['Train ResNet-18', 'Train ResNet-18'],
  ['', ''],
])('%s goes on in a second line where a word begins', (text, html) => {
  expect(markup(createElement(Breakable, { text }))).toBe(html);
});
