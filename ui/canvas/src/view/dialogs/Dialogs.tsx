/** The dialog that is open, if one is; and what comes and goes as files. */

import { useEffect } from 'react';

import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog, usePanels, type Dialog } from '../../state/panels';
import { ConfirmAllow, ConfirmDelete, ConfirmOverwrite, ConfirmRevert } from './Confirm';
import { LookDialog } from '../look/LookDialog';
import { DropZone } from './DropZone';
import { ExportDialog } from './ExportDialog';
import { FileBrowser } from './FileBrowser';
import { HelpDialog } from './HelpDialog';
import { HistoryDialog } from './HistoryDialog';
import { download } from './importing';
import { NameDialog } from './NameDialog';
import { OpenDialog } from './OpenDialog';
import { ParametersDialog } from './ParametersDialog';
import { RunDialog } from './RunDialog';

export function Dialogs() {
  const app = useApp();
  const dialog = usePanels((p) => p.dialog);
  const document = useCanvas((s) => s.document);
  useEffect(() => {
    app.onExported(download);
  }, [app]);
  // What a dialog was opened for is gone with the document.
  useEffect(() => closeDialog, [document]);
  return (
    <>
      <DropZone />
      {dialog && <Opened dialog={dialog} />}
    </>
  );
}

function Opened({ dialog }: { dialog: Dialog }) {
  switch (dialog.kind) {
    case 'open':
      return <OpenDialog only={null} />;
    case 'new':
      return <OpenDialog only="templates" />;
    case 'save-as':
    case 'rename':
      return <NameDialog key={dialog.kind} kind={dialog.kind} />;
    case 'delete':
      return <ConfirmDelete />;
    case 'revert':
      return <ConfirmRevert />;
    case 'overwrite':
      return <ConfirmOverwrite />;
    case 'history':
      return <HistoryDialog document={dialog.document} />;
    case 'export-code':
      return <ExportDialog />;
    case 'allow':
      return <ConfirmAllow path={dialog.path} />;
    case 'parameters':
      return <ParametersDialog />;
    case 'run':
      return <RunDialog asked={dialog} />;
    case 'help':
      return <HelpDialog />;
    case 'look':
      return <LookDialog key={dialog.views.map(({ key }) => key).join()} looking={dialog} />;
    case 'browse':
      return <FileBrowser browsing={dialog} />;
  }
}
