// The keyboard of the tree. Pure: from a key and where the focus is to what is to be done.

import type { TreeRow } from "./rows";

export type Told =
  | { is: "focus"; index: number }
  | { is: "open" | "close" | "openAll" | "act" | "rename" | "archive" | "delete" };

type Key = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">;

/** What a key means at a row; null when it means nothing there. With `typeAhead`, letters jump by name. */
export function treeKey(
  event: Key,
  rows: readonly TreeRow[],
  at: number,
  typeAhead: boolean,
  nameOf: (row: TreeRow) => string,
): Told | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const row = rows[at];
  if (row === undefined) return null;
  const parted = row.is === "fold" || (row.is === "session" && row.parted);
  const expanded = row.is !== "command" && row.expanded;
  const key = typeAhead ? event.key : (LETTERS[event.key] ?? event.key);
  switch (key) {
    case "ArrowDown":
      return focus(rows, at + 1);
    case "ArrowUp":
      return focus(rows, at - 1);
    case "Home":
      return focus(rows, 0);
    case "End":
      return focus(rows, rows.length - 1);
    case "ArrowRight":
      if (!parted) return null;
      if (!expanded) return { is: "open" };
      return rows[at + 1]?.parent === row.key ? focus(rows, at + 1) : null;
    case "ArrowLeft": {
      if (parted && expanded) return { is: "close" };
      const parent = rows.findIndex((each) => each.key === row.parent);
      return parent < 0 ? null : focus(rows, parent);
    }
    case "Enter":
    case " ":
      return { is: "act" };
    case "*":
      return { is: "openAll" };
    case "F2":
      return { is: "rename" };
    case "Archive":
      return { is: "archive" };
    case "Delete":
      return { is: "delete" };
  }
  if (typeAhead && key.length === 1) {
    const letter = key.toLowerCase();
    for (let step = 1; step <= rows.length; step += 1) {
      const index = (at + step) % rows.length;
      const other = rows[index];
      if (other !== undefined && nameOf(other).toLowerCase().startsWith(letter)) return { is: "focus", index };
    }
  }
  return null;
}

const LETTERS: Readonly<Record<string, string>> = {
  j: "ArrowDown",
  k: "ArrowUp",
  l: "ArrowRight",
  h: "ArrowLeft",
  g: "Home",
  G: "End",
  e: "Archive",
};

function focus(rows: readonly TreeRow[], index: number): Told | null {
  return index < 0 || index >= rows.length ? null : { is: "focus", index };
}
