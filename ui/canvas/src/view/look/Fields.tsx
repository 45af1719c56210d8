/** What is shown of volumes, and how: their channel, their colours. */

import { useViewing } from '../../state/viewing';
import { COLOUR_NAMES, type Colours } from '../../volume/colours';

interface ChannelProps {
  channel: number;
  channels: number;
  onChange: (channel: number) => void;
}

export function ChannelField({ channel, channels, onChange }: ChannelProps) {
  return (
    <label className="look-choice">
      <span>Channel</span>
      <input
        type="range"
        min={0}
        max={channels - 1}
        value={channel}
        onChange={(event) => {
          onChange(Number(event.currentTarget.value));
        }}
      />
      <output className="look-figure">{channel}</output>
    </label>
  );
}

export function ColourField() {
  const colours = useViewing((s) => s.colours);
  const choose = useViewing((s) => s.choose);
  return <NamesField<Colours> label="Colours" names={COLOUR_NAMES} value={colours} onChange={choose} />;
}

interface NamesProps<Value extends string> {
  label: string;
  /** What each value is called. */
  names: Readonly<Record<Value, string>>;
  value: Value;
  onChange: (value: Value) => void;
}

export function NamesField<Value extends string>({ label, names, value, onChange }: NamesProps<Value>) {
  return (
    <label className="look-choice">
      <span>{label}</span>
      <select
        className="input select"
        value={value}
        onChange={(event) => {
          onChange(event.currentTarget.value as Value);
        }}
      >
        {Object.entries<string>(names).map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
