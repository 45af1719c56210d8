/** What a panel asks the person: one list for each question. */

import type { Choices } from '../../protocol';
import { address, useAsked, type Query } from './ask';
import { SelectField } from './Fields';

export type Chosen = Readonly<Record<string, string>>;

/** The choices as part of a query. */
export function inQuery(chosen: Chosen): Query {
  return Object.fromEntries(Object.entries(chosen).map(([name, value]) => [`choose-${name}`, value]));
}

interface Props {
  dataset: string;
  panel: string;
  chosen: Chosen;
  onChoose: (chosen: Chosen) => void;
}

/** Also says when all that the choices needed has been read. */
export function ChoiceFields({ dataset, panel, chosen, onChoose }: Props) {
  const { answer } = useAsked<Choices>(address(dataset, panel, 'choices'));
  return (answer?.choices ?? []).map((choice) => (
    <SelectField
      key={choice.name}
      label={choice.title}
      value={chosen[choice.name] ?? choice.options[0]?.value ?? ''}
      options={choice.options.map(({ value, text }) => [value, text])}
      onChange={(value) => {
        onChoose({ ...chosen, [choice.name]: value });
      }}
    />
  ));
}
