// Rows and sessions for tests.

import type { MessageReceipt, Row, SessionView, ToolResultRow } from "../wire";

export function made(change: Partial<SessionView> = {}): SessionView {
  return {
    id: "s",
    parent: null,
    root: "s",
    depth: 0,
    title: "Port the solver",
    label: null,
    provider: null,
    model: "local",
    mode: "ask",
    cwd: "/w",
    state: "idle",
    detail: "",
    live_below: 0,
    needs_you: 0,
    task: null,
    last_sign_at: 0,
    created_at: 0,
    asked_at: null,
    rested_at: null,
    worked_ms: 0,
    started_at: null,
    ended_at: null,
    stopped_by: null,
    step: 3,
    archived: false,
    steerable: false,
    tokens: { input: 0, output: 0, cached: 0, estimated: false, requests: 0 },
    cost: null,
    last_n: 10,
    ...change,
  };
}

type Body = Row extends infer R ? (R extends Row ? Omit<R, "n" | "part" | "at" | "step"> : never) : never;

export function row(n: number, body: Body, step: number | null = null, part = 0): Row {
  return { n, part, at: 1_000 * n, step, ...body } as Row;
}

export function result(text = "", change: Partial<ToolResultRow> = {}): ToolResultRow {
  return { ok: true, text, bytes: text.length, lines: text.split("\n").length, detail: null, ms: 400, ...change };
}

export function tool(
  name: string,
  target: string,
  done: ToolResultRow | null = result("x"),
  call = `${name} ${target}`,
): Body {
  return { kind: "tool", call, tool: name, target, args: "{}", result: done };
}

export const answer = (text: string): Body => ({ kind: "answer", text, stop: "complete" });
/** A message that waits, or was read at a step. */
export function message(text: string, read: number | null = null): Body {
  const receipt: MessageReceipt = read === null ? { is: "accepted" } : { is: "admitted", step: read, route: "started" };
  return { kind: "message", text, receipt };
}
