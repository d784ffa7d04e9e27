// What an ask says, in words. Pure.

import { ago, clock, elapsed, folder, moment, times } from "../format";
import type { IconName } from "../icons/names";
import { exactLine } from "../text/clean";
import type { Action, Allowed, AskState, AskView } from "../wire";

/** Whether an ask still waits for the person. */
export function asksNow(state: AskState): boolean {
  return state === "open" || state === "later";
}

/** An ask goes forward only: of two that are told, the one that is further is the newer one. */
export function rank(state: AskState): number {
  return state === "open" ? 0 : state === "later" ? 1 : 2;
}

/** Of two states that are told of one ask, the newer one. */
export function newer(one: AskState, other: AskState | undefined): AskState {
  return other !== undefined && rank(other) > rank(one) ? other : one;
}

type Kind = Action["kind"];

/** What it would do, in a few words. */
export const DEEDS: Readonly<Record<Kind, string>> = {
  command: "Run a command",
  write: "Write a file",
  read: "Read a file or folder",
};

const QUESTIONS: Readonly<Record<Kind, string>> = {
  command: "May it run this command?",
  write: "May it write this file?",
  read: "May it read this?",
};

export function deedOf(action: Action): string {
  return DEEDS[action.kind];
}

export function questionOf(action: Action): string {
  return QUESTIONS[action.kind];
}

/** The whole command, or the whole path, as the model wrote it. */
export function exactOf(action: Action): string {
  return action.kind === "command" ? action.text : action.path;
}

/** What became of an ask, with its mark. */
export function becameOf(state: AskState): { words: string; icon: IconName } {
  switch (state) {
    case "open":
      return { words: "Waits for you", icon: "clock" };
    case "later":
      return { words: "Put off", icon: "clock" };
    case "once":
      return { words: "Allowed once", icon: "check" };
    case "branch":
      return { words: "Allowed for the branch", icon: "check" };
    case "always":
      return { words: "Always allowed", icon: "check" };
    case "denied":
      return { words: "Denied", icon: "cross" };
    case "withdrawn":
      return { words: "Taken back", icon: "dash" };
  }
}

/** What followed an answer: "used 4 times since"; empty when there is nothing to say. */
export function followedOf(ask: AskView): string {
  if (ask.state === "once" && ask.owed) return "not used yet";
  if (ask.state === "branch" || ask.state === "always") return ask.used === 0 ? "" : `used ${times(ask.used)} since`;
  if (ask.state === "withdrawn" && ask.note !== null) return exactLine(ask.note, 200);
  return "";
}

/** For how long it waits: to the second in the first hour. */
export function waitedFor(ask: AskView, now: number): string {
  const ms = now - ask.asked_at;
  return ms < 3_600_000 ? clock(ms) : ms < 86_400_000 ? elapsed(ms) : ago(ms).replace(/ ago$/, "");
}

/** Since when, and what stands still meanwhile. */
export function pausedOf(ask: AskView, now: number, coarse: number): string {
  if (!ask.waits) {
    const when = moment(ask.asked_at, coarse);
    return `Asked ${when}. Coppice was closed since, so its call does not wait any more; your answer wakes it.`;
  }
  const it = ask.lineage.length > 1 ? "child" : "session";
  const since = `Asked ${waitedFor(ask, now)} ago.`;
  return ask.state === "later"
    ? `${since} You put it off, and this ${it} stays paused.`
    : `${since} Only this ${it} is paused.`;
}

/** What an answer for more than one call allows: exactly this, and where. */
export function allowedOf(what: Allowed, cwd: string): string {
  switch (what.kind) {
    case "command":
      return "exactly this command in this folder";
    case "write":
      return `writing ${exactLine(what.path)}, whatever the change, from ${exactLine(folder(cwd))}`;
    case "read":
      return `reading ${exactLine(what.path)} from ${exactLine(folder(cwd))}`;
  }
}

/** What was decided before about exactly the same. */
export function beforeOf(before: AskView, now: number): string {
  const words = becameOf(before.state).words.toLowerCase();
  const used = followedOf(before);
  return `The same, ${words} by you, ${moment(before.decided_at ?? before.asked_at, now)}${used === "" ? "" : `, ${used}`}`;
}
