// The figures of the open node, own and branch. Pure.

import { clock } from "../format";
import { lives, taskLives } from "../state/branch.svelte";
import type { SessionView, TaskView } from "../wire";

/** How long the last turn took or takes, to the second; empty before the first. */
export function ownElapsed(view: SessionView, now: number): string {
  const span = spanOf(view, now);
  return span === null ? "" : clock(span.to - span.from);
}

/**
 * How long something of the branch worked: the last turns of the session and of all below it, and the commands that
 * run, with what overlaps counted once. So it is never less than any of its parts, and the time in which all of them
 * rested is not in it.
 */
export function branchElapsed(
  view: SessionView,
  below: readonly SessionView[],
  running: readonly TaskView[],
  now: number,
): string {
  const sessions = [view, ...below].map((each) => spanOf(each, now));
  const commands = running.filter((task) => taskLives(task.status)).map((task) => ({ from: task.started_at, to: now }));
  const spans = [...sessions, ...commands].filter((span) => span !== null).sort((a, b) => a.from - b.from);
  if (spans.length === 0) return "";
  let [total, reached] = [0, Number.NEGATIVE_INFINITY];
  for (const { from, to } of spans) {
    total += Math.max(0, to - Math.max(from, reached));
    reached = Math.max(reached, to);
  }
  return clock(total);
}

type Span = { from: number; to: number };

/** The last turn of a session; none before the first. */
function spanOf(view: SessionView, now: number): Span | null {
  if (view.started_at === null) return null;
  return { from: view.started_at, to: lives(view.state) ? now : (view.ended_at ?? now) };
}
