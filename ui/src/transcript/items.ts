// Rows of the wire -> items of the transcript: neighbouring looks merge, what streams comes last, steps are numbered
// where they begin. Pure.

import { asksNow } from "../inbox/words";
import type { LiveBlock, LiveView, Row, ToolRow } from "../wire";
import { verbOf } from "./verbs";

type Of<K extends Row["kind"]> = Extract<Row, { kind: K }>;
export type ToolItemRow = Of<"tool">;

/** A message of the person that the log does not hold yet. */
export type Unsent = { key: string; text: string; at: number; accepted: boolean };

/** One item of the transcript. */
export type Item = {
  /** Stable as long as the item is the same one, also when it grows. */
  key: string;
  /** The `n` of its newest row; 0 for what is not in the log. */
  n: number;
  /** What stands in the margin: "5", "1–4"; empty where the step above goes on. */
  step: string;
  /** A one-line activity that stands close to one above it. */
  tight: boolean;
} & (
  | { is: "row"; row: Exclude<Row, { kind: "tool" }> }
  | { is: "call"; row: ToolItemRow }
  | { is: "calls"; rows: ToolItemRow[] }
  | { is: "unsent"; unsent: Unsent }
  | { is: "writing"; of: number; block: LiveBlock }
);

type Body = Item extends infer I ? (I extends Item ? Omit<I, "step" | "tight"> : never) : never;

/** Kinds that are one line high. */
const LINES: ReadonlySet<Row["kind"]> = new Set([
  "tool",
  "delegation",
  "notice",
  "decision",
  "thinking",
  "seed",
  "warning",
  "undone",
  "note",
  "clash",
  "mode",
  "unknown",
]);

/** Whether a row is one line high. A question is, once it is decided. */
function isFlat(row: Row): boolean {
  return LINES.has(row.kind) || (row.kind === "ask" && !asksNow(row.state));
}

export function itemsOf(logged: readonly Row[], live: LiveView | null, unsent: readonly Unsent[]): Item[] {
  const { rows, waiting } = asRead(logged, live);
  const items: Item[] = [];
  let step: number | null = null;
  let line = false;

  const push = (body: Body, from: number | null, to: number | null, isLine: boolean) => {
    const shown = to !== null && to !== step ? (from === null || from === to ? String(to) : `${from}–${to}`) : "";
    items.push({ ...body, step: shown, tight: isLine && line } as Item);
    step = to ?? step;
    line = isLine;
  };

  for (let at = 0; at < rows.length; at++) {
    const row = rows[at] as Row;
    const key = `${row.n}:${row.part}`;
    if (row.kind !== "tool") {
      if (row.kind === "turn_end" && (row.end === "completed" || receiptTells(rows, at))) continue;
      push({ is: "row", key, n: row.n, row }, row.step, row.step, isFlat(row));
      continue;
    }
    const group = [row];
    while (merges(row)) {
      const next = rows[at + 1];
      if (next?.kind !== "tool" || !merges(next)) break;
      group.push(next);
      at += 1;
    }
    const last = group.at(-1) ?? row;
    const body: Body =
      group.length === 1 ? { is: "call", key, n: row.n, row } : { is: "calls", key, n: last.n, rows: group };
    push(body, row.step, last.step, true);
  }
  for (const [index, block] of (live?.blocks ?? []).entries()) {
    const from = live?.step ?? 0;
    if (block.type !== "tool_call" && block.text === "") continue;
    push({ is: "writing", key: `live:${from}:${index}`, n: 0, of: from, block }, from, from, block.type !== "text");
  }
  for (const row of waiting) push({ is: "row", key: `${row.n}:${row.part}`, n: row.n, row }, null, null, false);
  for (const each of unsent) push({ is: "unsent", key: `unsent:${each.key}`, n: 0, unsent: each }, null, null, false);
  return items;
}

type Message = Of<"message" | "ask_text">;

/**
 * The rows with every message where it was read: below the steps that did not know of it. Those that wait while a reply
 * streams stand below that too.
 */
function asRead(rows: readonly Row[], live: LiveView | null): { rows: Row[]; waiting: Message[] } {
  const behind = new Map<number, Message[]>();
  const moved = new Set<Row>();
  const waiting: Message[] = [];
  for (const [at, row] of rows.entries()) {
    if (row.kind !== "message" && row.kind !== "ask_text") continue;
    const { receipt } = row;
    if (receipt.is !== "admitted" && receipt.is !== "accepted") continue;
    const read = receipt.is === "admitted" ? receipt.step : Number.POSITIVE_INFINITY;
    if (receipt.is === "accepted" && (live?.blocks.length ?? 0) > 0) {
      moved.add(row);
      waiting.push(row);
      continue;
    }
    let last = at;
    for (let next = at + 1; next < rows.length; next++) {
      const step = rows[next]?.step ?? null;
      if (step !== null && step >= read) break;
      if (step !== null) last = next;
    }
    if (last === at) continue;
    moved.add(row);
    behind.set(last, [...(behind.get(last) ?? []), row]);
  }
  if (moved.size === 0) return { rows: [...rows], waiting };
  return { rows: rows.flatMap((row, at) => [...(moved.has(row) ? [] : [row]), ...(behind.get(at) ?? [])]), waiting };
}

/** Whether a turn was stopped, and the receipt of that stop stands further down in the same turn. */
function receiptTells(rows: readonly Row[], at: number): boolean {
  const row = rows[at];
  if (row?.kind !== "turn_end" || row.end !== "stopped") return false;
  for (const next of rows.slice(at + 1)) {
    if (next.kind === "decision" && next.receipt.what !== "task" && next.receipt.ended.length > 0) return true;
    if (next.kind !== "notice" && next.kind !== "decision") return false;
  }
  return false;
}

/** A finished look that went well says nothing on its own that its neighbours do not say too. */
function merges(row: ToolItemRow): boolean {
  return verbOf(row.tool).merges !== null && row.result?.ok === true;
}

/** "Read 6 files, searched twice": what a merged row did, as verb and object in turn. */
export function sumOf(rows: readonly ToolRow[]): { files: number; searches: number; ms: number } {
  const files = new Set<string>();
  let [searches, ms] = [0, 0];
  for (const row of rows) {
    if (verbOf(row.tool).merges === "search") searches += 1;
    else files.add(row.target);
    ms += row.result?.ms ?? 0;
  }
  return { files: files.size, searches, ms };
}

/** Whether an item is a message: what a reader steps through. */
export function isMessage(item: Item): boolean {
  if (item.is === "unsent") return true;
  if (item.is === "writing") return item.block.type === "text";
  return (
    item.is === "row" && (item.row.kind === "ask_text" || item.row.kind === "message" || item.row.kind === "answer")
  );
}

/** The name under which an item is open or closed; none for one that has nothing inside. */
export function openKey(item: Item): string | null {
  if (item.is === "calls") return `${item.key}+`;
  if (item.is === "call") return item.key;
  if (item.is !== "row") return null;
  const inside =
    item.row.kind === "thinking" || item.row.kind === "decision" || (item.row.kind === "ask" && isFlat(item.row));
  return inside || (item.row.kind === "notice" && item.row.child === null) ? item.key : null;
}

/** Whether an item is a line of activity, one row high while it is closed. */
export function isLine(item: Item): boolean {
  if (item.is === "writing") return item.block.type !== "text";
  return item.is === "call" || item.is === "calls" || (item.is === "row" && isFlat(item.row));
}
