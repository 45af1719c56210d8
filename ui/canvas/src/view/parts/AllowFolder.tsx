/** A folder outside of those that the workspace's pipelines may use: allowed where it is reported, after one question. */

import { FolderCheck } from 'lucide-react';

import type { Problem } from '../../protocol';
import { pathAt } from '../../rules/paths';
import { useCanvas } from '../../state/hooks';
import { openDialog } from '../../state/panels';

/** What the engine reports of such a path. */
const OUTSIDE = 'VF308';

export function AllowFolder({ problem }: { problem: Pick<Problem, 'code' | 'node' | 'parameter'> }) {
  const path = useCanvas((s) => (problem.code === OUTSIDE ? pathAt(s.doc, problem.node, problem.parameter) : ''));
  if (path === '') return null;
  return (
    <button
      type="button"
      className="btn btn-small allow-folder"
      onClick={() => {
        openDialog({ kind: 'allow', path });
      }}
    >
      <FolderCheck size={13} aria-hidden /> Allow this folder…
    </button>
  );
}
