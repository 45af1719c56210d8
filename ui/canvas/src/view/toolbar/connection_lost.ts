/**
 * Whether Streamlit shows that it lost its server. It does so in a box over the page that takes the keyboard. The
 * canvas goes on working meanwhile, so the page's style sheet hides the box, here it is closed, what had the
 * keyboard keeps it, and a banner shows the state.
 */

import { useEffect, useState } from 'react';

const STATE = 'data-test-connection-state';
const BOX = '[data-testid="stDialog"]';

export function useConnectionLost(): boolean {
  const [lost, setLost] = useState(false);
  useEffect(() => {
    let held: HTMLElement | null = null;
    const hold = (event: FocusEvent) => {
      const [item] = event.composedPath();
      if (item instanceof HTMLElement && !item.closest(BOX)) held = item;
    };
    const app = document.querySelector(`[${STATE}]`);
    const look = () => {
      if (app?.getAttribute(STATE) === 'CONNECTED') setLost(false);
      else if (closeBox()) setLost(true);
      else if (held?.isConnected && document.activeElement === document.body) held.focus({ preventScroll: true });
    };
    document.addEventListener('focusin', hold);
    const observer = new MutationObserver(look);
    observer.observe(document.body, { childList: true });
    if (app) observer.observe(app, { attributes: true, attributeFilter: [STATE] });
    look();
    return () => {
      document.removeEventListener('focusin', hold);
      observer.disconnect();
    };
  }, []);
  return lost;
}

/** Close the box, if it is there. */
function closeBox(): boolean {
  const boxes = document.querySelectorAll(`body > ${BOX}`);
  const box = [...boxes].find((item) => item.querySelector('h2')?.textContent === 'Connection error');
  box?.querySelector<HTMLElement>('button[aria-label="Close"]')?.click();
  return box !== undefined;
}
