/**
 * Text while it is being typed. The field shows what the person types, letter for letter, and what the
 * document holds as soon as they are done: so the caret never jumps, `1.` can become `1.5`, and what
 * others change shows in every field that nobody is typing in.
 */

import { createContext, useContext, useState, type KeyboardEvent } from 'react';

import { useApp } from '../../state/hooks';
import { isTyping } from './focus';

/** Counts undos made from within a form: what was being typed is over then, and the document shows again. */
export const FormEpoch = createContext(0);

export interface Typed {
  readonly text: string;
  /** A letter was typed. */
  readonly type: (text: string) => void;
  /** The person is done, or has chosen a value in another way. */
  readonly end: () => void;
}

export function useTyped(shown: string, change: (text: string) => void): Typed {
  const epoch = useContext(FormEpoch);
  const [typed, setTyped] = useState<{ text: string; epoch: number } | null>(null);
  return {
    text: typed?.epoch === epoch ? typed.text : shown,
    type: (text) => {
      setTyped({ text, epoch });
      change(text);
    },
    end: () => {
      setTyped(null);
    },
  };
}

/**
 * Undo in a form. In a text field the browser would take letters back one by one, and the document
 * would keep each as a step; so the keys go to the document's own undo, and the fields show it.
 */
export function useFormUndo(): { epoch: number; onKeyDown: (event: KeyboardEvent) => void } {
  const app = useApp();
  const [epoch, setEpoch] = useState(0);
  const onKeyDown = (event: KeyboardEvent) => {
    const back = meansUndo(event);
    if (back === null || !isTyping(event.target)) return;
    event.preventDefault();
    event.stopPropagation();
    app.seal();
    if (back) app.undo();
    else app.redo();
    setEpoch(epoch + 1);
  };
  return { epoch, onKeyDown };
}

/** true: undo, false: redo, null: neither. */
function meansUndo(event: KeyboardEvent): boolean | null {
  if ((!event.ctrlKey && !event.metaKey) || event.altKey) return null;
  const key = event.key.toLowerCase();
  if (key === 'z') return !event.shiftKey;
  return key === 'y' && !event.shiftKey ? false : null;
}
