/** For tests: the HTML of a view, with a state as it stands. */

import { createElement, type ReactNode } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { createStore } from 'zustand/vanilla';

import type { App } from '../../state/app';
import { AppContext } from '../../state/hooks';
import { INITIAL, type State } from '../../state/state';

export function markup(view: ReactNode, state: Partial<State> = {}): string {
  const app = { store: createStore(() => ({ ...INITIAL, ...state })) } as unknown as App;
  return renderToStaticMarkup(createElement(AppContext, { value: app }, view));
}

/** What a person reads of it, in pieces. */
export function texts(html: string): string[] {
  return html.split(/<[^>]*>/).filter((text) => text.trim() !== '');
}
