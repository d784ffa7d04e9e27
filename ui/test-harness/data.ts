// Invented sessions, after the design's main page.

import type {
  Commands,
  Frame,
  Receipt,
  ReceiptItem,
  Row,
  SessionId,
  SessionState,
  SessionView,
  TaskStatus,
  TaskView,
} from "../src/wire";

const NOW = Date.now();
const MIN = 60_000;
const DAY = 86_400_000;

export function session(
  id: string,
  parent: string | null,
  title: string,
  state: SessionState,
  detail: string,
  more: Partial<SessionView> & { age?: number; ran?: number; k?: number } = {},
): SessionView {
  const { age = 6 * MIN, ran, k = 0, ...rest } = more;
  const live = ["running", "starting", "waiting", "stopping", "unverified"].includes(state);
  const started = NOW - age;
  return {
    id,
    parent,
    root: parent === null ? id : "release",
    depth: parent === null ? 0 : 1,
    title,
    label: parent === null ? null : title,
    provider: parent === null ? null : "spawn",
    model: "local",
    mode: "ask",
    cwd: "/home/me/src/tidewater",
    state,
    detail,
    live_below: 0,
    needs_you: 0,
    task: parent === null ? null : `task-${id}`,
    last_sign_at: live ? NOW - 2000 : started + (ran ?? age),
    created_at: started,
    asked_at: started,
    rested_at: live || (rest.live_below ?? 0) > 0 ? null : started + (ran ?? age),
    worked_ms: live ? 0 : (ran ?? age),
    started_at: started,
    ended_at: live ? null : started + (ran ?? age),
    stopped_by: state === "killed" ? "person" : null,
    step: 10,
    archived: false,
    steerable: state === "running",
    tokens: { input: Math.round(k * 930), output: Math.round(k * 70), cached: 0, estimated: false, requests: 12 },
    cost: k === 0 ? null : k * 0.0033,
    last_n: 40,
    ...rest,
  };
}

function command(id: string, owner: string, label: string, status: TaskStatus, age: number): TaskView {
  return {
    id,
    kind: "bash",
    label,
    owner,
    child: null,
    status,
    detail: status === "running" ? "4 processes" : "exit 0",
    killed_by: null,
    started_at: NOW - age,
    settled_at: status === "running" ? null : NOW - age / 2,
  };
}

export const sessions: SessionView[] = [
  session("receipts", null, "Sort the receipts folder", "killed", "", { age: 18 * DAY, ran: 3 * MIN, k: 12 }),
  session("gauge", null, "Read the gauge protocol", "completed", "", { age: 4 * DAY, ran: 9 * MIN, k: 30 }),
  session("cache", null, "Why is the cache cold?", "completed", "", { age: 3 * DAY, ran: 9 * MIN, k: 8 }),
  session("garden", null, "Garden planner site", "idle", "", { age: 70 * MIN, ran: 20 * MIN, k: 110 }),
  session("release", null, "Release Tidewater 2.0", "idle", "", {
    age: 31 * MIN,
    k: 96,
    live_below: 6,
    needs_you: 1,
  }),
  session("parser", "release", "Rewrite the station parser", "completed", "", { age: 30 * MIN, ran: 14 * MIN, k: 203 }),
  session("manual", "release", "Translate the manual page", "interrupted", "can resume", {
    age: 29 * MIN,
    ran: 2 * MIN,
    k: 41,
  }),
  session("solver", "release", "Port the solver to f64", "running", "waiting on its bench", {
    age: 6 * MIN + 12_000,
    k: 184,
    live_below: 2,
  }),
  session("tables", "solver", "Check reference tables", "running", "station 212 of 640", {
    age: 2 * MIN + 40_000,
    k: 61,
    depth: 2,
  }),
  session("guide", "release", "Write the migration guide", "running", "writing guide.md", { age: 3 * MIN, k: 72 }),
  session("audit", "release", "Audit the unsafe blocks", "running", "14 of 22 blocks", {
    age: 5 * MIN,
    k: 118,
    provider: "acp",
  }),
  session("dry", "release", "Publish a dry run", "waiting", "run a command", { age: MIN, k: 38, needs_you: 1 }),
  session("windows", "release", "Build the Windows installer", "failed", "exit 101", {
    age: 4 * MIN + 30_000,
    ran: 4 * MIN,
    k: 45,
  }),
];

export const tasks: TaskView[] = [command("bench", "solver", "cargo bench --bench solver", "running", MIN + 8000)];

const ENDED: Record<string, ReceiptItem[]> = {
  turn: [{ kind: "turn", id: "solver", label: "Port the solver to f64" }],
  branch: [
    { kind: "turn", id: "solver", label: "Port the solver to f64" },
    { kind: "child", id: "tables", label: "Check reference tables" },
    { kind: "task", id: "bench", label: "cargo bench --bench solver" },
  ],
};
ENDED.everything = [
  ...(ENDED.branch ?? []),
  { kind: "child", id: "guide", label: "" },
  { kind: "child", id: "audit", label: "" },
  { kind: "child", id: "dry", label: "" },
  { kind: "turn", id: "garden", label: "" },
];

export function receipt(what: string, id: string | undefined, done: boolean): Receipt {
  const task = tasks.find((each) => each.id === id);
  const processes = [48213, 48219, 48220, 48222].map((pid) => ({ pid, started_at: NOW, gone: true }));
  return {
    what,
    label: task?.label ?? sessions.find((each) => each.id === id)?.title ?? "2 sessions",
    by: "person",
    ended: task === undefined ? (ENDED[what] ?? []) : [{ kind: "task", id: task.id, label: task.label }],
    kept: what === "turn" ? (ENDED.branch ?? []).slice(1) : [],
    processes: done ? processes : [],
    unconfirmed: [],
    ms: 800,
  };
}

function tool(n: number, step: number, name: string, target: string, ms: number, detail: Record<string, unknown>): Row {
  const text = name === "bash" ? "test phase::nineteen_years_of_m2 ... ok\ntest result: ok. 84 passed; 0 failed" : "";
  const result = { ok: true, text, bytes: text.length, lines: 2, detail, ms };
  return { n, part: 0, at: NOW - 3 * MIN, step, kind: "tool", call: `c${n}`, tool: name, target, args: "{}", result };
}

export const rows: Row[] = [
  {
    n: 2,
    part: 0,
    at: NOW - 6 * MIN,
    step: null,
    kind: "ask_text",
    asker: "release",
    text: "Move `solver` from f32 to f64 without changing the public API. Done means: tests pass, the reference tables agree to 1 mm, the bench stays within 5 % of main.",
    receipt: { is: "admitted", step: 1, route: "started" },
  },
  tool(4, 1, "read_file", "phase.rs", 400, { lines: 210 }),
  tool(6, 2, "grep", "f32", 900, { hits: 12 }),
  {
    n: 8,
    part: 0,
    at: NOW - 5 * MIN,
    step: 5,
    kind: "answer",
    stop: "complete",
    text: "Only the phase table loses precision: it sums 19 years of angle into one `f32`. An f64 alone would move the rounding, not remove it, so I keep whole turns apart.\n\n```rust\n/// Whole turns since the epoch, and the part of one that is left over.\npub struct Phase { turns: i64, frac: f64 }\n```",
  },
  tool(10, 6, "edit_file", "phase.rs", 30, { added: 42, removed: 16 }),
  tool(12, 7, "bash", "cargo test -p solver", 41_000, { exit: 0 }),
  {
    n: 14,
    part: 0,
    at: NOW - 3 * MIN,
    step: null,
    kind: "message",
    text: "Keep the f32 path behind a feature flag, the gauges need it.",
    receipt: { is: "admitted", step: 8, route: "steered" },
  },
  {
    n: 16,
    part: 0,
    at: NOW - 2 * MIN,
    step: 8,
    kind: "fault",
    text: "The model server refused step 8: 429, too many requests. Waited 6 s and sent it again.",
    repaired: true,
  },
  {
    n: 18,
    part: 0,
    at: NOW - 160_000,
    step: 9,
    kind: "delegation",
    call: "c18",
    tool: "subagent",
    target: "Check reference tables",
    args: "{}",
    result: { ok: true, text: "", bytes: 0, lines: 0, detail: { child: "tables", task: "task-tables" }, ms: 5 },
  },
  {
    n: 20,
    part: 0,
    at: NOW - MIN,
    step: null,
    kind: "notice",
    task: "build",
    task_kind: "bash",
    label: "cargo build --features f32-path",
    child: null,
    status: "completed",
    detail: "exit 0",
    killed_by: null,
    ran_ms: 38_000,
    told_at_step: 10,
  },
];

export function frameOf(open: SessionId | null): Frame {
  const live =
    open === "solver"
      ? {
          at: NOW,
          step: 10,
          calls: [],
          blocks: [
            {
              type: "text" as const,
              name: null,
              delegates: false,
              from: 0,
              text: "The flag builds. The bench now runs against main, and the worst station so far is 0.4 mm off, so I will wait for both before I write the note",
            },
          ],
        }
      : null;
  return { seq: 1, sessions: [], removed: [], tasks: [], rows: [], live, status: null };
}

const LIMITS = {
  depth: 3,
  live_tasks_per_owner: 10,
  live_children: 16,
  children: 200,
  tokens: 0,
  money_usd: 5,
  wall_clock_s: 0,
  step_limit: 200,
  idle_s: 300,
  stop_grace_ms: 2000,
  wake_budget: 3,
};

const MODELS: Commands["models"]["ok"]["models"] = [
  {
    name: "local",
    protocol: "openai-chat",
    model: "qwen3-coder:30b",
    base_url: "http://127.0.0.1:11434/v1",
    context: 200_000,
    default: true,
    problem: null,
  },
  {
    name: "hosted",
    protocol: "anthropic",
    model: "large",
    base_url: "https://models.example",
    context: null,
    default: false,
    problem: "No key is set: HOSTED_KEY is empty.",
  },
  {
    name: "rehearsal",
    protocol: "rehearsal",
    model: null,
    base_url: null,
    context: null,
    default: false,
    problem: null,
  },
];

/** What the invented host answers. */
export function answers<C extends keyof Commands>(kind: string, cmd: C, args: Commands[C]["args"]): unknown {
  switch (cmd) {
    case "tree":
      return kind === "empty" || kind === "first" ? { sessions: [], tasks: [] } : { sessions, tasks };
    case "models":
      return { models: kind === "first" ? MODELS.slice(2).map((each) => ({ ...each, default: true })) : MODELS };
    case "limits":
      return { limits: LIMITS, notices: { wake: true, desktop: "tasks" } };
    case "about":
      return {
        version: "0.1.0",
        data: "/home/me/.local/share/coppice",
        config: "/home/me/.config/coppice/config.toml",
        cwd: "/home/me/src/tidewater",
        status: null,
      };
    case "page": {
      const { session: id } = args as Commands["page"]["args"];
      return id === "solver" ? { rows, first: 2, last: 20 } : { rows: [], first: 0, last: 0 };
    }
    case "stop": {
      const stop = args as Commands["stop"]["args"];
      return receipt(stop.what, stop.id, stop.preview !== true);
    }
    case "open":
      return { session: "solver" };
    case "prompt":
      return { n: 1 };
    case "output":
      return { text: "", next: 0, size: 0, done: true };
    default:
      return {};
  }
}
