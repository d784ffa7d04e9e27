// The limits in words. Pure.

import { clock, tokens } from "../format";
import type { Limits, Notices } from "../wire";

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
    { name: "Requests in a turn", bound: some(limits.step_limit, String(limits.step_limit)), of: "turn" },
    { name: "Without a sign of life", bound: some(limits.idle_s, clock(limits.idle_s * 1000)), of: "run" },
    { name: "Wakes until you speak", bound: some(limits.wake_budget, String(limits.wake_budget)), of: "session" },
    { name: "Force after", bound: `${(limits.stop_grace_ms / 1000).toFixed(1)} s`, of: "stop" },
  ];
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
