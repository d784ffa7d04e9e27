// Made-up sessions and rows.

import type { Frame, Row, SessionView, ToolResultRow } from "../src/wire";

const NOW = Date.now();
const ago = (seconds: number) => NOW - seconds * 1000;
const tokens = { input: 171_000, output: 13_000, cached: 90_000, estimated: false, requests: 10 };

export function sessionOf(change: Partial<SessionView> & { id: string }): SessionView {
  return {
    parent: null,
    root: "root",
    depth: 0,
    title: "Release Tidewater 2.0",
    label: null,
    provider: null,
    model: "local",
    mode: "ask",
    cwd: "/home/a/tidewater",
    state: "idle",
    detail: "",
    live_below: 0,
    needs_you: 0,
    task: null,
    last_sign_at: ago(2),
    created_at: ago(1860),
    started_at: ago(372),
    ended_at: null,
    step: 10,
    steerable: true,
    tokens,
    cost: 0.61,
    last_n: 40,
    ...change,
  };
}

const root = sessionOf({ id: "root", live_below: 5 });
const main = sessionOf({
  id: "main",
  parent: "root",
  depth: 1,
  title: "Port the solver to f64",
  state: "running",
  live_below: 2,
});
const tables = sessionOf({
  id: "tables",
  parent: "main",
  depth: 2,
  title: "Check reference tables",
  label: "Check reference tables",
  state: "running",
  started_at: ago(160),
});
const stopped = sessionOf({
  id: "stopped",
  parent: "root",
  depth: 1,
  title: "Translate the manual page",
  state: "interrupted",
  ended_at: ago(60_000),
  step: 5,
  steerable: false,
});

const result = (text: string, change: Partial<ToolResultRow> = {}): ToolResultRow => ({
  ok: true,
  text,
  bytes: text.length,
  lines: text.split("\n").length,
  detail: null,
  ms: 400,
  ...change,
});
let n = 0;
const at = (step: number | null, seconds: number) => ({ n: ++n, part: 0, at: ago(seconds), step });

function mainRows(): Row[] {
  n = 0;
  const rows: Row[] = [
    {
      ...at(null, 360),
      kind: "ask_text",
      asker: "root",
      text: "Move `solver` from f32 to f64 without changing the public API. Done means: tests pass, the reference tables agree to 1 mm, the bench stays within 5 % of main.",
      receipt: { is: "admitted", step: 1, route: "started" },
    },
    ...["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs"].map(
      (file, i): Row => ({
        ...at(1 + (i >> 1), 350),
        kind: "tool",
        call: `r${i}`,
        tool: "read_file",
        target: file,
        args: "{}",
        result: result("fn main() {}", { detail: { lines: 12 } }),
      }),
    ),
    {
      ...at(4, 340),
      kind: "tool",
      call: "s1",
      tool: "grep",
      target: "f32",
      args: "{}",
      result: result("x", { detail: { hits: 4 }, ms: 500 }),
    },
    {
      ...at(4, 339),
      kind: "tool",
      call: "s2",
      tool: "glob",
      target: "*.rs",
      args: "{}",
      result: result("x", { detail: { hits: 4 }, ms: 500 }),
    },
    {
      ...at(5, 330),
      kind: "thinking",
      text: "The phase table sums nineteen years of angle, so the rounding grows with every turn.",
    },
    {
      ...at(5, 330),
      kind: "answer",
      stop: "complete",
      text: "Only the phase table loses precision: it sums 19 years of angle into one `f32`. An f64 alone would move the rounding, not remove it, so I keep whole turns apart.\n\n```rust\n/// Whole turns since the epoch, and the part of one that is left over.\npub struct Phase { turns: i64, frac: f64 }\n```\n",
    },
    {
      ...at(6, 300),
      kind: "tool",
      call: "e1",
      tool: "edit_file",
      target: "phase.rs",
      args: "{}",
      result: result("Edited", {
        detail: {
          added: 42,
          removed: 16,
          diff: "@@ -1,2 +1,2 @@\n-let a: f32 = 0.0;\n+let a: f64 = 0.0;\n let b = 1;",
        },
      }),
    },
    {
      ...at(7, 280),
      kind: "tool",
      call: "t1",
      tool: "bash",
      target: "cargo test -p solver",
      args: '{"command":"cargo test -p solver"}',
      result: result(
        "test phase::nineteen_years_of_m2 ... \u001b[32mok\u001b[0m\ntest height::agrees_with_f32_to_1mm ... ok\ntest result: ok. 84 passed; 0 failed; finished in 38.70s\n",
        { detail: { exit: 0 }, ms: 41_000, lines: 1204, bytes: 99_000 },
      ),
    },
    {
      ...at(null, 200),
      kind: "message",
      text: "Keep the f32 path behind a feature flag, the gauges need it.",
      receipt: { is: "admitted", step: 8, route: "steered" },
    },
    {
      ...at(8, 180),
      kind: "fault",
      text: "The model server refused step 8: 429, too many requests. Waited 6 s and sent it again. The second try went through; nothing was lost.",
      repaired: true,
    },
    {
      ...at(9, 160),
      kind: "delegation",
      call: "d1",
      tool: "subagent",
      target: "Check reference tables",
      args: "{}",
      result: result("Started", { detail: { child: "tables", task: "subagent-1" } }),
    },
    {
      ...at(null, 100),
      kind: "notice",
      task: "bash-3",
      task_kind: "bash",
      label: "cargo build --features f32-path",
      child: null,
      status: "completed",
      detail: "exit 0",
      killed_by: null,
      ran_ms: 38_000,
      told_at_step: 10,
    },
    {
      ...at(null, 90),
      kind: "decision",
      receipt: {
        what: "task",
        label: "cargo bench --all",
        by: "person",
        ended: [{ kind: "task", id: "bash-2", label: "cargo bench --all" }],
        kept: [],
        processes: [48213, 48219, 48220, 48222].map((pid) => ({ pid, started_at: ago(200), gone: true })),
        unconfirmed: [],
        ms: 800,
      },
    },
    { ...at(null, 80), kind: "unknown", event: "plugin/x" },
    {
      ...at(9, 50),
      kind: "tool",
      call: "run",
      tool: "bash",
      target: "cargo bench --bench solver",
      args: '{"command":"cargo bench --bench solver"}',
      result: null,
    },
  ];
  return rows;
}

function stoppedRows(): Row[] {
  n = 0;
  return [
    {
      ...at(null, 60_200),
      kind: "ask_text",
      asker: "root",
      text: "Translate `man/tidewater.1` into Dutch. Keep option names and examples as they are. Done means: it renders without warnings.",
      receipt: { is: "admitted", step: 1, route: "started" },
    },
    {
      ...at(1, 60_200),
      kind: "tool",
      call: "r",
      tool: "read_file",
      target: "man/tidewater.1",
      args: "{}",
      result: result("x", { detail: { lines: 418 } }),
    },
    {
      ...at(2, 60_100),
      kind: "answer",
      stop: "complete",
      text: "The page has three parts. I translate them in order and render after each:\n\n- synopsis and options, 190 lines\n- station names and units, 120 lines\n- examples, comments only\n\n| part | lines |\n|:--|--:|\n| synopsis | 190 |\n| stations | 120 |\n\n> Kept as it was.\n\n1. one\n2. two [docs](https://example.org/x)\n",
    },
    {
      ...at(3, 60_100),
      kind: "tool",
      call: "w",
      tool: "write_file",
      target: "man/nl/tidewater.1",
      args: "{}",
      result: result("x", { detail: { added: 190, removed: 0 } }),
    },
    {
      ...at(4, 60_100),
      kind: "tool",
      call: "t",
      tool: "bash",
      target: "groff -man -Tutf8 -ww man/nl/tidewater.1",
      args: '{"command":"groff -man -Tutf8 -ww man/nl/tidewater.1"}',
      result: result("warning: macro not found\n", { ok: false, detail: { exit: 1 } }),
    },
    {
      ...at(5, 60_050),
      kind: "answer",
      stop: "cut_off",
      text: "The first part renders clean. For the second part I keep the English station names and add the Dutch ones in brackets, because the tables are looked up by",
    },
    {
      ...at(null, 60_000),
      kind: "turn_end",
      end: "interrupted",
      detail: "All it wrote is kept. Its one process is gone. Nothing was sent twice.",
    },
    {
      ...at(null, 59_000),
      kind: "message",
      text: "Go on with the second part.",
      receipt: { is: "not_delivered", reason: "the turn ended first" },
    },
    { ...at(6, 59_000), kind: "fault", text: "127.0.0.1:11434 does not answer. Nothing was sent.", repaired: false },
  ];
}

function longRows(): Row[] {
  n = 0;
  return Array.from({ length: 2000 }, (_, i): Row => {
    if (i % 7 === 3)
      return {
        ...at(i, 5000),
        kind: "tool",
        call: `c${i}`,
        tool: "bash",
        target: `make part-${i}`,
        args: "{}",
        result: result("ok\n".repeat(20), { detail: { exit: 0 } }),
      };
    const code = i % 6 === 0 ? "\n\n```rust\nfn part() -> u32 {\n    let a = 1;\n    a + 2\n}\n```\n" : "";
    return {
      ...at(i, 5000),
      kind: "answer",
      stop: "complete",
      text: `Paragraph ${i} says **something** about part ${i}, at some length, so that it takes more than one line of the page.${code}`,
    };
  });
}

export function scene(show: string): { open: string; draft: string } {
  if (show === "stopped") return { open: "stopped", draft: "" };
  return { open: "main", draft: "Print the worst station by name too." };
}

const rowsOf = (show: string) => (show === "stopped" ? stoppedRows() : show === "long" ? longRows() : mainRows());

export function frameOf(show: string): Frame {
  return {
    seq: 1,
    sessions: [root, main, tables, stopped],
    removed: [],
    tasks: [],
    rows: [],
    status: null,
    live:
      show === "main"
        ? {
            step: 10,
            blocks: [
              {
                type: "text",
                name: null,
                from: 0,
                text: "The flag builds. The bench now runs against main, and the worst station so far is 0.4 mm off, so I will wait for both before I write the note",
              },
            ],
            calls: [{ call: "run", tail: "Benchmarking solver/19y\n\r1%\r50%\rwarming up\nsampling 100 of 4000\n" }],
          }
        : null,
  };
}

export function composers(): SessionView[] {
  const child = { parent: "root", depth: 1 };
  return [
    sessionOf({ id: "c1", ...child, title: "running", state: "running" }),
    sessionOf({ id: "c2", ...child, title: "starting", state: "starting", steerable: false }),
    sessionOf({ id: "c3", ...child, title: "waiting", state: "waiting" }),
    sessionOf({ id: "c4", ...child, title: "stopping", state: "stopping" }),
    sessionOf({ id: "c5", ...child, title: "interrupted", state: "interrupted", step: 12 }),
    sessionOf({ id: "c6", parent: "stopped", depth: 2, title: "its parent is closed", state: "completed", step: 3 }),
    sessionOf({ id: "c7", title: "root, idle", state: "idle", step: 0 }),
    sessionOf({ id: "c8", ...child, title: "unverified", state: "unverified", last_sign_at: ago(240) }),
  ];
}

export async function answers(
  show: string,
  command: string,
  { cmd, args }: { cmd?: string; args?: unknown },
): Promise<unknown> {
  if (command === "watch") return 1;
  if (cmd === "page") {
    const { before, after } = args as { before?: number; after?: number };
    const all = rowsOf(show);
    const some =
      after !== undefined
        ? all.filter((row) => row.n > after).slice(0, 200)
        : all.filter((row) => row.n < (before ?? Number.POSITIVE_INFINITY)).slice(-200);
    return { rows: some, first: 1, last: all.at(-1)?.n ?? 0 };
  }
  if (cmd === "send") throw { code: "not_delivered", message: "the turn ended first" };
  if (cmd === "output") return { text: "Compiling\nFinished\n", next: 20, size: 20, done: true };
  return {};
}
