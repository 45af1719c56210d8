/** One control for a declared parameter, whatever its value belongs to: a node, a run, the pipeline. */

import { ChevronDown, ChevronUp, FolderOpen } from 'lucide-react';
import type { KeyboardEvent, ReactNode } from 'react';

import type { FieldInfo, JsonValue } from '../../../protocol';
import { choicesOf, inForce, isOn, placeholder, shown, stepped, valueOf, written } from '../../../rules/fields';
import { useTyped } from '../../parts/typed';

export interface ControlProps {
  field: FieldInfo;
  /** undefined: the default. */
  value: JsonValue | undefined;
  onChange: (value: JsonValue | undefined) => void;
  /** The person is done with it: leaves the field, or presses Enter. */
  onDone: () => void;
  /** Let the person look for a path. */
  onBrowse?: () => void;
  id: string;
  describedBy: string;
  invalid: boolean;
}

/** What draws a field, by the widget that Python declares for it (`WidgetName` in engine/declare/field_rules.py). */
const CONTROLS: Readonly<Record<FieldInfo['widget'], (props: ControlProps) => ReactNode>> = {
  text: TextInput,
  number: NumberInput,
  choice: Choices,
  switch: Switch,
  automatic: Automatic,
  list: TextInput,
  path: PathInput,
  secret: TextInput,
};

export function ValueControl(props: ControlProps) {
  const Control = CONTROLS[props.field.widget];
  return <Control {...props} />;
}

function TextInput(props: ControlProps) {
  const { field } = props;
  return (
    <div className="input-group">
      <PlainInput {...props} />
      {field.unit && <span className="input-unit">{field.unit}</span>}
    </div>
  );
}

function PlainInput({ field, value, onChange, onDone, id, describedBy, invalid, onKeyDown }: InputProps) {
  const typed = useTyped(written(field, inForce(field, value)), (text) => {
    onChange(valueOf(field, text));
  });
  const mono = field.widget === 'secret' || field.widget === 'path';
  return (
    <input
      id={id}
      className={mono ? 'input input-mono' : 'input'}
      type="text"
      inputMode={field.widget === 'number' ? (field.type === 'int' ? 'numeric' : 'decimal') : 'text'}
      autoComplete="off"
      spellCheck={false}
      value={typed.text}
      placeholder={placeholder(field)}
      aria-invalid={invalid}
      aria-describedby={describedBy}
      aria-required={field.required}
      // The first letter typed replaces a default, which nobody has written here.
      onFocus={(event) => {
        if (value === undefined) event.currentTarget.select();
      }}
      onMouseDown={(event) => {
        // By itself the browser would put the caret there and drop the selection.
        if (value !== undefined || isFocused(event.currentTarget)) return;
        event.preventDefault();
        event.currentTarget.focus();
      }}
      onChange={(event) => {
        typed.type(event.currentTarget.value);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter') onDone();
        if (onKeyDown?.(event)) typed.end();
      }}
      onBlur={() => {
        typed.end();
        onDone();
      }}
    />
  );
}

function isFocused(field: HTMLElement): boolean {
  const root = field.getRootNode();
  return (root instanceof ShadowRoot || root instanceof Document) && root.activeElement === field;
}

interface InputProps extends ControlProps {
  /** Gives true when the key has set the value. */
  onKeyDown?: (event: KeyboardEvent) => boolean;
}

function NumberInput(props: ControlProps) {
  const { field, value, onChange, onDone } = props;
  const step = (direction: 1 | -1) => {
    onChange(valueOf(field, String(stepped(field, value, direction))));
  };
  const arrow = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return false;
    event.preventDefault();
    step(event.key === 'ArrowUp' ? 1 : -1);
    return true;
  };
  return (
    <div className="input-group">
      <PlainInput {...props} onKeyDown={arrow} />
      {field.unit && <span className="input-unit">{field.unit}</span>}
      <span className="steps">
        {([1, -1] as const).map((direction) => (
          <button
            key={direction}
            type="button"
            // The arrow keys do the same: the Tab key need not stop here.
            tabIndex={-1}
            aria-label={`${direction > 0 ? 'Increase' : 'Decrease'} ${field.title}`}
            onClick={() => {
              step(direction);
            }}
            onBlur={onDone}
          >
            {direction > 0 ? <ChevronUp size={11} aria-hidden /> : <ChevronDown size={11} aria-hidden />}
          </button>
        ))}
      </span>
    </div>
  );
}

function PathInput(props: ControlProps) {
  return (
    <div className="input-row">
      <PlainInput {...props} />
      {props.onBrowse && (
        <button type="button" className="btn" aria-label={`Browse for ${props.field.title}`} onClick={props.onBrowse}>
          <FolderOpen size={14} aria-hidden /> Browse…
        </button>
      )}
    </div>
  );
}

function Switch({ field, value, onChange, onDone, id, describedBy, invalid }: ControlProps) {
  const on = isOn(inForce(field, value));
  return (
    <button
      id={id}
      type="button"
      role="switch"
      className="switch"
      aria-checked={on}
      aria-invalid={invalid}
      aria-describedby={describedBy}
      onClick={() => {
        onChange(valueOf(field, String(!on)));
        onDone();
      }}
    >
      <span className="switch-knob" />
      <span className="switch-word">{on ? 'On' : 'Off'}</span>
    </button>
  );
}

/** Few short choices stand side by side; more of them fold into a list. */
function Choices(props: ControlProps) {
  const choices = choicesOf(props.field).map(shown);
  const short = choices.length <= 3 && choices.join('').length <= 22;
  if (!short) return <Select {...props} />;
  return <Segments {...props} choices={choices.map((text) => ({ text, label: text }))} />;
}

/** On, off, or neither: then the node decides. */
function Automatic(props: ControlProps) {
  return <Segments {...props} choices={AUTOMATIC} />;
}

/** The choice that a value names; text of a document may name a number. */
function chosen(field: FieldInfo, value: JsonValue | undefined): string {
  return shown(inForce(field, value));
}

interface Choice {
  text: string;
  label: string;
}

const AUTOMATIC: readonly Choice[] = [
  { text: '', label: 'Automatic' },
  { text: 'true', label: 'On' },
  { text: 'false', label: 'Off' },
];

function Segments(props: ControlProps & { choices: readonly Choice[] }) {
  const { field, value, onChange, onDone, id, describedBy, invalid, choices } = props;
  const now = chosen(field, value);
  return (
    <div
      id={id}
      role="radiogroup"
      aria-label={field.title}
      aria-describedby={describedBy}
      aria-invalid={invalid}
      className="segments"
    >
      {choices.map(({ text, label }) => (
        <label key={text} className="segment">
          <input
            type="radio"
            name={id}
            value={text}
            checked={text === now}
            onChange={() => {
              onChange(valueOf(field, text));
              onDone();
            }}
          />
          <span>{label}</span>
        </label>
      ))}
    </div>
  );
}

function Select({ field, value, onChange, onDone, id, describedBy, invalid }: ControlProps) {
  const now = chosen(field, value);
  const choices = choicesOf(field).map(shown);
  const extra = choices.includes(now) ? [] : [now];
  return (
    <div className="input-group">
      <select
        id={id}
        className="input select"
        value={now}
        aria-invalid={invalid}
        aria-describedby={describedBy}
        onChange={(event) => {
          onChange(valueOf(field, event.currentTarget.value));
          onDone();
        }}
      >
        {[...extra, ...choices].map((choice) => (
          <option key={choice} value={choice}>
            {choice === '' ? '(nothing chosen)' : choice}
          </option>
        ))}
      </select>
      {field.unit && <span className="input-unit">{field.unit}</span>}
    </div>
  );
}
