// The figures of the open node, own and branch. Pure.

import { clock } from "../format";
import { lives } from "../state/branch.svelte";
import type { SessionView } from "../wire";

/** How long the last turn took or takes, to the second; empty before the first. */
export function ownElapsed(view: SessionView, now: number): string {
  if (view.started_at === null) return "";
  return clock((lives(view.state) ? now : (view.ended_at ?? now)) - view.started_at);
}

/** From the beginning of the last turn to the end of all that it started; to now while any of it lives. */
export function branchElapsed(view: SessionView, below: readonly SessionView[], now: number): string {
  if (view.started_at === null) return "";
  const began = view.started_at;
  if (lives(view.state) || view.live_below > 0) return clock(now - began);
  const ends = [view, ...below].map((each) => each.ended_at ?? 0).filter((end) => end >= began);
  return clock(Math.max(began, ...ends) - began);
}
