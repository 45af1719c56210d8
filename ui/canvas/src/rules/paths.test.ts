import { expect, test } from 'vitest';

import { crumbs, folderOf, inside, stem } from './paths';

test('from the root down to the folder', () => {
  expect(crumbs('/home/you/workspace/data/a', ['/home/you/workspace', '/mnt'])).toEqual([
    { name: '/home/you/workspace', path: '/home/you/workspace' },
    { name: 'data', path: '/home/you/workspace/data' },
    { name: 'a', path: '/home/you/workspace/data/a' },
  ]);
  expect(crumbs('/mnt', ['/mnt'])).toEqual([{ name: '/mnt', path: '/mnt' }]);
  expect(crumbs('/etc/x', ['/'])).toEqual([
    { name: '/', path: '/' },
    { name: 'etc', path: '/etc' },
    { name: 'x', path: '/etc/x' },
  ]);
});

test('of nested roots the nearest, and a name that only begins alike is no root', () => {
  expect(crumbs('/data/sets/a', ['/data', '/data/sets']).map(({ name }) => name)).toEqual(['/data/sets', 'a']);
  expect(crumbs('/database', ['/data'])).toEqual([{ name: '/database', path: '/database' }]);
});

test('other separators', () => {
  expect(crumbs('D:\\data\\a', ['D:\\data']).map(({ path }) => path)).toEqual(['D:\\data', 'D:\\data\\a']);
});

test('the folder of a path', () => {
  expect(['/a/b.npy', '/a', 'a', 'D:\\a\\b'].map(folderOf)).toEqual(['/a', '/', null, 'D:\\a']);
});

test('a name without the ending of its file', () => {
  const names = [
    '0000054.npy',
    'p1/scan 2.nii.gz',
    'north.npy/x00010-y00020',
    'v1.0',
    'trial.2026',
    '.npy',
    'scan.HDF5',
  ];
  expect(names.map(stem)).toEqual([
    '0000054',
    'p1/scan 2',
    'north.npy/x00010-y00020',
    'v1.0',
    'trial.2026',
    '.npy',
    'scan',
  ]);
});

test('what lies in a folder, and what is only called like it', () => {
  const paths = ['/data', '/data/a', '/data2/a', '/dat', 'D:\\scans\\a'];
  expect(paths.filter((path) => inside(path, '/data'))).toEqual(['/data', '/data/a']);
  expect(paths.filter((path) => inside(path, '/'))).toEqual(paths.slice(0, 4));
  expect(paths.filter((path) => inside(path, 'D:\\scans'))).toEqual(paths.slice(4));
});
