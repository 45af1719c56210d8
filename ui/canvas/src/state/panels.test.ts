import { beforeEach, describe, expect, it, vi } from 'vitest';

/** The window, as the panels see it: narrow or wide. */
class Window {
  matches = false;
  private readonly listeners: (() => void)[] = [];

  readonly addEventListener = (_event: 'change', listener: () => void) => {
    this.listeners.push(listener);
  };

  become(width: 'narrow' | 'wide'): void {
    this.matches = width === 'narrow';
    for (const listener of this.listeners) listener();
  }
}

let window: Window;

/** The panels of a page that is opened in this window. */
async function opened() {
  vi.resetModules();
  vi.stubGlobal('matchMedia', () => window);
  const { panels, showPanel } = await import('./panels');
  const open = () => {
    const { palette, inspector } = panels.getState();
    return [palette && 'palette', inspector && 'inspector'].filter(Boolean).join(' and ');
  };
  return { open, showPanel };
}

beforeEach(() => {
  window = new Window();
});

describe('the side panels', () => {
  it('fold when the window becomes narrow, and return with its width', async () => {
    const { open } = await opened();
    expect(open()).toBe('palette and inspector');
    for (const width of ['narrow', 'wide', 'narrow', 'wide'] as const) {
      window.become(width);
      expect(open()).toBe(width === 'narrow' ? '' : 'palette and inspector');
    }
  });

  it('stay folded where a person has folded them', async () => {
    const { open, showPanel } = await opened();
    showPanel('palette', false);
    window.become('narrow');
    window.become('wide');
    expect(open()).toBe('inspector');
  });

  it('of a narrow window are open one at a time, and stay open when it becomes wide', async () => {
    const { open, showPanel } = await opened();
    showPanel('palette', false);
    showPanel('inspector', false);
    window.become('narrow');
    showPanel('inspector', true);
    showPanel('palette', true);
    expect(open()).toBe('palette');
    window.become('wide');
    expect(open()).toBe('palette');
    window.become('narrow');
    expect(open()).toBe('');
  });

  it('begin folded in a narrow window, and come with its width', async () => {
    window.matches = true;
    const { open } = await opened();
    expect(open()).toBe('');
    window.become('wide');
    expect(open()).toBe('palette and inspector');
  });
});
