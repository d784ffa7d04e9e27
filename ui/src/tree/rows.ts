// From branches to the flat rows of the tree. Pure.

import { type Branches, lives, settled, taskLives } from "../state/branch.svelte";
import type { SessionId, SessionView, TaskId, TaskView } from "../wire";

/** A piece of rail: nothing, a hairline, or the green of what lives. */
export type Rail = "none" | "still" | "live";

/** What stands behind a fold: siblings that have settled, or those in the archive. */
export type Folded = "settled" | "archived";

type Place = {
  key: string;
  /** The row of the parent; none for a root. */
  parent: string | null;
  /** 0 for a root. */
  depth: number;
  posinset: number;
  setsize: number;
  /** One for each ancestor below the root: whether its rail goes on beside this row. */
  rails: Rail[];
  /** From the top edge to this row's own mark. */
  above: Rail;
  /** From this row's own mark on to the next sibling. */
  below: Rail;
  /** Whether the branch of this row lives. */
  live: boolean;
};

export type TreeRow = Place &
  (
    | { is: "session"; id: SessionId; parted: boolean; expanded: boolean; stem: Rail }
    | { is: "command"; id: TaskId }
    | { is: "fold"; of: Folded; count: number; expanded: boolean }
  );

export type Choices = {
  expanded: (view: SessionView) => boolean;
  unfolded: (key: string) => boolean;
  /** Whether a settled session keeps its row beside a fold. */
  keep: (view: SessionView) => boolean;
  shown: (task: TaskView) => boolean;
};

/** More settled siblings than this fold into one row. */
export const MOST_SETTLED = 7;

type Child =
  | { is: "session"; at: number; view: SessionView }
  | { is: "command"; at: number; task: TaskView }
  | { is: "fold"; of: Folded; at: number; key: string; count: number; expanded: boolean };

export function branchLives(view: SessionView): boolean {
  return lives(view.state) || view.live_below > 0;
}

export function buildRows(branches: Branches, choices: Choices): TreeRow[] {
  const rows: TreeRow[] = [];
  const lay = (owner: SessionId | null, parent: string | null, depth: number, rails: Rail[]) => {
    const children = archiveLast(childrenOf(branches, owner, choices), parent, choices);
    const lastLive = children.findLastIndex(childLives);
    for (const [index, child] of children.entries()) {
      const live = childLives(child);
      const last = index === children.length - 1;
      const below: Rail = last || depth === 0 ? "none" : index < lastLive ? "live" : "still";
      const place = {
        parent,
        depth,
        posinset: index + 1,
        setsize: children.length,
        rails,
        above: depth === 0 ? ("none" as const) : index <= lastLive ? ("live" as const) : ("still" as const),
        below,
        live,
      };
      if (child.is === "command") {
        rows.push({ ...place, is: "command", key: `t:${child.task.id}`, id: child.task.id });
      } else if (child.is === "fold") {
        const { key, of, count, expanded } = child;
        rows.push({ ...place, is: "fold", key, of, count, expanded });
      } else {
        const { id } = child.view;
        const key = `s:${id}`;
        const grand = childrenOf(branches, id, choices);
        const expanded = grand.length > 0 && choices.expanded(child.view);
        const stem: Rail = !expanded ? "none" : grand.some(childLives) ? "live" : "still";
        rows.push({ ...place, is: "session", key, id, parted: grand.length > 0, expanded, stem });
        if (expanded) lay(id, key, depth + 1, depth === 0 ? rails : [...rails, below]);
      }
    }
  };
  lay(null, null, 0, []);
  return rows;
}

/** Sessions and commands under one owner, in the order in which they began. */
function childrenOf(branches: Branches, owner: SessionId | null, choices: Choices): Child[] {
  const children: Child[] = [];
  for (const id of branches.childrenOf(owner)) {
    const view = branches.sessions.get(id);
    if (view !== undefined) children.push({ is: "session", at: view.created_at, view });
  }
  if (owner === null) return children;
  const commands = branches.commandsOf(owner);
  if (commands.length === 0) return children;
  for (const id of commands) {
    const task = branches.tasks.get(id);
    if (task !== undefined && choices.shown(task)) children.push({ is: "command", at: task.started_at, task });
  }
  return children.sort((a, b) => a.at - b.at);
}

/** The name of the fold that holds what is in the archive below a parent. */
export function archiveKey(parent: SessionId | null): string {
  return parent === null ? "x:" : `x:s:${parent}`;
}

/** Folds what is in the archive into one row behind all its siblings. */
function archiveLast(children: Child[], parent: string | null, choices: Choices): Child[] {
  const away = children.filter((child) => child.is === "session" && child.view.archived);
  if (away.length === 0) return folded(children, parent, choices);
  const key = `x:${parent ?? ""}`;
  const expanded = choices.unfolded(key);
  const fold: Child = { is: "fold", of: "archived", at: 0, key, count: away.length, expanded };
  const here = children.filter((child) => !away.includes(child));
  return [...folded(here, parent, choices), fold, ...(expanded ? away : [])];
}

/** Folds the settled siblings below a parent into one row, in the place of the first of them. */
function folded(children: Child[], parent: string | null, choices: Choices): Child[] {
  if (parent === null) return children;
  const folds = (child: Child) =>
    child.is === "session" && settled(child.view.state) && child.view.live_below === 0 && !choices.keep(child.view);
  const count = children.filter(folds).length;
  if (count <= MOST_SETTLED) return children;
  const key = `f:${parent}`;
  const expanded = choices.unfolded(key);
  const first = children.findIndex(folds);
  const fold: Child = { is: "fold", of: "settled", at: children[first]?.at ?? 0, key, count, expanded };
  const rest = expanded ? children : children.filter((child) => !folds(child));
  // Nothing before the first of them folds, so its place is the same in both lists.
  return [...rest.slice(0, first), fold, ...rest.slice(first)];
}

function childLives(child: Child): boolean {
  if (child.is === "session") return branchLives(child.view);
  return child.is === "command" && taskLives(child.task.status);
}
