/** The charts of a panel, drawn here: bars, histograms, lines, matrices, scatters. */

import { useState } from 'react';

import type { Chart, Charts, PanelInfo } from '../../protocol';
import { figureText } from '../../rules/runs';
import { address, useAsked } from '../parts/ask';
import { BARS_WIDTH, isOfCounts, isReference, namedBars, rangesOf, roomOf, spokenName } from './charts';
import { ChoiceFields, inQuery, type Chosen } from './Choices';
import { scale, type Scale } from './scale';
import { Waiting } from '../parts/Waiting';

export function ChartPanel({ dataset, panel }: { dataset: string; panel: PanelInfo }) {
  const [chosen, setChosen] = useState<Chosen>({});
  const asked = useAsked<Charts>(address(dataset, panel.name, 'content', inQuery(chosen)));
  return (
    <>
      <div className="look-bar look-bar-optional">
        <ChoiceFields dataset={dataset} panel={panel.name} chosen={chosen} onChoose={setChosen} />
      </div>
      {asked.answer === null ? (
        <Waiting asked={asked} as="charts" />
      ) : (
        <div className="charts-room">
          <div className="charts">
            {asked.answer.charts.map((chart) => (
              <Figure key={chart.title} chart={chart} />
            ))}
            {asked.answer.charts.length === 0 && <p className="quiet">Nothing to draw.</p>}
          </div>
        </div>
      )}
    </>
  );
}

export function Figure({ chart }: { chart: Chart }) {
  const lying = chart.kind === 'bars' && namedBars(chart.x.map(String)) === null;
  return (
    <figure className="chart" data-kind={chart.kind} data-room={roomOf(chart)}>
      <figcaption>{chart.title}</figcaption>
      {chart.kind === 'matrix' ? (
        <Matrix chart={chart} />
      ) : lying ? (
        <LyingBars chart={chart} />
      ) : (
        <Plot chart={chart} />
      )}
      {chart.note !== '' && <p className="quiet">{chart.note}</p>}
    </figure>
  );
}

/** Lines that have one colour in all charts, whichever of them a chart has. */
const SETS = ['training', 'validation', 'test'];

function colourOf(chart: Chart, at: number): number | 'reference' {
  if (isReference(chart, at)) return 'reference';
  const names = Object.keys(chart.series);
  const name = names[at] ?? '';
  return names.every((each) => SETS.includes(each)) ? SETS.indexOf(name) : at % 6;
}

const HEIGHT = 150;
const LEFT = 46;
const BOTTOM = 24;
const TOP = 8;
const RIGHT = 10;
const WIDTH = LEFT + BARS_WIDTH + RIGHT;
/** The height of a drawing whose axes are of one length. */
const SQUARE = TOP + BARS_WIDTH + BOTTOM;

function Plot({ chart }: { chart: Chart }) {
  const lines = chart.kind === 'lines';
  const series = Object.entries(chart.series);
  const scatter = chart.kind === 'scatter';
  const height = scatter ? SQUARE : HEIGHT;
  const ranges = rangesOf(chart);
  const y = scale(...ranges.y, height - BOTTOM, TOP, isOfCounts(chart));
  const numbers = chart.x.filter((value) => typeof value === 'number');
  // There is no epoch and a half.
  const whole = lines && numbers.length > 0 && numbers.every(Number.isInteger);
  const x = scale(...ranges.x, LEFT, WIDTH - RIGHT, whole);
  return (
    <>
      {chart.y_title !== '' && <p className="chart-y-title quiet">{chart.y_title}</p>}
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={spokenName(chart)}>
        {y.ticks.map((tick) => (
          <g key={tick}>
            <line className="chart-grid" x1={LEFT} x2={WIDTH - RIGHT} y1={y.at(tick)} y2={y.at(tick)} />
            <text className="chart-tick" x={LEFT - 5} y={y.at(tick)} dy="0.35em" textAnchor="end">
              {brief(tick)}
            </text>
          </g>
        ))}
        {chart.kind === 'bars' ? <Bars chart={chart} y={y} /> : null}
        {chart.kind === 'histogram' ? <Histogram chart={chart} x={x} y={y} /> : null}
        {lines &&
          series.map(([name, found], at) => (
            <Line key={name} colour={colourOf(chart, at)} x={x} y={y} xs={chart.x} ys={found} />
          ))}
        {scatter && <Scatter chart={chart} x={x} y={y} ends={ranges.x} />}
        {chart.kind !== 'bars' &&
          x.ticks.map((tick) => (
            <text key={tick} className="chart-tick" x={x.at(tick)} y={height - 8} textAnchor="middle">
              {brief(tick)}
            </text>
          ))}
      </svg>
      {chart.x_title !== '' && <p className="chart-x-title quiet">{chart.x_title}</p>}
      {lines && series.length > 0 && (
        <ul className="chart-legend">
          {series.map(([name], at) => (
            <li key={name} data-series={colourOf(chart, at)}>
              {name}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function Bars({ chart, y }: { chart: Chart; y: Scale }) {
  const values = Object.values(chart.series)[0] ?? [];
  const width = BARS_WIDTH / Math.max(1, values.length);
  const named = namedBars(chart.x.map(String)) ?? 1;
  return values.map((value, at) => (
    <g key={String(chart.x[at])}>
      <rect
        className="chart-bar"
        x={LEFT + at * width + width * 0.12}
        width={width * 0.76}
        y={y.at(value ?? 0)}
        height={Math.max(0, HEIGHT - BOTTOM - y.at(value ?? 0))}
      >
        <title>{`${String(chart.x[at])}: ${figureText(value ?? 0)}`}</title>
      </rect>
      {at % named === 0 && (
        <text className="chart-tick" x={LEFT + (at + 0.5) * width} y={HEIGHT - 8} textAnchor="middle">
          {String(chart.x[at])}
        </text>
      )}
    </g>
  ));
}

/** Bars whose names are too long to stand below them: each lies beside its name. */
function LyingBars({ chart }: { chart: Chart }) {
  const values = Object.values(chart.series)[0] ?? [];
  const most = Math.max(...values.map((value) => value ?? 0), 1);
  return (
    <table className="bars" aria-label={spokenName(chart)}>
      <thead>
        <tr>
          <td>{chart.x_title}</td>
          <th scope="col">{chart.y_title}</th>
        </tr>
      </thead>
      <tbody>
        {values.map((value, at) => (
          <tr key={String(chart.x[at])}>
            <th scope="row">
              <Name text={String(chart.x[at])} />
            </th>
            <td style={{ '--share': Math.max(0, value ?? 0) / most } as React.CSSProperties}>
              <span className="bars-bar" />
              {figureText(value ?? 0)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A name that is broken between words; a word with no room ends in an ellipsis, so all of it is the title. */
function Name({ text }: { text: string }) {
  return (
    <span className="chart-name" title={text}>
      {text}
    </span>
  );
}

function Histogram({ chart, x, y }: { chart: Chart; x: Scale; y: Scale }) {
  const values = Object.values(chart.series)[0] ?? [];
  const edges = chart.x.map(Number);
  return values.map((value, at) => {
    const from = edges[at] ?? 0;
    const to = edges[at + 1] ?? from;
    const left = x.at(from);
    return (
      <rect
        key={from}
        className="chart-bar"
        x={left}
        width={Math.max(0.5, x.at(to) - left - 0.6)}
        y={y.at(value ?? 0)}
        height={Math.max(0, HEIGHT - BOTTOM - y.at(value ?? 0))}
      >
        <title>{`${brief(from)} to ${brief(to)}: ${figureText(value ?? 0)}`}</title>
      </rect>
    );
  });
}

interface LineProps {
  colour: number | 'reference';
  xs: Chart['x'];
  ys: readonly (number | null)[];
  x: Scale;
  y: Scale;
}

function Line({ colour, xs, ys, x, y }: LineProps) {
  const points = ys.flatMap((value, at) =>
    value === null ? [] : [{ x: x.at(Number(xs[at])), y: y.at(value), value }],
  );
  return (
    <g data-series={colour} className="chart-line">
      <polyline points={points.map((point) => `${point.x.toFixed(1)},${point.y.toFixed(1)}`).join(' ')} />
      {points.length < 40 &&
        points.map((point) => (
          <circle key={point.x} cx={point.x} cy={point.y} r={points.length === 1 ? 3 : 1.8}>
            <title>{brief(point.value)}</title>
          </circle>
        ))}
    </g>
  );
}

interface ScatterProps {
  chart: Chart;
  x: Scale;
  y: Scale;
  ends: readonly [number, number];
}

/** Points, and below them the line on which both of their values are equal. */
function Scatter({ chart, x, y, ends }: ScatterProps) {
  const values = Object.values(chart.series)[0] ?? [];
  return (
    <>
      <g data-series="reference" className="chart-line">
        <polyline points={ends.map((end) => `${x.at(end).toFixed(1)},${y.at(end).toFixed(1)}`).join(' ')} />
      </g>
      {/* Where points lie on one another, more of them are darker. */}
      <g data-series={0} className="chart-line" fillOpacity={values.length > FEW ? 0.4 : 0.8}>
        {values.map((value, at) => {
          const over = Number(chart.x[at]);
          return value === null ? null : (
            <circle key={at} cx={x.at(over).toFixed(1)} cy={y.at(value).toFixed(1)} r={values.length > FEW ? 1.6 : 2.4}>
              <title>{`${chart.x_title} ${brief(over)}, ${chart.y_title} ${brief(value)}`.trim()}</title>
            </circle>
          );
        })}
      </g>
    </>
  );
}

/** So many points are seen one by one. */
const FEW = 200;

function Matrix({ chart }: { chart: Chart }) {
  const rows = Object.entries(chart.series);
  return (
    <div className="matrix-scroll">
      <table className="matrix" aria-label={chart.title}>
        <thead>
          <tr>
            <th scope="col">
              {chart.y_title} \ {chart.x_title}
            </th>
            {chart.x.map((name) => (
              <th key={name} scope="col">
                <Name text={String(name)} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, values], row) => {
            const total = values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
            return (
              <tr key={name}>
                <th scope="row">
                  <Name text={name} />
                </th>
                {values.map((value, column) => (
                  <td
                    key={chart.x[column]}
                    data-right={row === column || undefined}
                    style={{ '--share': total > 0 ? (value ?? 0) / total : 0 } as React.CSSProperties}
                    title={total > 0 ? `${((100 * (value ?? 0)) / total).toFixed(1)}% of ${name}` : undefined}
                  >
                    {figureText(value ?? 0)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function brief(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  if (size > 0 && size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
