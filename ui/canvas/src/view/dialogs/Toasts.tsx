/** What Python has to say. Good news goes by itself, bad news stays until it is read. */

import { CircleAlert, CircleCheck, Info, TriangleAlert, X } from 'lucide-react';
import { useEffect, useState, type CSSProperties } from 'react';

import { useApp, useCanvas } from '../../state/hooks';
import { usePanels } from '../../state/panels';
import { isPassing, type Toast } from '../../state/state';

const SHOWN_MS = 5000;

const SIGNS = { info: Info, success: CircleCheck, warning: TriangleAlert, error: CircleAlert } as const;

export function Toasts() {
  const toasts = useCanvas((s) => s.toasts);
  const dock = usePanels((p) => (p.dock === null ? 0 : p.dockHeight));
  return (
    <section
      className="toasts"
      aria-label="Notifications"
      style={{ '--above': `min(${dock}px, 60vh)` } as CSSProperties}
    >
      <div role="status" aria-live="polite">
        {toasts.filter(isPassing).map((toast) => (
          <ToastCard key={toast.id} toast={toast} />
        ))}
      </div>
      <div role="alert">
        {toasts
          .filter((toast) => !isPassing(toast))
          .map((toast) => (
            <ToastCard key={toast.id} toast={toast} />
          ))}
      </div>
    </section>
  );
}

function ToastCard({ toast }: { toast: Toast }) {
  const app = useApp();
  const { id, level, text, hint, node, parameter } = toast;
  const [held, setHeld] = useState(false);
  const goes = isPassing(toast) && !held;
  useEffect(() => {
    if (!goes) return undefined;
    const timer = setTimeout(() => {
      app.dismiss(id);
    }, SHOWN_MS);
    return () => {
      clearTimeout(timer);
    };
  }, [app, id, goes]);
  const Sign = SIGNS[level];
  return (
    // Reading it, with the mouse or the keyboard, holds it.
    <div
      className="toast"
      data-level={level}
      onPointerEnter={() => {
        setHeld(true);
      }}
      onPointerLeave={() => {
        setHeld(false);
      }}
      onFocus={() => {
        setHeld(true);
      }}
      onBlur={() => {
        setHeld(false);
      }}
    >
      <Sign size={16} aria-hidden />
      <div className="toast-text" dir="auto">
        <p>{text}</p>
        {hint && <p className="quiet">{hint}</p>}
        {node !== null && (
          <button
            type="button"
            className="link"
            onClick={() => {
              app.goTo(node, parameter);
              app.dismiss(id);
            }}
          >
            Go there
          </button>
        )}
      </div>
      <button
        type="button"
        className="btn btn-icon btn-tiny"
        aria-label="Dismiss"
        onClick={() => {
          app.dismiss(id);
        }}
      >
        <X size={13} aria-hidden />
      </button>
    </div>
  );
}
