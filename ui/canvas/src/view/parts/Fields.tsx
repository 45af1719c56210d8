/** Fields beside pictures of volumes: their channel, their colours, a choice of a few. */

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

interface SelectProps {
  label: string;
  value: string;
  /** Values, each with its text. */
  options: Iterable<readonly [value: string, text: string]>;
  onChange: (value: string) => void;
}

export function SelectField({ label, value, options, onChange }: SelectProps) {
  return (
    <label className="look-choice">
      <span>{label}</span>
      <select
        className="input select"
        value={value}
        onChange={(event) => {
          onChange(event.currentTarget.value);
        }}
      >
        {Array.from(options, ([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function ColourField() {
  const colours = useViewing((s) => s.colours);
  const choose = useViewing((s) => s.choose);
  return (
    <SelectField
      label="Colours"
      value={colours}
      options={Object.entries(COLOUR_NAMES)}
      onChange={(value) => {
        choose(value as Colours);
      }}
    />
  );
}
