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
  return (
    <label className="look-choice">
      <span>Colours</span>
      <select
        className="input select"
        value={colours}
        onChange={(event) => {
          choose(event.currentTarget.value as Colours);
        }}
      >
        {Object.entries(COLOUR_NAMES).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
