import { useCanvas } from '../../state/hooks';

/** Whether there is something that the pipeline's file does not hold. An edit on its way counts already. */
export function useUnsaved(): boolean {
  return useCanvas(
    ({ file, pending }) => pending.length > 0 || (file !== null && (file.dirty || file.disk !== 'same')),
  );
}
