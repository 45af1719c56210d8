/** For tests: a node, a run and what the server says of a node, with all that a test does not care about. */

import type { DocNode, NodeForecast, NodeStatus, RunInfo } from './protocol';

export function docNode(rest: Partial<DocNode> = {}): DocNode {
  return {
    type: 'Pass',
    version: 1,
    title: '',
    params: {},
    position: { x: 0, y: 0 },
    retries: 0,
    timeout_s: null,
    mode: 'run',
    ui: {},
    order: 0,
    ...rest,
  };
}

export function runInfo(rest: Partial<RunInfo> = {}): RunInfo {
  return {
    run_id: 'r',
    state: 'running',
    profile: 'local',
    error: '',
    created: 1,
    started: 1,
    ended: null,
    paused: 0,
    cancelling: false,
    changes: '',
    given: '',
    limit: '',
    limited: false,
    figures: [],
    against: '',
    ...rest,
  };
}

export function nodeStatus(state: NodeStatus['state'], rest: Partial<NodeStatus> = {}): NodeStatus {
  return {
    state,
    reason: '',
    attempt: 1,
    started: null,
    ended: null,
    progress: null,
    made: '',
    outputs: [],
    curve: [],
    failure: null,
    ...rest,
  };
}

export function nodeForecast(fresh: boolean, rest: Partial<NodeForecast> = {}): NodeForecast {
  return {
    fresh,
    reason: fresh ? '' : 'never run',
    backend: 'embedded',
    backend_reason: '',
    advice: '',
    requests: null,
    low_s: null,
    high_s: null,
    basis: '',
    last: null,
    ...rest,
  };
}
