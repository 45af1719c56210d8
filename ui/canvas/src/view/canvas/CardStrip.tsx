/**
 * What a card shows below its foot once there is something: three volumes of its data, or the loss of a training and its
 * main figure. It hangs below the ports, so nothing that a wire ends at moves when it appears.
 */

import { useEffect, useState } from 'react';

import { own } from '../../document/own';
import type { CardPicture, GalleryItem, Headline, OutputInfo } from '../../protocol';
import { type LightState, lightState } from '../../rules/lights';
import { typeOf } from '../../rules/ports';
import { look } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import type { State } from '../../state/state';
import { useViewing } from '../../state/viewing';
import { useViews } from '../../state/views';
import { address } from '../parts/ask';
import { Thumbnail } from '../look/Gallery';
import { cardPicture } from './card_pictures';

export function CardStrip({ id }: { id: string }) {
  // One question for each card and change of the state, for most cards answered at once: a graph may have hundreds.
  const shows = useCanvas((state) => stripOf(state, id));
  if (shows === 'volumes') return <Volumes id={id} />;
  return shows === 'training' ? <Training id={id} /> : null;
}

function stripOf(state: State, id: string): 'volumes' | 'training' | null {
  const status = own(state.status, id);
  const last = own(state.forecasts, id)?.last ?? null;
  if (!status && last === null && isEmpty(state.views)) return null;
  const kind = typeOf(state.doc, state.types, id)?.outputs[0]?.kinds[0];
  const pictured = state.welcome?.datasets.some((dataset) => dataset.kind === kind && dataset.pictured) ?? false;
  return pictured ? 'volumes' : 'training';
}

function isEmpty(record: Readonly<Record<string, unknown>>): boolean {
  for (const name in record) return !Object.hasOwn(record, name);
  return true;
}

function Volumes({ id }: { id: string }) {
  const view = useViews(id)[0];
  return view ? <Pictures key={view.key} id={id} port={view.port} dataset={view.key} /> : null;
}

function Pictures({ id, port, dataset }: { id: string; port: string; dataset: string }) {
  const app = useApp();
  const colours = useViewing((s) => s.colours);
  const [picture, setPicture] = useState<CardPicture | null>(null);
  useEffect(() => {
    let left = false;
    void cardPicture(address(dataset, '-', 'card')).then((found) => {
      if (!left) setPicture(found);
    });
    return () => {
      left = true;
    };
  }, [dataset]);
  if (!picture || picture.items.length === 0) return null;
  const show = (item: GalleryItem) => {
    look(app, id, port, item);
  };
  return (
    <div className="card-strip card-pictures" role="group" aria-label="Volumes">
      {picture.items.map((item) => (
        <button
          key={item.row}
          type="button"
          tabIndex={-1}
          title={item.label ? `${item.id}, ${item.label}` : item.id}
          aria-label={`Look at ${item.id}`}
          onClick={(event) => {
            event.stopPropagation();
            show(item);
          }}
          onDoubleClick={(event) => {
            event.stopPropagation();
          }}
        >
          <Thumbnail dataset={dataset} panel={picture.panel} row={item.row} channel={0} colours={colours} size={96} />
        </button>
      ))}
    </div>
  );
}

const NO_CURVE: readonly number[] = [];

function Training({ id }: { id: string }) {
  const curve = useCanvas((s) => own(s.status, id)?.curve ?? NO_CURVE);
  const running = useCanvas((s) => own(s.status, id)?.state === 'running');
  const figure = useCanvas((s) => figureOf(s, id));
  if (curve.length < 2 && figure === null) return null;
  // Until there is a figure, what the line is of and where it stands.
  const shown = figure ?? { name: 'Loss', value: curve.at(-1) ?? NaN };
  return (
    <div className="card-strip card-training">
      <div className="card-figure">
        <strong>{brief(shown.value)}</strong>
        <span>{shown.name}</span>
      </div>
      {curve.length > 1 && (
        <div className="card-curve">
          <Sparkline values={curve} running={running} />
          {/* Beside another figure; its name says it to those who do not see it. */}
          {figure !== null && <span aria-hidden>loss</span>}
        </div>
      )}
    </div>
  );
}

/** The states in which a figure of an earlier run would be taken for this run's. */
const WITHOUT_KEPT: ReadonlySet<LightState> = new Set([
  'queued',
  'waiting',
  'running',
  'failed',
  'cancelled',
  'skipped',
]);

/** What the run made of it; else what is kept from before, but for a node that was to make it anew. */
export function figureOf(state: State, id: string): Headline | null {
  const status = own(state.status, id);
  const forecast = own(state.forecasts, id);
  const made = headlineOf(status?.outputs);
  if (made !== null) return made;
  return WITHOUT_KEPT.has(lightState(status, forecast, state.run)) ? null : headlineOf(forecast?.last?.outputs);
}

function headlineOf(outputs: readonly OutputInfo[] | undefined): Headline | null {
  return outputs?.find(({ headline }) => headline !== null)?.headline ?? null;
}

const WIDTH = 200;
const HEIGHT = 40;

function Sparkline({ values, running }: { values: readonly number[]; running: boolean }) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const x = (at: number) => 2 + (at / (values.length - 1)) * (WIDTH - 6);
  const y = (value: number) => HEIGHT - 3 - (high > low ? (value - low) / (high - low) : 0.5) * (HEIGHT - 6);
  const last = values.length - 1;
  const text = `Loss, from ${brief(values[0])} to ${brief(values[last])}`;
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={text}
      data-running={running || undefined}
    >
      <title>{text}</title>
      <polyline points={values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ')} />
    </svg>
  );
}

function brief(value: number | undefined): string {
  return String(Number((value ?? NaN).toPrecision(3)));
}
