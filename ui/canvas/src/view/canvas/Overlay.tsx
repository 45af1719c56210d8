/** What floats above the editor: menus, tooltips, the node that is being carried, and words for screen readers. */

import { useEffect } from 'react';
import { createPortal } from 'react-dom';

import { AddMenu } from './AddMenu';
import { ContextMenu } from './ContextMenu';
import { Floating } from './Floating';
import { rootOf } from '../parts/focus';
import { NodeIcon } from '../parts/NodeIcon';
import { useEditor } from './editor';
import { stage, useStage } from './stage';
import { hideTip } from './tips';

export function Overlay({ frame }: { frame: HTMLElement }) {
  const menu = useStage((s) => s.menu);
  const tip = useStage((s) => s.tip);
  const announcement = useStage((s) => s.announcement);
  useClosing(frame, menu !== null);
  return createPortal(
    <div className="canvas-overlay">
      {menu?.kind === 'add' && <AddMenu key={`${menu.screen.x} ${menu.screen.y}`} menu={menu} />}
      {menu?.kind === 'context' && <ContextMenu menu={menu} />}
      {tip && (
        <Floating className="tip" role="tooltip" anchor={tip.anchor} side={tip.side}>
          {tip.body}
        </Floating>
      )}
      <Ghost frame={frame} />
      <div className="for-screen-readers" role="status" aria-live="polite">
        {announcement}
      </div>
    </div>,
    frame.closest('.studio') ?? frame,
  );
}

/** A press anywhere else closes an open menu. */
function useClosing(frame: HTMLElement, open: boolean): void {
  useEffect(() => {
    if (!open) return;
    const root = rootOf(frame);
    const onPress = (event: Event) => {
      const [target] = event.composedPath();
      if (target instanceof Element && target.closest('.add-menu, .context-menu')) return;
      stage.setState({ menu: null });
    };
    window.addEventListener('pointerdown', onPress, true);
    root.addEventListener('wheel', hideTip, { passive: true });
    return () => {
      window.removeEventListener('pointerdown', onPress, true);
      root.removeEventListener('wheel', hideTip);
    };
  }, [frame, open]);
}

/** The node on its way from the palette, as large as it will be. */
function Ghost({ frame }: { frame: HTMLElement }) {
  const carried = useStage((s) => s.carried);
  const editor = useEditor();
  const aimed = useStage((s) => s.target !== null);
  if (!carried) return null;
  const studio = (frame.closest('.studio') ?? frame).getBoundingClientRect();
  const zoom = carried.overCanvas && editor ? editor.flow.getZoom() : 1;
  const x = carried.screen.x - studio.left;
  const y = carried.screen.y - studio.top;
  return (
    <div
      className="ghost"
      data-over={carried.overCanvas}
      data-aimed={aimed || undefined}
      style={{ transform: `translate(${x}px, ${y}px) scale(${zoom}) translate(-50%, -22px)` }}
    >
      <NodeIcon type={carried.type} size={16} />
      <span className="ghost-name">{carried.type.type}</span>
    </div>
  );
}
