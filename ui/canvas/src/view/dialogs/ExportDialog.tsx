/** The pipeline as code: what `voxelflow export` writes, as a download. */

import { Download } from 'lucide-react';
import { useState } from 'react';

import type { ExportCode } from '../../protocol';
import { chosenProfile } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog } from '../../state/panels';
import { Dialog } from '../parts/Dialog';

type Target = ExportCode['target'];

const TARGETS: readonly (readonly [Target, string, string])[] = [
  ['python', 'Python program', 'One file to read, change and run with python or spark-submit.'],
  ['airflow', 'Airflow', 'A DAG whose one task is the whole run, and its workspace.'],
  ['databricks', 'Databricks', 'An asset bundle whose cluster follows the profile.'],
  ['github', 'GitHub Actions', 'A workflow that runs the program.'],
  ['kubernetes', 'Kubernetes', 'A Job; under a Spark profile, arguments for spark-submit and templates for pods.'],
];

export function ExportDialog() {
  const app = useApp();
  const document = useCanvas((s) => s.document);
  const [target, setTarget] = useState<Target>('python');
  const profile = chosenProfile(app);
  const submit = () => {
    if (document === null || profile === null) return;
    closeDialog();
    app.say({ type: 'export-code', document, profile, target });
  };
  return (
    <Dialog
      title="Export code"
      size="medium"
      onClose={closeDialog}
      onSubmit={submit}
      footer={
        <>
          <button type="button" className="btn" onClick={closeDialog}>
            Cancel
          </button>
          <button type="submit" className="btn btn-primary" data-autofocus>
            <Download size={14} aria-hidden /> Download
          </button>
        </>
      }
    >
      <fieldset className="export-targets">
        <legend className="quiet">For the profile {profile}, with the values that the pipeline holds now.</legend>
        {TARGETS.map(([value, name, text]) => (
          <label key={value} className="export-target">
            <input
              type="radio"
              name="target"
              checked={target === value}
              onChange={() => {
                setTarget(value);
              }}
            />
            <span className="strong">{name}</span>
            <span className="quiet">{text}</span>
          </label>
        ))}
      </fieldset>
      <p className="quiet">
        It may be for another machine: whether the folders are there is not asked. Credentials are named, never written.
        On the command line: <code>voxelflow export --to {target}</code>
      </p>
    </Dialog>
  );
}
