/** Several lines of text, which the document gets as they are typed; done when the field loses the focus. */

import type { ComponentProps } from 'react';

import { useApp } from '../../../state/hooks';
import type { Typed } from '../../parts/typed';

type Props = { typed: Typed } & Omit<ComponentProps<'textarea'>, 'value' | 'onChange' | 'onBlur'>;

export function TypedArea({ typed, ...rest }: Props) {
  const app = useApp();
  return (
    <textarea
      dir="auto"
      {...rest}
      value={typed.text}
      onChange={(event) => {
        typed.type(event.currentTarget.value);
      }}
      onBlur={() => {
        typed.end();
        app.seal();
      }}
    />
  );
}
