/** What a panel asks the person: one list for each question. */

import type { Choice, Choices } from '../../protocol';
import { address, useAsked, type Query } from '../parts/ask';
import { SelectField } from '../parts/Fields';

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
  return <ChoiceList choices={answer?.choices ?? []} chosen={chosen} onChoose={onChoose} />;
}

interface ListProps {
  choices: Choices['choices'];
  chosen: Chosen;
  onChoose: (chosen: Chosen) => void;
}

export function ChoiceList({ choices, chosen, onChoose }: ListProps) {
  return choices.map((choice) => (
    <SelectField
      key={choice.name}
      label={choice.title}
      value={valueOf(choice, chosen)}
      options={choice.options.map(({ value, text }) => [value, text])}
      onChange={(value) => {
        onChoose({ ...chosen, [choice.name]: value });
      }}
    />
  ));
}

function valueOf({ name, options }: Choice, chosen: Chosen): string {
  return chosen[name] ?? options[0]?.value ?? '';
}

const RANDOM = 'random';

/** Whether another shuffle shows other volumes: not where a random order is one of several, and another is chosen. */
export function canShuffle(choices: Choices['choices'], chosen: Chosen): boolean {
  return choices.every(
    (choice) => !choice.options.some(({ value }) => value === RANDOM) || valueOf(choice, chosen) === RANDOM,
  );
}
