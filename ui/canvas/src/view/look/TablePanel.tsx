/** Rows, a page at a time. */

import { ChevronLeft, ChevronRight } from 'lucide-react';
import { useRef } from 'react';

import type { GalleryItem, PanelInfo, TableColumn, TablePage, TableRow } from '../../protocol';
import { count } from '../../rules/figures';
import { size } from '../../rules/wording';
import { address, useAsked } from '../parts/ask';
import { ChoiceFields, inQuery } from './Choices';
import { choosing, scrollOf, useScrollBack, type Move, type Place } from './place';
import { Waiting } from '../parts/Waiting';

const PAGE = 50;

interface Props {
  dataset: string;
  panel: PanelInfo;
  place: Place;
  onMove: Move;
  onRow: (found: { items: readonly GalleryItem[]; at: number }) => void;
  onOpen: (key: string, title: string) => void;
}

export function TablePanel({ dataset, panel, place, onMove, onRow, onOpen }: Props) {
  const { chosen, offset } = place;
  const box = useRef<HTMLDivElement>(null);
  const asked = useAsked<TablePage>(
    address(dataset, panel.name, 'content', { offset, count: PAGE, ...inQuery(chosen) }),
  );
  const page = asked.answer;
  useScrollBack(box, place, onMove);
  const toFirst = () => {
    onMove({ offset: 0 });
  };
  if (page === null) return <Waiting asked={asked} as="table" onBack={offset > 0 ? toFirst : undefined} />;
  const items = page.rows.flatMap(({ volume, cells: [id, label] }) =>
    volume === null ? [] : [{ row: volume, id: String(id), label: String(label ?? ''), note: '' }],
  );
  const open = (row: TableRow) => {
    if (row.opens !== null) onOpen(row.opens, `${page.columns[0]?.title ?? ''} ${row.cells[0] ?? ''}`);
    else if (row.volume !== null) {
      onMove({ scroll: scrollOf(box.current) });
      onRow({ items, at: items.findIndex((item) => item.row === row.volume) });
    }
  };
  return (
    <>
      <div className="look-bar">
        <ChoiceFields
          dataset={dataset}
          panel={panel.name}
          chosen={chosen}
          onChoose={(next) => {
            onMove(choosing(next));
          }}
        />
        <Pages
          page={page}
          onChange={(next) => {
            onMove({ offset: next });
          }}
        />
      </div>
      {page.note !== '' && <p className="quiet">{page.note}</p>}
      <div className="look-table" ref={box} data-waiting={asked.waiting || undefined}>
        <table>
          <thead>
            <tr>
              {page.columns.map((column) => (
                <th key={column.title} scope="col">
                  {column.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {page.rows.map((row, at) => (
              <tr key={page.offset + at}>
                {row.cells.map((cell, index) => {
                  const column = page.columns[index] ?? { title: '', unit: '' };
                  const opens = index === 0 && (row.opens !== null || row.volume !== null);
                  return (
                    <td key={column.title} data-number={typeof cell === 'number' || undefined}>
                      {opens ? (
                        <button
                          type="button"
                          className="link"
                          onClick={() => {
                            open(row);
                          }}
                        >
                          {written(cell, column)}
                        </button>
                      ) : (
                        written(cell, column)
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
        {page.rows.length === 0 && <p className="quiet padded">No rows.</p>}
      </div>
    </>
  );
}

function Pages({ page, onChange }: { page: TablePage; onChange: (offset: number) => void }) {
  const last = page.offset + page.rows.length;
  return (
    <div className="look-pages">
      <span className="quiet" role="status">
        {page.total === 0 ? '0 rows' : `${count(page.offset + 1)} to ${count(last)} of ${count(page.total)}`}
      </span>
      <button
        type="button"
        className="btn btn-icon"
        aria-label="Page before"
        disabled={page.offset === 0}
        onClick={() => {
          onChange(Math.max(0, page.offset - PAGE));
        }}
      >
        <ChevronLeft size={16} aria-hidden />
      </button>
      <button
        type="button"
        className="btn btn-icon"
        aria-label="Next page"
        disabled={last >= page.total}
        onClick={() => {
          onChange(page.offset + PAGE);
        }}
      >
        <ChevronRight size={16} aria-hidden />
      </button>
    </div>
  );
}

function written(cell: TableRow['cells'][number], { unit }: TableColumn): string {
  if (cell === null) return '';
  if (typeof cell === 'string') return cell;
  if (unit === 'bytes') return size(cell);
  if (unit === 'time') return new Date(cell * 1000).toLocaleString('sv-SE').slice(0, 16);
  return Number.isInteger(cell) ? cell.toLocaleString('en-US') : cell.toPrecision(4);
}
