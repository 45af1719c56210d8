/** A file as it is. A page runs no scripts and loads nothing. */

import type { PanelInfo } from '../../protocol';
import { address } from '../parts/ask';

export function DocumentPanel({ dataset, panel }: { dataset: string; panel: PanelInfo }) {
  return (
    <iframe
      className="look-document"
      title={panel.title}
      sandbox=""
      src={address(dataset, panel.name, 'file')}
      referrerPolicy="no-referrer"
    />
  );
}
