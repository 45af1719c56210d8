/** The panels of datasets, and volumes one by one: in a dialog of the editor, or in a page of the app. */

import { ArrowLeft } from 'lucide-react';
import { useState } from 'react';

import type { GalleryItem, PanelInfo, ViewInfo } from '../../protocol';
import type { View } from '../../rules/views';
import { moveFocus } from '../parts/rove';
import { address, useAsked } from '../parts/ask';
import { ChartPanel } from './ChartPanel';
import { DocumentPanel } from './DocumentPanel';
import { factText } from './facts';
import { Gallery } from './Gallery';
import { moved, placeIn, type Move, type Place, type Places } from './place';
import { TablePanel } from './TablePanel';
import { VolumeViewer, type Opened } from './volume/VolumeViewer';
import { Waiting } from '../parts/Waiting';

/** A dataset that was opened from within another one, as an older version of a table. */
export interface Step {
  readonly key: string;
  readonly title: string;
}

interface Props {
  views: readonly View[];
  /** The port whose dataset is shown first. */
  first: string;
  /** A volume to begin with. */
  row: GalleryItem | null;
  steps: readonly Step[];
  onStep: (steps: readonly Step[]) => void;
}

export function Datasets({ views, first, row, steps, onStep }: Props) {
  const [port, setPort] = useState(first);
  const shown = views.find((view) => view.port === port) ?? views[0];
  const key = steps.at(-1)?.key ?? shown?.key ?? '';
  return (
    <>
      {views.length > 1 && steps.length === 0 && (
        <div className="look-ports" role="group" aria-label="Output">
          {views.map((view) => (
            <button
              key={view.port}
              type="button"
              className="btn btn-small"
              aria-pressed={view.port === shown?.port}
              onClick={() => {
                setPort(view.port);
              }}
            >
              {view.port}
            </button>
          ))}
        </div>
      )}
      {steps.length > 0 && (
        <div>
          <button
            type="button"
            className="btn btn-small"
            onClick={() => {
              onStep(steps.slice(0, -1));
            }}
          >
            <ArrowLeft size={13} aria-hidden /> Back
          </button>
        </div>
      )}
      <Dataset
        key={key}
        dataset={key}
        row={steps.length === 0 ? row : null}
        onOpen={(opened, title) => {
          onStep([...steps, { key: opened, title: ` · ${title}` }]);
        }}
      />
    </>
  );
}

interface DatasetProps {
  dataset: string;
  /** A volume to begin with. */
  row: GalleryItem | null;
  onOpen: (key: string, title: string) => void;
}

function Dataset({ dataset, row, onOpen }: DatasetProps) {
  const asked = useAsked<ViewInfo>(address(dataset));
  const [chosen, setChosen] = useState<string | null>(null);
  const [volume, setVolume] = useState<Opened | null>(null);
  const [places, setPlaces] = useState<Places>({});
  const info = asked.answer;
  if (info === null) return <Waiting asked={asked} as="dataset" />;
  const panel = info.panels.find(({ name }) => name === chosen) ?? info.panels[0];
  const gallery = info.panels.find(({ kind }) => kind === 'gallery');
  const begun = row === null || !gallery ? null : { panel: gallery.name, items: [row], at: 0, channel: 0 };
  const opened = volume ?? (chosen === null ? begun : null);
  const shown = opened && info.panels.find(({ name }) => name === opened.panel);
  if (shown) {
    return (
      <VolumeViewer
        dataset={dataset}
        panel={shown}
        opened={opened}
        onChange={setVolume}
        onClose={() => {
          setVolume(null);
          setChosen((before) => before ?? shown.name);
        }}
      />
    );
  }
  return (
    <>
      <div className="look-head">
        <div className="tabs" role="tablist" aria-label="What to look at">
          {info.panels.map(({ name, title }) => (
            <button
              key={name}
              type="button"
              role="tab"
              className="tab"
              aria-selected={name === panel?.name}
              tabIndex={name === panel?.name ? 0 : -1}
              onClick={() => {
                setChosen(name);
              }}
              onKeyDown={(event) => {
                const key = { ArrowRight: 'ArrowDown', ArrowLeft: 'ArrowUp' }[event.key] ?? event.key;
                if (moveFocus(event.currentTarget.parentElement, '[role=tab]', key)) event.preventDefault();
              }}
            >
              {title}
            </button>
          ))}
        </div>
        <Facts info={info} />
      </div>
      {panel && (
        <div className="look-panel" role="tabpanel" aria-label={panel.title} key={panel.name}>
          <Panel
            dataset={dataset}
            panel={panel}
            place={placeIn(places, panel.name)}
            onMove={(to) => {
              setPlaces((before) => moved(before, panel.name, to));
            }}
            onVolume={setVolume}
            onRow={(found) => {
              if (gallery) setVolume({ panel: gallery.name, items: found.items, at: found.at, channel: 0 });
            }}
            onOpen={onOpen}
          />
        </div>
      )}
    </>
  );
}

interface PanelProps {
  dataset: string;
  panel: PanelInfo;
  place: Place;
  onMove: Move;
  onVolume: (volume: Opened) => void;
  onRow: (found: { items: readonly GalleryItem[]; at: number }) => void;
  onOpen: (key: string, title: string) => void;
}

function Panel({ dataset, panel, place, onMove, onVolume, onRow, onOpen }: PanelProps) {
  switch (panel.kind) {
    case 'gallery':
      return <Gallery dataset={dataset} panel={panel} place={place} onMove={onMove} onOpen={onVolume} />;
    case 'table':
      return <TablePanel dataset={dataset} panel={panel} place={place} onMove={onMove} onRow={onRow} onOpen={onOpen} />;
    case 'charts':
      return <ChartPanel dataset={dataset} panel={panel} />;
    case 'document':
      return <DocumentPanel dataset={dataset} panel={panel} />;
  }
}

/** `2,000 volumes · 720 MB · 30x30x10x10 · float32`: what the type's details say, in a line. */
function Facts({ info }: { info: ViewInfo }) {
  const texts = Object.entries(info.facts).map(([name, value]) => factText(name, value));
  return (
    <p className="look-facts quiet" title={info.uri}>
      {[info.title, ...texts].map((text, at) => (
        <span key={at}>{text}</span>
      ))}
    </p>
  );
}
