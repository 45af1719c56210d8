/** How large an element is. */

import { useLayoutEffect, useState, type RefObject } from 'react';

export function useBox(element: RefObject<HTMLElement | null>): { readonly width: number; readonly height: number } {
  const [box, setBox] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const watched = element.current;
    if (!watched) return undefined;
    const observer = new ResizeObserver(() => {
      setBox({ width: watched.clientWidth, height: watched.clientHeight });
    });
    observer.observe(watched);
    return () => {
      observer.disconnect();
    };
  }, [element]);
  return box;
}
