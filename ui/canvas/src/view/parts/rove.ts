/** Lists and menus by keyboard: arrows, Home and End go from item to item. */

import { focusedIn } from './focus';

/** Move the focus among the items of `list` as `key` says; gives whether it said so. */
export function moveFocus(list: HTMLElement | null, selector: string, key: string): boolean {
  if (!list) return false;
  const items = [...list.querySelectorAll<HTMLElement>(selector)];
  const last = items.length - 1;
  const at = items.findIndex((item) => item === focusedIn(list));
  const goals = new Map([
    ['ArrowDown', at >= last ? 0 : at + 1],
    ['ArrowUp', at <= 0 ? last : at - 1],
    ['Home', 0],
    ['End', last],
  ]);
  const goal = goals.get(key);
  if (goal === undefined) return false;
  items[goal]?.focus();
  return true;
}
