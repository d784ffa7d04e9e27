// Where someone reads, as numbers. Pure.

import type { Anchor } from "../state/memory";
import type { Item } from "./items";

/** The end is in view when fewer pixels than this are below. */
const NEAR = 24;

export function atEnd(box: { scrollTop: number; scrollHeight: number; clientHeight: number }): boolean {
  return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
}

/**
 * How a list came to be from the one before. `shift`: items came or went at its start only, so the place is kept from
 * the end. `both`: they did at both ends, and `anchor` is where the first item that stayed stands now.
 */
export function aheadOf(
  before: readonly Item[],
  now: readonly Item[],
): { shift: boolean; both: boolean; anchor: number | null } {
  const [first, last] = [before[0]?.key, before.at(-1)?.key];
  const same = { shift: false, both: false, anchor: null };
  if (first === undefined || first === now[0]?.key) return same;
  if (last === now.at(-1)?.key) return { shift: true, both: false, anchor: null };
  const anchor = now.findIndex((item) => item.key === first);
  return anchor === -1 ? same : { shift: false, both: true, anchor };
}

/** The row that an item's key names; none for what the log does not hold. */
export function keyParts(key: string): { n: number; part: number } | null {
  const match = /^(\d+):(\d+)$/.exec(key);
  return match === null ? null : { n: Number(match[1]), part: Number(match[2]) };
}

/** The item that holds the row of an anchor, or the last one before it. */
export function anchorIndex(items: readonly Item[], anchor: Anchor): number {
  let found = 0;
  for (const [index, item] of items.entries()) {
    const parts = keyParts(item.key);
    if (parts === null || parts.n > anchor.n || (parts.n === anchor.n && parts.part > anchor.part)) break;
    found = index;
  }
  return found;
}
