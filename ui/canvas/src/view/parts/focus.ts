/** Where the keyboard's focus is. The canvas lives in a shadow root, which has a focus of its own. */

const FRAMES = 20;

/** The root that holds an element: the shadow root, or the document in tests. */
export function rootOf(element: Element): Document | ShadowRoot {
  const root = element.getRootNode();
  return root instanceof ShadowRoot ? root : element.ownerDocument;
}

export function focusedIn(element: Element): Element | null {
  return rootOf(element).activeElement;
}

/** Whether keys typed now belong to a text field. */
export function isTyping(element: EventTarget | null | undefined): boolean {
  if (!(element instanceof HTMLElement)) return false;
  if (element.isContentEditable || element instanceof HTMLTextAreaElement || element instanceof HTMLSelectElement)
    return true;
  return (
    element instanceof HTMLInputElement && !['checkbox', 'radio', 'button', 'range', 'file'].includes(element.type)
  );
}

/** Whether nothing anywhere on the page has the focus. */
export function focusIsNowhere(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}

export function focusCanvas(frame: HTMLElement): void {
  frame.focus({ preventScroll: true });
}

export function nodeElement(frame: HTMLElement, id: string): HTMLElement | null {
  return frame.querySelector(`.react-flow__node[data-id="${CSS.escape(id)}"]`);
}

/** Focus a node's card, as soon as it is drawn. */
export function focusNode(frame: HTMLElement, id: string, frames = FRAMES): void {
  const element = nodeElement(frame, id);
  // React Flow hides a card until it has measured it; what is hidden can't take the focus.
  if (element && element.style.visibility !== 'hidden') {
    element.focus({ preventScroll: true });
    return;
  }
  if (frames > 0) {
    requestAnimationFrame(() => {
      focusNode(frame, id, frames - 1);
    });
  }
}
