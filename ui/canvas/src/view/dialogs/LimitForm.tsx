/** The limit of a run, or of all trials of a sweep: a time and a cost at which it is stopped. */

import { useId } from 'react';

import type { ProfileInfo } from '../../protocol';
import { objections, type LimitTexts } from '../../rules/limit';

interface LimitFormProps {
  what: 'run' | 'sweep';
  texts: LimitTexts;
  profile: ProfileInfo | undefined;
  onChange: (texts: LimitTexts) => void;
}

export function LimitForm({ what, texts, profile, onChange }: LimitFormProps) {
  const id = useId();
  const wrong = objections(texts, profile);
  const field = (part: keyof LimitTexts, label: string, placeholder: string) => (
    <div className="field">
      <label htmlFor={`${id}-${part}`}>{label}</label>
      <input
        id={`${id}-${part}`}
        className="input"
        placeholder={placeholder}
        value={texts[part]}
        aria-invalid={wrong[part] !== ''}
        aria-describedby={`${id}-${part}-note`}
        onChange={(event) => {
          onChange({ ...texts, [part]: event.currentTarget.value });
        }}
      />
      <p id={`${id}-${part}-note`} className={wrong[part] ? 'note-error' : 'visually-hidden'}>
        {wrong[part]}
      </p>
    </div>
  );
  return (
    <section className="run-part run-limit" aria-label={`Limit of this ${what}`}>
      {field('after', 'Stop after', 'no limit, or 3h')}
      {field('cost', profile?.currency ? `Stop at a cost (${profile.currency})` : 'Stop at a cost', 'no limit, or 20')}
      <p className="quiet">
        {what === 'run'
          ? 'At a limit the run is cancelled; what is done is kept, and it can be resumed.'
          : 'All trials together: the time is that of the clock, the cost the sum of their runs. At a limit they are' +
            ' cancelled; what is done is kept, and the sweep can be resumed. A limit of the profile is each trial’s.'}
      </p>
    </section>
  );
}
