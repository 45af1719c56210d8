/** Looking at what a node made or has, over the editor. */

import { useState } from 'react';

import { closeDialog, type Looking } from '../../state/panels';
import { Dialog } from '../parts/Dialog';
import { Datasets, type Step } from './Datasets';

export function LookDialog({ looking: { title, views, port, row } }: { looking: Looking }) {
  // An older version of a table is one step further.
  const [steps, setSteps] = useState<readonly Step[]>([]);
  return (
    <Dialog title={`${title}${steps.at(-1)?.title ?? ''}`} onClose={closeDialog} size="full">
      <Datasets views={views} first={port} row={row} steps={steps} onStep={setSteps} />
    </Dialog>
  );
}
