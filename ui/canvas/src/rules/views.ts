/** What of a node can be looked at: what it made in the run that is shown, else last, else what is there before a run. */

import { own } from '../document/own';
import type { NodeForecast, NodeStatus, OutputInfo } from '../protocol';

/** A dataset at a port, and the key to look at it. */
export interface View {
  readonly port: string;
  readonly key: string;
}

interface Known {
  readonly status: Readonly<Record<string, NodeStatus>>;
  readonly forecasts: Readonly<Record<string, NodeForecast>>;
  readonly views: Readonly<Record<string, string>>;
}

export function viewsOf({ status, forecasts, views }: Known, node: string, ports: readonly string[]): View[] {
  const made = own(status, node)?.outputs ?? [];
  const last = own(forecasts, node)?.last?.outputs ?? [];
  return ports.flatMap((port) => {
    const key = keyIn(made, port) || keyIn(last, port) || own(views, `${node}.${port}`) || '';
    return key === '' ? [] : [{ port, key }];
  });
}

function keyIn(outputs: readonly OutputInfo[], port: string): string {
  return outputs.find((output) => output.port === port)?.view ?? '';
}
