// The figures of the open node, own and branch. Pure.

import { clock } from "../format";
import { lives } from "../state/branch.svelte";
import type { SessionView } from "../wire";

/** How long the branch takes or took for what it was asked last, to the second; empty before the first. */
export function elapsedOf(view: SessionView, now: number): string {
  if (view.asked_at === null) return "";
  const works = lives(view.state) || view.live_below > 0;
  const until = view.rested_at ?? (works ? now : null);
  return until === null ? "" : clock(until - view.asked_at);
}

/** How long the session's own turns of that take or took, to the second; empty where it had none. */
export function ownElapsed(view: SessionView, now: number): string {
  const running = view.started_at !== null && view.ended_at === null ? Math.max(0, now - view.started_at) : 0;
  return view.started_at === null ? "" : clock(view.worked_ms + running);
}
