/** One control for a declared parameter, whatever its value belongs to: a node, a run, the pipeline. */

import { ChevronDown, ChevronUp, FolderOpen } from 'lucide-react';
import type { KeyboardEvent } from 'react';

import type { FieldInfo, JsonValue } from '../../../protocol';
import { control, isOn, placeholder, shown, stepped, valueOf, written } from '../../../rules/fields';
import { useTyped } from './typed';

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

export function ValueControl(props: ControlProps) {
  switch (control(props.field)) {
    case 'switch':
      return <Switch {...props} />;
    case 'automatic':
      return <Segments {...props} choices={AUTOMATIC} />;
    case 'choice':
      return isShort(props.field) ? <Segments {...props} choices={plain(props.field)} /> : <Select {...props} />;
    case 'number':
      return <NumberInput {...props} />;
    case 'path':
      return <PathInput {...props} />;
    case 'list':
    case 'secret':
    case 'text':
      return <TextInput {...props} />;
  }
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
  const typed = useTyped(written(field, value), (text) => {
    onChange(valueOf(field, text));
  });
  const mono = field.secret || field.path !== null;
  return (
    <input
      id={id}
      className={mono ? 'input input-mono' : 'input'}
      type="text"
      inputMode={field.type === 'int' ? 'numeric' : field.type === 'float' ? 'decimal' : 'text'}
      autoComplete="off"
      spellCheck={false}
      value={typed.text}
      placeholder={placeholder(field, value)}
      aria-invalid={invalid}
      aria-describedby={describedBy}
      aria-required={field.required}
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
  const on = isOn(value === undefined ? field.default : value);
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
function isShort(field: FieldInfo): boolean {
  return field.choices.length <= 3 && field.choices.map(shown).join('').length <= 22;
}

/** The choice that a value names; text of a document may name a number. */
function chosen(field: FieldInfo, value: JsonValue | undefined): string {
  return shown(value === undefined ? field.default : value);
}

interface Choice {
  text: string;
  label: string;
}

/** On, off, or neither: then the node decides. */
const AUTOMATIC: readonly Choice[] = [
  { text: '', label: 'Automatic' },
  { text: 'true', label: 'On' },
  { text: 'false', label: 'Off' },
];

function plain(field: FieldInfo): Choice[] {
  return field.choices.map(shown).map((text) => ({ text, label: text }));
}

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
  const choices = field.choices.map(shown);
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
