/** What the node does in the run that is shown, what it last made, and what the next run would do with it. */

import { Copy, CornerDownRight, Eye } from 'lucide-react';

import { own } from '../../document/own';
import type { FailureInfo, Last, NodeStatus, NodeForecast, OutputInfo } from '../../protocol';
import { duration, rate } from '../../rules/figures';
import { amountOf, isActive, reasonOf, whereItRuns } from '../../rules/lights';
import { runAddress } from '../../rules/runs';
import { ago, sentence, timeOfDay } from '../../rules/wording';
import { look } from '../../state/commands';
import { useApp, useCanvas, useNow } from '../../state/hooks';
import { useViews } from '../../state/views';
import { copy } from '../parts/copying';
import { NodeState } from '../parts/StateMark';
import { WithCode } from '../parts/WithCode';

export function NodeResult({ id }: { id: string }) {
  const status = useCanvas((s) => own(s.status, id));
  const run = useCanvas((s) => s.run?.run_id ?? null);
  // While a run is at work, the forecast from before it is outdated.
  const atWork = useCanvas((s) => isActive(s.run) && Object.hasOwn(s.status, id));
  const forecast = useCanvas((s) => (atWork ? undefined : own(s.forecasts, id)));
  const seen = useViews(id).length > 0;
  if (!status && !forecast && !seen) return <p className="quiet padded">Nothing is known of it yet.</p>;
  return (
    <div className="result">
      {seen && <Look id={id} />}
      {status && <InThisRun id={id} status={status} />}
      {forecast && <InTheNext forecast={forecast} />}
      {forecast?.last && <LastMade last={forecast.last} fresh={forecast.fresh} thisRun={status ? run : null} />}
      {forecast && !forecast.last && !status && <p className="quiet">No result of it is kept.</p>}
    </div>
  );
}

/** What there is to see of the node, port by port. */
function Look({ id }: { id: string }) {
  const app = useApp();
  const views = useViews(id);
  return (
    <section aria-label="Data">
      <div className="result-line">
        {views.map(({ port }) => (
          <button
            key={port}
            type="button"
            className="btn"
            onClick={() => {
              look(app, id, port);
            }}
          >
            <Eye size={14} aria-hidden /> Look at {views.length > 1 ? port : 'data'}
          </button>
        ))}
      </div>
    </section>
  );
}

function InThisRun({ id, status }: { id: string; status: NodeStatus }) {
  const now = useNow(status.state === 'running');
  const { started, ended, attempt, made, failure, progress } = status;
  const reason = reasonOf(status);
  return (
    <section aria-label="In this run">
      <h3>In this run</h3>
      <div className="result-line">
        <NodeState state={status.state} />
        {started !== null && <span className="quiet">{duration((ended ?? now) - started)}</span>}
        {started !== null && <span className="quiet">from {timeOfDay(started)}</span>}
        {attempt > 1 && <span className="quiet">attempt {attempt}</span>}
      </div>
      {status.state === 'running' && progress && <Progress progress={progress} />}
      {reason && <p className="quiet">{sentence(reason)}</p>}
      {made && <p>{made}</p>}
      <Outputs outputs={status.outputs} made={made} />
      {failure && <Failure node={id} failure={failure} />}
    </section>
  );
}

function Progress({ progress }: { progress: NonNullable<NodeStatus['progress']> }) {
  const { phase, label, rate: speed, seconds_left: left, share } = progress;
  const time = left === null ? '' : `${duration(left)} left`;
  const facts = [phase, amountOf(progress), speed ? rate(speed) : '', time, label];
  return (
    <>
      <div
        className="bar"
        role="progressbar"
        aria-label="Progress"
        aria-valuemin={0}
        aria-valuemax={1}
        aria-valuenow={share ?? undefined}
        data-known={share !== null}
      >
        <span style={share === null ? undefined : { width: `${share * 100}%` }} />
      </div>
      <p className="quiet">{facts.filter((text) => text !== '').join(' · ')}</p>
    </>
  );
}

/** Also above the log: what went wrong, what to do, and the way to the field that is to blame. */
export function Failure({ node, failure }: { node: string; failure: FailureInfo }) {
  const app = useApp();
  const { message, hint, parameter } = failure;
  return (
    <div className="failure" role="alert">
      <p className="failure-message">{sentence(message)}</p>
      {hint && (
        <p className="failure-hint">
          <WithCode text={hint} />
        </p>
      )}
      {parameter !== null && (
        <button
          type="button"
          className="btn btn-small"
          onClick={() => {
            app.goTo(node, parameter);
          }}
        >
          <CornerDownRight size={13} aria-hidden /> Go to field
        </button>
      )}
    </div>
  );
}

function InTheNext({ forecast }: { forecast: NodeForecast }) {
  return (
    <section aria-label="In the next run">
      <h3>In the next run</h3>
      <div className="result-line">
        <NodeState state={forecast.fresh ? 'fresh' : 'stale'} />
        {forecast.backend && <span className="quiet">{whereItRuns(forecast)}</span>}
      </div>
      {!forecast.fresh && forecast.reason && <p className="quiet">{sentence(forecast.reason)}</p>}
    </section>
  );
}

/**
 * The result that is kept. When it is this run's, it is shown above already. That of the values in the editor may be
 * older than this run, which had others: it is not called the last one.
 */
function LastMade({ last, fresh, thisRun }: { last: Last; fresh: boolean; thisRun: string | null }) {
  const now = useNow(false);
  if (last.run_id !== '' && last.run_id === thisRun) return null;
  const title = fresh ? 'Result with these values' : 'Last result';
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {last.made && <p>{last.made}</p>}
      <p className="quiet">
        {ago(last.created, now)}
        {last.run_id && (
          <>
            {' · '}
            <a href={runAddress(last.run_id)}>Open run</a>
          </>
        )}
      </p>
      <Outputs outputs={last.outputs} made={last.made} />
    </section>
  );
}

/** `made` is said above them already: of a single output it is the same words. */
function Outputs({ outputs, made }: { outputs: readonly OutputInfo[]; made: string }) {
  if (outputs.length === 0) return null;
  return (
    <ul className="outputs">
      {outputs.map((output) => (
        <li key={output.port}>
          <p>
            <span className="output-port">{output.port}</span> <span className="quiet">{output.kind}</span>
          </p>
          {output.figures && output.figures !== made && <p>{output.figures}</p>}
          <CopyLine text={output.uri} label={`Copy the place of ${output.port}`} />
        </li>
      ))}
    </ul>
  );
}

function CopyLine({ text, label }: { text: string; label: string }) {
  const app = useApp();
  return (
    <div className="copy-line">
      <code title={text}>{text}</code>
      <button
        type="button"
        className="btn btn-icon btn-tiny"
        aria-label={label}
        title="Copy"
        onClick={() => {
          void copy(app, text, 'Copied.', 'Select the text and copy it by hand.');
        }}
      >
        <Copy size={12} aria-hidden />
      </button>
    </div>
  );
}
