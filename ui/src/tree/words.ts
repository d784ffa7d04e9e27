// What a row of the tree says. Pure.

import { day, elapsed, runs, STATE_WORDS, tokens } from "../format";
import { deedOf } from "../inbox/words";
import { lives, type Sum, settled } from "../state/branch.svelte";
import { oneLine } from "../text/clean";
import type { AskView, Party, SessionState, SessionView, TaskView } from "../wire";

/** The second line: a state word that may be coloured, what follows it, and what the branch does. */
export type Line = {
  /** Empty when the line says what a running session does. */
  word: string;
  /** The state whose colour the word has; none for ink. */
  tone: SessionState | null;
  rest: string;
  /** "5 run below"; empty when there is nothing to say. */
  below: string;
  /** "1 needs you"; empty when nothing does. */
  needs: string;
};

const MOST_TITLE = 300;

const TONED: ReadonlySet<SessionState> = new Set(["waiting", "failed", "interrupted"]);

/** Titles come from models too: they are shown as one line of plain words. */
export function titleOf(view: SessionView): string {
  return oneLine(view.title, MOST_TITLE) || oneLine(view.label ?? "", MOST_TITLE) || "New session";
}

/** A command as one line. */
export function commandOf(task: TaskView): string {
  return oneLine(task.label, MOST_TITLE);
}

/** The state that the glyph shows: what needs the person outranks how a session that is not at work ended. */
export function markOf(view: SessionView, own: readonly AskView[]): SessionState {
  return own.length > 0 && !lives(view.state) ? "waiting" : view.state;
}

/** "1 needs you": the asks further down. */
export function needsBelow(view: SessionView, own: readonly AskView[]): string {
  const needs = view.needs_you - Math.max(own.length, view.state === "waiting" ? 1 : 0);
  return needs > 0 ? `${needs} ${needs === 1 ? "needs" : "need"} you` : "";
}

/** `own` are the asks of the session itself that wait. */
export function lineOf(seen: SessionView, expanded: boolean, now: number, own: readonly AskView[] = []): Line {
  const state = markOf(seen, own);
  const asked = own[0];
  // A session that is not at work says nothing of what it asks for.
  const detail =
    state === "waiting" && seen.state !== "waiting" && asked !== undefined
      ? deedOf(asked.action).toLowerCase()
      : seen.detail;
  const view = {
    ...seen,
    state,
    detail: own.length > 1 && state === "waiting" ? `${detail}, ${own.length - 1} more` : detail,
  };
  const sayBelow = !(lives(state) && expanded);
  return {
    word: state === "running" ? "" : state === "killed" ? stoppedBy(view.stopped_by) : STATE_WORDS[state],
    tone: TONED.has(state) ? state : null,
    rest: restOf(view, now),
    below: sayBelow && view.live_below > 0 ? `${runs(view.live_below)} below` : "",
    needs: sayBelow ? needsBelow(seen, own) : "",
  };
}

function restOf(view: SessionView, now: number): string {
  const { state } = view;
  const detail = oneLine(view.detail, MOST_TITLE);
  if (state === "running") return detail || "running";
  if (state === "unverified") return detail || `no sign for ${elapsed(now - view.last_sign_at)}`;
  if (state === "interrupted") return detail || "can resume";
  if (detail.toLowerCase() === STATE_WORDS[state]) return "";
  // The detail of a turn that was stopped says by whom, as the word does; that of an activation says more.
  if (state === "killed" && view.task === null) return "";
  return detail;
}

function stoppedBy(by: Party | null): string {
  return by === null ? STATE_WORDS.killed : `stopped ${byWords(by)}`;
}

/** Who did it: "by you", "by its parent", "by a limit". */
export function byWords(by: Party): string {
  switch (by) {
    case "person":
      return "by you";
    case "parent":
    case "owner":
      return "by its parent";
    case "limit":
      return "by a limit";
    case "runtime":
      return "by Coppice";
  }
}

/** The second line of a command's row. */
export function commandLine(task: TaskView): Line {
  const word =
    task.status === "running" ? "" : task.status === "killed" ? stoppedBy(task.killed_by) : STATE_WORDS[task.status];
  const detail = oneLine(task.detail ?? "", MOST_TITLE);
  const rest = task.status === "running" ? detail || "running" : detail === word ? "" : detail;
  return { word, tone: TONED.has(task.status) ? task.status : null, rest, below: "", needs: "" };
}

/**
 * How long the branch takes or took for what it was asked last; for a root of another day, the day. What goes on is
 * counted to its last sign or to `coarse`, the later: the row moves with evidence, not with the clock.
 */
export function ageOf(view: SessionView, coarse: number): string {
  const live = lives(view.state) || view.live_below > 0;
  const last = view.rested_at ?? view.last_sign_at;
  if (view.depth === 0 && !live) {
    const on = day(last, coarse);
    if (on !== "") return on;
  }
  if (view.asked_at === null || (!live && view.rested_at === null)) return "";
  return elapsed((view.rested_at ?? Math.max(coarse, view.last_sign_at)) - view.asked_at);
}

export function commandAge(task: TaskView, coarse: number): string {
  return elapsed((task.settled_at ?? Math.max(coarse, task.started_at)) - task.started_at);
}

/** Own tokens, or the branch's, marked, when its rows are hidden. */
export function figureOf(view: SessionView, sum: Sum, hidden: boolean): string {
  const total = hidden ? sum.input + sum.output : view.tokens.input + view.tokens.output;
  const figure = tokens(total);
  return hidden && figure !== "" ? `Σ ${figure}` : figure;
}

/** Whether the words of a row step back: it ended well, or was ended. */
export function receded(view: SessionView): boolean {
  return settled(view.state) && view.live_below === 0 && (view.state === "completed" || view.state === "killed");
}
