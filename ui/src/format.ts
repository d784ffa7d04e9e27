// Figures and times as people read them. Pure; the clock is an argument.

import type { SessionState } from "./wire";

/** A span in words: "48 s", "6 min", "1 h 04". */
export function elapsed(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${two(minutes % 60)}`;
}

/** A span to the second: "0:48", "6:12", "1:04:09". */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** A short span with its tenth: "0.4 s"; whole seconds from ten on, then minutes. */
export function took(ms: number): string {
  if (ms < 9_950) return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
  return ms < 60_000 ? `${Math.round(ms / 1000)} s` : clock(ms);
}

/** Tokens: "840", "184k", "2.4M"; empty for none. */
export function tokens(count: number): string {
  if (count <= 0) return "";
  if (count < 1_000) return String(count);
  if (count < 9_950) return `${trim((count / 1_000).toFixed(1))}k`;
  if (count < 999_500) return `${Math.round(count / 1_000)}k`;
  return `${trim((count / 1_000_000).toFixed(1))}M`;
}

/** US dollars; empty when unknown, "at least" when a part of the sum is unknown. */
export function cost(known: number | null, partly = false): string {
  if (known === null) return "";
  const figure = known > 0 && known < 0.01 ? "under $0.01" : `$${known.toFixed(2)}`;
  return partly && known >= 0.01 ? `at least ${figure}` : figure;
}

/** The time of day, and the day too when it is another one: "10:37", "yesterday 18:40", "Tue 18:40", "12 Nov 18:40". */
export function moment(at: number, now: number): string {
  const time = new Date(at);
  const hour = `${two(time.getHours())}:${two(time.getMinutes())}`;
  const on = day(at, now);
  return on === "" ? hour : `${on} ${hour}`;
}

/** The day, when it is not today: "yesterday", "Tue", "12 Nov", "12 Nov 2023". */
export function day(at: number, now: number): string {
  const then = new Date(at);
  const today = new Date(now);
  const days = Math.round((midnight(today) - midnight(then)) / 86_400_000);
  if (days <= 0) return "";
  if (days === 1) return "yesterday";
  if (days < 7) return WEEKDAYS[then.getDay()] ?? "";
  const date = `${then.getDate()} ${MONTHS[then.getMonth()] ?? ""}`;
  return then.getFullYear() === today.getFullYear() ? date : `${date} ${then.getFullYear()}`;
}

/** The time of day to the second. */
export function second(at: number): string {
  const time = new Date(at);
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** How long ago, in the largest unit that says something: "now", "2 s ago", "4 min ago", "2 h ago", "3 days ago". */
export function ago(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 1) return "now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
}

/** A size: "512 B", "32 KB", "1.2 MB". */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  if (n < 999_500) return `${Math.round(n / 1000)} KB`;
  return `${(n / 1_000_000).toFixed(1)} MB`;
}

/** How often: "once", "twice", "5 times". */
export function times(n: number): string {
  return n === 1 ? "once" : n === 2 ? "twice" : `${n} times`;
}

/** A counted noun: "1 child", "3 children". */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** How many run: "1 runs", "3 run". */
export function runs(n: number): string {
  return `${n} ${n === 1 ? "runs" : "run"}`;
}

/** A folder as people write it: the home folder as "~". */
export function folder(path: string): string {
  return path.replace(/^\/(?:home|Users)\/[^/]+(?=\/|$)/, "~");
}

/** The word for a state, where a row has nothing of its own to say first. */
export const STATE_WORDS: Readonly<Record<SessionState, string>> = {
  idle: "idle",
  starting: "starting",
  running: "running",
  waiting: "needs you",
  stopping: "stopping",
  completed: "completed",
  failed: "failed",
  killed: "stopped",
  interrupted: "interrupted",
  unverified: "unverified",
};

function two(n: number): string {
  return n < 10 ? `0${n}` : String(n);
}

function trim(figure: string): string {
  return figure.endsWith(".0") ? figure.slice(0, -2) : figure;
}

function midnight(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
