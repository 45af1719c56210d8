/** How long a run takes and what it costs, of what is known of its nodes; as `engine.advisor.run_estimate`. */

import { end } from '../document/ends';
import { own } from '../document/own';
import type { Doc, ExpectedPart, NodeForecast, ProfileInfo, RequestCostInfo } from '../protocol';
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

/** The time and the cost in words, each by its name, which say once what is not known and why; as `expected_rows`. */
export function expectedParts(
  estimate: Estimate,
  profile: ProfileInfo | undefined,
  name: (node: string) => string,
): ExpectedPart[] {
  const { seconds, unknown, requests } = estimate;
  const { price, currency } = profile ?? { price: null, currency: '' };
  const unpriced = profile?.priced ?? 'there is no profile';
  if (seconds === null) {
    const why = `unknown, without an earlier run of ${listed(unknown, name)}${price === null ? `, and ${unpriced}` : ''}`;
    return [{ name: 'time and cost', text: why + besides(requests) }];
  }
  const parts = [
    { name: 'time', text: between(seconds.low, seconds.high) },
    {
      name: 'cost',
      text:
        price === null ? `unknown, as ${unpriced}${besides(requests)}` : costText(seconds, requests, price, currency),
    },
  ];
  if (unknown.length > 0) {
    const has = unknown.length === 1 ? 'has' : 'have';
    parts.push({ name: 'not counted', text: `${listed(unknown, name)}, which ${has} no earlier run` });
  }
  return parts;
}

/** `takes 12 min 00 s to 25 min 00 s`, beside the button that starts the run; null when nothing of it is known. */
export function briefTime({ seconds, unknown }: Estimate): string | null {
  if (seconds === null) return null;
  return `takes ${between(seconds.low, seconds.high)}${unknown.length > 0 ? ' or more' : ''}`;
}

/** `1.43 USD for requests to az://data`. */
export function requestsText({ place, amount, currency, at_most }: RequestCostInfo): string {
  if (amount === null) return `the unknown cost of requests to ${place}`;
  return `${at_most ? 'up to ' : ''}${money(amount, currency)} for requests to ${place}`;
}

/** The cost at the price of an hour, with the requests in the sum where they are in its currency. */
function costText(seconds: Known, requests: readonly RequestCostInfo[], price: number, currency: string): string {
  const isIn = (each: RequestCostInfo) => each.amount !== null && each.currency === currency;
  const summed = requests.filter(isIn);
  const total = (asked: readonly RequestCostInfo[]) => asked.reduce((sum, { amount }) => sum + (amount ?? 0), 0);
  const low = (price * seconds.low) / 3600 + total(summed.filter((each) => !each.at_most));
  const high = (price * seconds.high) / 3600 + total(summed);
  let text = moneyBetween(low, high, currency);
  if (summed.length > 0) text += `, of which ${summed.map(requestsText).join(' and ')}`;
  return text + besides(requests.filter((each) => !isIn(each)));
}

function besides(requests: readonly RequestCostInfo[]): string {
  return requests.map((each) => `, and ${requestsText(each)}`).join('');
}

const NAMED = 4;

function listed(nodes: readonly string[], name: (node: string) => string): string {
  const shown = nodes.slice(0, NAMED).map(name).join(', ');
  return nodes.length > NAMED ? `${shown} and ${nodes.length - NAMED} more` : shown;
}
