/** A modal dialog. The browser's own element keeps the focus inside and everything behind it out of reach. */

import { X } from 'lucide-react';
import { useEffect, useId, useRef, type KeyboardEvent, type ReactNode } from 'react';

import { rootOf } from './focus';

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** What the buttons below the content do. */
  footer?: ReactNode;
  size?: 'small' | 'medium' | 'large' | 'full';
  /** Enter in a field does what the main button does. */
  onSubmit?: () => void;
}

export function Dialog({ title, onClose, children, footer, size = 'small', onSubmit }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useFocusInside(element);
  const content = (
    <>
      <header className="dialog-head">
        <h2 id={heading}>{title}</h2>
        <button type="button" className="btn btn-icon" aria-label="Close" onClick={onClose}>
          <X size={16} aria-hidden />
        </button>
      </header>
      <div className="dialog-body">{children}</div>
      {footer && <footer className="dialog-foot">{footer}</footer>}
    </>
  );
  return (
    // Escape comes as a cancel event, and a press beside the dialog is a mouse's way to say the same.
    <dialog
      ref={element}
      className={`dialog dialog-${size}`}
      aria-modal="true"
      aria-labelledby={heading}
      onCancel={(event) => {
        // A file chooser's cancel bubbles up to here.
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        onClose();
      }}
      onPointerDown={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
      onKeyDown={keepToItself}
    >
      {onSubmit ? (
        <form
          className="dialog-content"
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          {content}
        </form>
      ) : (
        <div className="dialog-content">{content}</div>
      )}
    </dialog>
  );
}

/** Keys pressed in a dialog mean nothing to the canvas behind it, and Ctrl+S must not save the web page. */
function keepToItself(event: KeyboardEvent): void {
  event.stopPropagation();
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') event.preventDefault();
}

function useFocusInside(element: { readonly current: HTMLDialogElement | null }): void {
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return undefined;
    const root = rootOf(dialog);
    const before = root.activeElement;
    dialog.showModal();
    dialog.querySelector<HTMLElement>('[data-autofocus]')?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, [element]);
}
