/** An icon for each category of nodes. */

import {
  BrainCircuit,
  ChartNoAxesColumn,
  CircleQuestionMark,
  Database,
  FolderInput,
  Puzzle,
  Target,
  type LucideIcon,
} from 'lucide-react';

const BY_CATEGORY: Readonly<Record<string, LucideIcon>> = {
  Sources: FolderInput,
  Storage: Database,
  Data: ChartNoAxesColumn,
  Training: BrainCircuit,
  Use: Target,
};

/** The icon of a category; a puzzle piece for those that users bring, a question mark for unknown nodes. */
export function iconOf(category: string | undefined): LucideIcon {
  if (category === undefined) return CircleQuestionMark;
  return Object.hasOwn(BY_CATEGORY, category) ? (BY_CATEGORY[category] ?? Puzzle) : Puzzle;
}
