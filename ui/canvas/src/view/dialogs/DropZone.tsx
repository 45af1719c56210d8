/** A pipeline's file may be dropped anywhere on the editor. */

import { Upload } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';

import { useApp } from '../../state/hooks';
import { importFile } from './importing';

export function DropZone() {
  const app = useApp();
  const place = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState(false);
  useEffect(() => {
    const studio = place.current?.closest<HTMLElement>('.studio');
    if (!studio) return undefined;
    // The canvas has drags of its own; only those that bring files are meant here.
    const bringsFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
    const onOver = (event: DragEvent) => {
      if (!bringsFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const onLeave = (event: DragEvent) => {
      const to = event.relatedTarget;
      if (!(to instanceof Node) || !studio.contains(to)) setOver(false);
    };
    const onDrop = (event: DragEvent) => {
      setOver(false);
      if (!bringsFiles(event)) return;
      event.preventDefault();
      for (const file of event.dataTransfer?.files ?? []) void importFile(app, file);
    };
    studio.addEventListener('dragover', onOver);
    studio.addEventListener('dragleave', onLeave);
    studio.addEventListener('drop', onDrop);
    return () => {
      studio.removeEventListener('dragover', onOver);
      studio.removeEventListener('dragleave', onLeave);
      studio.removeEventListener('drop', onDrop);
    };
  }, [app]);
  return (
    <div ref={place} className="drop-zone" hidden={!over} aria-hidden>
      <span>
        <Upload size={18} /> Drop to import the pipeline
      </span>
    </div>
  );
}
