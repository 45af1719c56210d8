/** The pipeline's parameters, from wherever one is. */

import { closeDialog } from '../../state/panels';
import { FormEpoch, useFormUndo } from '../parts/typed';
import { PipelineParameters } from '../inspector/PipelineParameters';
import { Dialog } from '../parts/Dialog';

export function ParametersDialog() {
  const { epoch, onKeyDown } = useFormUndo();
  return (
    <Dialog
      title="Pipeline parameters"
      size="medium"
      onClose={closeDialog}
      footer={
        <button type="button" className="btn btn-primary" onClick={closeDialog}>
          Done
        </button>
      }
    >
      {/* eslint-disable-next-line jsx-a11y/no-static-element-interactions -- listens to what the fields let pass */}
      <div onKeyDown={onKeyDown}>
        <FormEpoch value={epoch}>
          <PipelineParameters />
        </FormEpoch>
      </div>
    </Dialog>
  );
}
