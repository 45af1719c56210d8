/** Looking at datasets within a page of the app: the page of a run shows with it what the run made. */

import { StrictMode, useState } from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { LookAt } from '../../protocol';
import { Datasets, type Step } from './Datasets';

function LookFrame({ views }: { views: LookAt['look'] }) {
  const [steps, setSteps] = useState<readonly Step[]>([]);
  return (
    <div className="studio look-frame">
      {steps.length > 0 && (
        <p className="look-step">{steps.map(({ title }) => title.replace(/^ · /, '')).join(' · ')}</p>
      )}
      <Datasets views={views} first={views[0]?.port ?? ''} row={null} steps={steps} onStep={setSteps} />
    </div>
  );
}

const roots = new WeakMap<Element, Root>();

/** Draws the datasets in `host`, anew only when they are others. Gives what takes them down. */
export function showDatasets(host: Element, { look }: LookAt): () => void {
  const shown = look.map(({ key }) => key).join(' ');
  host.classList.add('vf-look');
  let root = roots.get(host);
  if (!root) {
    root = createRoot(host);
    roots.set(host, root);
  }
  root.render(
    <StrictMode>
      <LookFrame key={shown} views={look} />
    </StrictMode>,
  );
  return () => {
    // Runs before each new value too: only a host that has left the page is taken down.
    queueMicrotask(() => {
      if (host.isConnected) return;
      roots.get(host)?.unmount();
      roots.delete(host);
    });
  };
}
