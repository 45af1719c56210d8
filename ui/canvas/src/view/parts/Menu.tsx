/** A button that opens a menu, for mouse and keyboard. */

import { useId, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';

import { moveFocus } from './rove';

export interface MenuItem {
  readonly label: string;
  readonly icon?: ReactNode;
  /** Shown small at the right: a shortcut, a value. */
  readonly hint?: string;
  /** Why it can't be chosen now; nothing or "" when it can. */
  readonly unavailable?: string;
  readonly danger?: boolean;
  readonly onSelect: () => void;
}

/** Items in groups, which lines keep apart. */
export type MenuGroups = readonly (readonly MenuItem[])[];

interface MenuProps {
  label: string;
  title?: string;
  className?: string;
  align?: 'left' | 'right';
  /** Asked for when the menu opens. */
  groups: () => MenuGroups;
  disabled?: boolean;
  children: ReactNode;
}

export function Menu({ label, title, className = '', align = 'left', groups, disabled, children }: MenuProps) {
  const [open, setOpen] = useState(false);
  const trigger = useRef<HTMLButtonElement>(null);
  const id = useId();
  const close = () => {
    setOpen(false);
    trigger.current?.focus();
  };
  return (
    <div
      className="menu-anchor"
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
    >
      <button
        ref={trigger}
        type="button"
        className={className}
        aria-label={label}
        title={title}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        disabled={disabled}
        onClick={() => {
          setOpen(!open);
        }}
        onKeyDown={(event) => {
          if (event.key !== 'ArrowDown') return;
          event.preventDefault();
          setOpen(true);
        }}
      >
        {children}
      </button>
      {open && <MenuList id={id} label={label} align={align} groups={groups()} trigger={trigger} close={close} />}
    </div>
  );
}

interface MenuListProps {
  id: string;
  label: string;
  align: 'left' | 'right';
  groups: MenuGroups;
  trigger: { readonly current: HTMLElement | null };
  close: () => void;
}

const GAP = 4;

/** In the browser's top layer, so that no scrolling panel cuts it off. */
function MenuList({ id, label, align, groups, trigger, close }: MenuListProps) {
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = list.current;
    if (!menu || !trigger.current) return;
    if ('popover' in menu) menu.showPopover();
    const button = trigger.current.getBoundingClientRect();
    const { width, height } = menu.getBoundingClientRect();
    const below = button.bottom + GAP + height <= window.innerHeight || button.top < height;
    const left = align === 'left' ? button.left : button.right - width;
    menu.style.left = `${Math.max(GAP, Math.min(left, window.innerWidth - width - GAP))}px`;
    menu.style.top = `${below ? button.bottom + GAP : button.top - GAP - height}px`;
    menu.querySelector<HTMLElement>('[role=menuitem]')?.focus();
  }, [align, trigger]);
  const onKeyDown = (event: KeyboardEvent) => {
    const moved = moveFocus(list.current, '[role=menuitem]', event.key);
    if (event.key === 'Escape') close();
    if (moved || event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    <div
      ref={list}
      id={id}
      popover="manual"
      role="menu"
      tabIndex={-1}
      aria-label={label}
      className="menu"
      onKeyDown={onKeyDown}
    >
      {groups
        .filter((group) => group.length > 0)
        .map((group, index) => (
          <div role="group" key={index}>
            {group.map((item) => (
              <MenuButton key={item.label} item={item} close={close} />
            ))}
          </div>
        ))}
    </div>
  );
}

function MenuButton({ item, close }: { item: MenuItem; close: () => void }) {
  const unavailable = item.unavailable !== undefined && item.unavailable !== '';
  return (
    <button
      type="button"
      role="menuitem"
      tabIndex={-1}
      className={item.danger ? 'menu-item menu-danger' : 'menu-item'}
      aria-disabled={unavailable}
      title={item.unavailable}
      onClick={() => {
        if (unavailable) return;
        close();
        item.onSelect();
      }}
      onPointerMove={(event) => {
        event.currentTarget.focus({ preventScroll: true });
      }}
    >
      <span className="menu-icon" aria-hidden>
        {item.icon}
      </span>
      <span className="menu-label">{item.label}</span>
      {item.hint && <span className="menu-hint">{item.hint}</span>}
    </button>
  );
}
