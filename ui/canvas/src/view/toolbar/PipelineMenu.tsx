/** The pipeline's name, whether its file is up to date, and what can be done with it as a whole. */

import {
  ChevronDown,
  CopyPlus,
  Download,
  FileCode,
  FilePlus,
  FolderOpen,
  History,
  LayoutTemplate,
  Pencil,
  Save,
  SaveAll,
  Trash2,
  Undo,
  Upload,
} from 'lucide-react';
import { useRef } from 'react';

import { save } from '../../state/commands';
import type { App } from '../../state/app';
import { useApp, useCanvas, useUnsaved, useUntouched } from '../../state/hooks';
import { openDialog } from '../../state/panels';
import { printed } from '../canvas/shortcuts';
import { importFile } from '../dialogs/importing';
import { Menu, type MenuGroups } from '../parts/Menu';

const SIZE = 14;

export function PipelineMenu() {
  const app = useApp();
  const name = useCanvas((s) => s.doc.name);
  const disk = useCanvas((s) => s.file?.disk);
  const unsaved = useUnsaved();
  const untouched = useUntouched();
  const chooser = useRef<HTMLInputElement>(null);
  return (
    <div className="pipeline-name">
      <Menu
        label={`Pipeline ${name}`}
        title={name}
        className="btn pipeline-button"
        groups={() => groups(app, () => chooser.current?.click())}
      >
        <span className="pipeline-title" dir="auto">
          {name}
        </span>
        {unsaved && !untouched && <span className="unsaved-dot" title="Unsaved changes" data-testid="unsaved" />}
        <ChevronDown size={14} aria-hidden />
      </Menu>
      {disk === 'new' && !untouched && <span className="tag">not saved</span>}
      {disk === 'changed' && <span className="tag tag-warning">changed on disk</span>}
      {disk === 'deleted' && <span className="tag tag-warning">deleted on disk</span>}
      <input
        ref={chooser}
        type="file"
        accept=".json,application/json"
        aria-label="JSON file to import"
        hidden
        onChange={(event) => {
          const [file] = event.currentTarget.files ?? [];
          if (file) void importFile(app, file);
          // The same file may be chosen again.
          event.currentTarget.value = '';
        }}
      />
    </div>
  );
}

function groups(app: App, chooseFile: () => void): MenuGroups {
  const { document, file } = app.state;
  if (document === null) return [];
  const noFile = file?.disk === 'new' ? 'It has no file yet' : '';
  return [
    [
      {
        label: 'New pipeline',
        icon: <FilePlus size={SIZE} />,
        onSelect: () => {
          app.say({ type: 'new', template: null });
        },
      },
      {
        label: 'New from template…',
        icon: <LayoutTemplate size={SIZE} />,
        onSelect: () => {
          openDialog({ kind: 'new' });
        },
      },
      {
        label: 'Open…',
        icon: <FolderOpen size={SIZE} />,
        onSelect: () => {
          openDialog({ kind: 'open' });
        },
      },
    ],
    [
      {
        label: 'Save',
        icon: <Save size={SIZE} />,
        hint: printed('Ctrl+S'),
        onSelect: () => {
          save(app);
        },
      },
      {
        label: 'Save as…',
        icon: <SaveAll size={SIZE} />,
        onSelect: () => {
          openDialog({ kind: 'save-as' });
        },
      },
      {
        label: 'Rename…',
        icon: <Pencil size={SIZE} />,
        onSelect: () => {
          openDialog({ kind: 'rename' });
        },
      },
      {
        label: 'Duplicate',
        icon: <CopyPlus size={SIZE} />,
        onSelect: () => {
          app.say({ type: 'duplicate', document });
        },
      },
      {
        label: 'Version history…',
        icon: <History size={SIZE} />,
        onSelect: () => {
          openDialog({ kind: 'history', document });
        },
      },
      {
        label: 'Revert to saved…',
        icon: <Undo size={SIZE} />,
        unavailable: noFile || (file?.disk === 'deleted' ? 'Its file was deleted' : ''),
        onSelect: () => {
          openDialog({ kind: 'revert' });
        },
      },
    ],
    [
      {
        label: 'Export code…',
        icon: <FileCode size={SIZE} />,
        onSelect: () => {
          openDialog({ kind: 'export-code' });
        },
      },
      { label: 'Import JSON…', icon: <Upload size={SIZE} />, onSelect: chooseFile },
      {
        label: 'Export JSON',
        icon: <Download size={SIZE} />,
        onSelect: () => {
          app.say({ type: 'export', document });
        },
      },
    ],
    [
      {
        label: 'Delete…',
        icon: <Trash2 size={SIZE} />,
        danger: true,
        onSelect: () => {
          openDialog({ kind: 'delete' });
        },
      },
    ],
  ];
}
