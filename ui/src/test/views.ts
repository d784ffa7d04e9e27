import type { AskView, Frame, Row, SessionId, SessionView, TaskId, TaskView } from "../wire";

/** A session with plain values, changed by `change`. */
export function aSession(id: SessionId, change: Partial<SessionView> = {}): SessionView {
  const parent = change.parent ?? null;
  return {
    id,
    parent,
    root: parent ?? id,
    depth: parent === null ? 0 : 1,
    title: `Title of ${id}`,
    label: null,
    provider: parent === null ? null : "spawn",
    model: "local",
    mode: "ask",
    cwd: "/home/me/work",
    state: "idle",
    detail: "",
    live_below: 0,
    needs_you: 0,
    task: null,
    last_sign_at: 1_000,
    created_at: 1_000,
    asked_at: null,
    rested_at: null,
    worked_ms: 0,
    started_at: null,
    ended_at: null,
    stopped_by: null,
    step: 0,
    archived: false,
    steerable: false,
    tokens: { input: 0, output: 0, cached: 0, estimated: false, requests: 0 },
    cost: null,
    last_n: 1,
    ...change,
  };
}

export function aTask(id: TaskId, owner: SessionId, change: Partial<TaskView> = {}): TaskView {
  return {
    id,
    kind: "bash",
    label: `command ${id}`,
    owner,
    child: null,
    status: "running",
    detail: null,
    killed_by: null,
    started_at: 1_000,
    settled_at: null,
    ...change,
  };
}

export function aFrame(change: Partial<Frame> = {}): Frame {
  return { seq: 1, sessions: [], removed: [], tasks: [], asks: [], rows: [], live: null, status: null, ...change };
}

export function anAnswer(n: number, step: number, text = `Answer ${n}`): Row {
  return { n, part: 0, at: n, step, kind: "answer", text, stop: "complete" };
}

export function anAsk(id: string, session: SessionId, change: Partial<AskView> = {}): AskView {
  return {
    id,
    session,
    lineage: [{ id: session, title: `Title of ${session}` }],
    cwd: "/home/me/work",
    call: `call-${id}`,
    tool: "bash",
    action: { kind: "command", text: `make ${id}`, background: false },
    allows: { kind: "command", text: `make ${id}` },
    reason: { rule: "unknown", text: "make is not known to only read." },
    said: null,
    n: 5,
    asked_at: 1_000,
    state: "open",
    note: null,
    decided_at: null,
    waits: true,
    owed: false,
    used: 0,
    ...change,
  };
}
