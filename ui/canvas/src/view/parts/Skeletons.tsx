/** The outline of what is on its way, as large as that will be, so that nothing moves when it comes. */

import type { PanelInfo } from '../../protocol';

/** Of a dataset nothing is known yet, not even its panels. */
export type Awaited = PanelInfo['kind'] | 'dataset';

/** More than a large window has room for: what does not fit is cut off, and nothing is scrolled. */
const TILES = 96;
const ROWS = 48;
const CHARTS = 4;
const TABS = [52, 44, 60];

export function Skeleton({ of }: { of: Awaited }) {
  return (
    <div className="skeleton-room" role="status" aria-label="Loading">
      {of === 'dataset' ? <Head /> : <Outline of={of} />}
    </div>
  );
}

function Outline({ of }: { of: PanelInfo['kind'] }) {
  switch (of) {
    case 'gallery':
      return <Tiles />;
    case 'table':
      return <Rows />;
    case 'charts':
      return <Figures />;
    case 'document':
      return <span className="skeleton skeleton-rest" />;
  }
}

function Head() {
  return (
    <>
      <div className="look-head">
        <div className="tabs">
          {TABS.map((width) => (
            <span key={width} className="tab">
              <span className="skeleton" style={{ width }} />
            </span>
          ))}
        </div>
        <span className="skeleton skeleton-wide" />
      </div>
      <span className="skeleton skeleton-rest" />
    </>
  );
}

function Tiles() {
  return (
    <div className="thumbs">
      {several(TILES, (at) => (
        <div key={at} className="thumb thumb-coming">
          <span className="skeleton skeleton-square" />
          <span className="skeleton skeleton-word" />
        </div>
      ))}
    </div>
  );
}

function Rows() {
  return (
    <>
      <div className="look-bar" />
      <div className="look-table look-table-coming">
        {several(ROWS, (at) => (
          <span key={at} className="skeleton skeleton-word" style={{ width: `${40 + ((at * 29) % 50)}%` }} />
        ))}
      </div>
    </>
  );
}

function Figures() {
  return (
    <div className="charts">
      {several(CHARTS, (at) => (
        <div key={at} className="chart">
          <span className="skeleton skeleton-word skeleton-wide" />
          <span className="skeleton skeleton-plot" />
        </div>
      ))}
    </div>
  );
}

function several<T>(count: number, draw: (at: number) => T): T[] {
  return Array.from({ length: count }, (_, at) => draw(at));
}
