/** How long a run takes and what it costs, of what is known of its nodes; as `engine.advisor.run_estimate`. */

import { end } from '../document/ends';
import { own } from '../document/own';
import type { Doc, NodeForecast, ProfileInfo, RequestCostInfo } from '../protocol';
import { between, money, moneyBetween } from './figures';
import type { Step } from './scope';

export interface Estimate {
  /** Seconds of the nodes whose time is known; null when it is of none. */
  readonly seconds: { readonly low: number; readonly high: number } | null;
  /** Nodes that would work, for an unknown time. */
  readonly unknown: readonly string[];
  /** What trainings pay for requests to object storage. */
  readonly requests: readonly RequestCostInfo[];
}

type Known = Readonly<{ low: number; high: number }>;

/** How long a node takes; null when that is not known. */
export function rangeOf(forecast: NodeForecast | undefined): Known | null {
  const { low_s: low, high_s: high } = forecast ?? { low_s: null, high_s: null };
  return low === null || high === null ? null : { low, high };
}

/** From all nodes side by side, as the wires allow, to one after the other. */
export function estimateOf(
  doc: Doc,
  forecasts: Readonly<Record<string, NodeForecast>>,
  steps: readonly Step[],
): Estimate {
  const known = new Map<string, Known>();
  const unknown: string[] = [];
  const requests: RequestCostInfo[] = [];
  for (const { node } of steps.filter(({ work }) => work)) {
    const asked = own(forecasts, node)?.requests;
    if (asked) requests.push(asked);
    const found = rangeOf(own(forecasts, node));
    if (found === null) unknown.push(node);
    else known.set(node, found);
  }
  if (known.size === 0) return { seconds: null, unknown, requests };
  const low = Math.max(...ends(doc, [...known.keys(), ...unknown], (node) => known.get(node)?.low ?? 0));
  const high = [...known.values()].reduce((sum, each) => sum + each.high, 0);
  return { seconds: { low, high }, unknown, requests };
}

/** When each node has ended, if it begins as soon as those before it have. */
function ends(doc: Doc, nodes: readonly string[], takes: (node: string) => number): number[] {
  const before = new Map<string, string[]>(nodes.map((node) => [node, []]));
  for (const edge of Object.values(doc.edges)) {
    const source = end(edge.source).node;
    if (before.has(source)) before.get(end(edge.target).node)?.push(source);
  }
  const found = new Map<string, number>();
  const endOf = (node: string): number => {
    const seen = found.get(node);
    if (seen !== undefined) return seen;
    found.set(node, 0); // in a cycle, which no run has
    const begins = Math.max(0, ...(before.get(node) ?? []).map(endOf));
    found.set(node, begins + takes(node));
    return begins + takes(node);
  };
  return nodes.map(endOf);
}

/** `12 min 00 s to 25 min 00 s, and the unknown time of Evaluate`. */
export function timeText({ seconds, unknown }: Estimate, name: (node: string) => string): string {
  if (seconds === null) return `unknown, without an earlier run of ${listed(unknown, name)}`;
  const text = between(seconds.low, seconds.high);
  return unknown.length > 0 ? `${text}, and the unknown time of ${listed(unknown, name)}` : text;
}

/** `takes 12 min 00 s to 25 min 00 s`, beside the button that starts the run; what is unknown is only hinted at. */
export function briefTime({ seconds, unknown }: Estimate): string {
  if (seconds === null) return 'time unknown';
  return `takes ${between(seconds.low, seconds.high)}${unknown.length > 0 ? ' or more' : ''}`;
}

/** `1.43 USD for requests to az://data`. */
export function requestsText({ place, amount, currency, at_most }: RequestCostInfo): string {
  if (amount === null) return `the unknown cost of requests to ${place}`;
  return `${at_most ? 'up to ' : ''}${money(amount, currency)} for requests to ${place}`;
}

/** The same of the cost at the price of an hour, with the requests in the sum where they are in its currency. */
export function costText(
  { seconds, unknown, requests }: Estimate,
  profile: ProfileInfo | undefined,
  name: (node: string) => string,
): string {
  const beside = (asked: readonly RequestCostInfo[]) => asked.map((each) => `, and ${requestsText(each)}`).join('');
  if (!profile || profile.price === null)
    return `unknown, as ${profile?.priced ?? 'there is no profile'}${beside(requests)}`;
  if (seconds === null) return `unknown, as the time is${beside(requests)}`;
  const { price, currency } = profile;
  const isIn = (each: RequestCostInfo) => each.amount !== null && each.currency === currency;
  const summed = requests.filter(isIn);
  const total = (asked: readonly RequestCostInfo[]) => asked.reduce((sum, { amount }) => sum + (amount ?? 0), 0);
  const low = (price * seconds.low) / 3600 + total(summed.filter((each) => !each.at_most));
  const high = (price * seconds.high) / 3600 + total(summed);
  let text = moneyBetween(low, high, currency);
  if (summed.length > 0) text += `, of which ${summed.map(requestsText).join(' and ')}`;
  if (unknown.length > 0) text += `, and the unknown cost of ${listed(unknown, name)}`;
  return text + beside(requests.filter((each) => !isIn(each)));
}

const NAMED = 4;

function listed(nodes: readonly string[], name: (node: string) => string): string {
  const shown = nodes.slice(0, NAMED).map(name).join(', ');
  return nodes.length > NAMED ? `${shown} and ${nodes.length - NAMED} more` : shown;
}
