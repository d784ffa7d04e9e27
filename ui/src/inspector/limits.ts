// The limits in words. Pure.

import { clock, tokens } from "../format";
import type { Limits, Notices, TreeLimits } from "../wire";

/** A limit: its name, its bound in words, and whether it counts one tree or something smaller. */
export type Bound = { name: string; bound: string; of: string };

export function bounds(limits: Limits): Bound[] {
  const some = (n: number, words: string) => (n === 0 ? "none" : words);
  return [
    { name: "Tokens", bound: some(limits.tokens, tokens(limits.tokens)), of: "tree" },
    { name: "Money", bound: some(limits.money_usd, `$${limits.money_usd.toFixed(2)}`), of: "tree" },
    { name: "Time", bound: some(limits.wall_clock_s, clock(limits.wall_clock_s * 1000)), of: "tree" },
    { name: "Children", bound: some(limits.children, String(limits.children)), of: "tree" },
    { name: "Children at once", bound: some(limits.live_children, String(limits.live_children)), of: "tree" },
    {
      name: "Tasks at once",
      bound: some(limits.live_tasks_per_owner, String(limits.live_tasks_per_owner)),
      of: "session",
    },
    { name: "Depth", bound: some(limits.depth, String(limits.depth)), of: "tree" },
    { name: "The same calls in a row", bound: some(limits.same_calls, String(limits.same_calls)), of: "turn" },
    { name: "Failed steps in a row", bound: some(limits.failed_steps, String(limits.failed_steps)), of: "turn" },
    { name: "Requests in a turn", bound: some(limits.step_limit, String(limits.step_limit)), of: "turn" },
    { name: "Without a sign of life", bound: some(limits.idle_s, clock(limits.idle_s * 1000)), of: "run" },
    { name: "Wakes until you speak", bound: some(limits.wake_budget, String(limits.wake_budget)), of: "session" },
    { name: "Force after", bound: `${(limits.stop_grace_ms / 1000).toFixed(1)} s`, of: "stop" },
  ];
}

/** A limit that a tree can have of its own: its key on the wire, its words, and how many of the wire's units one is. */
export type Own = { key: "tokens" | "wall_clock_s" | "children" | "live_children"; label: string; unit: number };

export const OWN: readonly Own[] = [
  { key: "tokens", label: "Tokens", unit: 1 },
  { key: "wall_clock_s", label: "Minutes at work", unit: 60 },
  { key: "children", label: "Children", unit: 1 },
  { key: "live_children", label: "Children at once", unit: 1 },
];

/** What of a form differs from the limits in force, as the wire takes it; null when a field holds no number. */
export function changed(fields: Readonly<Record<Own["key"], string>>, now: Limits): TreeLimits | null {
  const limits: TreeLimits = {};
  for (const { key, unit } of OWN) {
    const text = fields[key].trim();
    const size = Math.round(Number(text === "" ? "0" : text.replaceAll(",", "")) * unit);
    if (!Number.isSafeInteger(size) || size < 0) return null;
    if (size !== now[key]) limits[key] = size;
  }
  return limits;
}

export function noticeWords(notices: Notices): { wake: string; desktop: string } {
  const desktop = {
    tasks: "When a task ends or something needs you",
    roots: "When a session ends or something needs you",
    asks: "Only when something needs you",
    off: "Never",
  }[notices.desktop];
  return { wake: notices.wake ? "Wakes an idle session" : "Waits until you speak", desktop };
}
