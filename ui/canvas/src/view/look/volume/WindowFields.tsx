/** What the two ends of the colours stand for: as sliders, as numbers, and back to what is usual. */

import { useState } from 'react';

import { gradient, type ColourMap } from '../../../volume/colours';
import type { Range } from '../../../volume/ranges';
import { figure } from './figure';

interface Props {
  map: ColourMap;
  window: Range;
  all: Range;
  /** The person has set it. */
  chosen: boolean;
  /** Null: the usual one. */
  onChange: (window: Range | null) => void;
}

export function WindowFields({ map, window, all, chosen, onChange }: Props) {
  const [low, high] = [Math.min(all.low, window.low), Math.max(all.high, window.high)];
  const step = (high - low) / 200;
  const end = (name: 'low' | 'high', word: string) => {
    const set = (value: number) => {
      const next = { ...window, [name]: value };
      if (next.high > next.low) onChange(next);
    };
    return (
      <div className="look-choice window-end">
        <span aria-hidden>{word}</span>
        <input
          type="range"
          min={low}
          max={high}
          step={step}
          value={window[name]}
          aria-label={`${word}, by a slider`}
          onChange={(event) => {
            set(Number(event.currentTarget.value));
          }}
        />
        <NumberField name={word} value={window[name]} onChange={set} />
      </div>
    );
  };
  return (
    <div className="window-fields" role="group" aria-label="Window">
      <div className="window-colours" style={{ backgroundImage: gradient(map) }} aria-hidden />
      {end('low', 'Lowest')}
      {end('high', 'Highest')}
      <button
        type="button"
        className="btn btn-small"
        disabled={!chosen}
        onClick={() => {
          onChange(null);
        }}
      >
        Reset window
      </button>
    </div>
  );
}

interface NumberProps {
  name: string;
  value: number;
  onChange: (value: number) => void;
}

/** Takes the number when it is left or Enter is pressed: half of one that is typed is none. */
function NumberField({ name, value, onChange }: NumberProps) {
  const [typed, setTyped] = useState<string | null>(null);
  const take = () => {
    const number = typed === null || typed.trim() === '' ? NaN : Number(typed);
    if (Number.isFinite(number)) onChange(number);
    setTyped(null);
  };
  return (
    <input
      type="text"
      inputMode="decimal"
      className="input window-number"
      aria-label={name}
      value={typed ?? figure(value, 4).replaceAll(',', '')}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
      }}
      onBlur={take}
      onKeyDown={(event) => {
        if (event.key === 'Enter') take();
      }}
    />
  );
}
