// The words of stops: what one would end, and what one ended. Pure.

import { count, took } from "../format";
import { byWords } from "../tree/words";
import type { Receipt, ReceiptItem } from "../wire";

/** What a stop would end, in one line: always visible beside its verb. */
export function previewWords(receipt: Receipt, rootOf: (id: string) => string | null): string {
  const ends = receipt.ended.length;
  const left = leftBehind(receipt);
  if (ends === 0) {
    if (left !== "") return `Ends ${left}.${receipt.what === "turn" ? kept(receipt.kept.length) : ""}`;
    return receipt.what === "everything" ? "Nothing runs." : nothingHere(receipt);
  }
  switch (receipt.what) {
    case "turn":
      return `Ends ${ends}.${kept(receipt.kept.length)}`;
    case "everything": {
      const roots = new Set(receipt.ended.map((item) => rootOf(item.id)));
      return `Ends ${ends} in ${count(roots.size, "session")}.`;
    }
    default:
      return `Ends ${ends}: ${kinds(receipt.ended)}.`;
  }
}

/** Whether a stop would end nothing at all; not while its preview is not known. */
export function endsNothing(preview: Receipt | undefined): boolean {
  return preview !== undefined && preview.ended.length === 0 && preview.processes.length === 0;
}

/** "2 processes that finished work left behind"; empty where none is. */
function leftBehind(receipt: Receipt): string {
  const left = receipt.processes.length;
  return left === 0 ? "" : `${count(left, "process", "processes")} that finished work left behind`;
}

function nothingHere(receipt: Receipt): string {
  return receipt.what === "turn" ? `No turn runs here.${kept(receipt.kept.length)}` : "Nothing runs in this branch.";
}

function kept(below: number): string {
  if (below === 0) return "";
  return ` The ${below} below ${below === 1 ? "keeps" : "keep"} running.`;
}

function kinds(items: readonly ReceiptItem[]): string {
  const of = (kind: string) => items.filter((item) => item.kind === kind).length;
  const parts = [
    of("turn") === 0 ? "" : of("turn") === 1 ? "this turn" : count(of("turn"), "turn"),
    of("child") === 0 ? "" : count(of("child"), "child", "children"),
    of("task") === 0 ? "" : count(of("task"), "command"),
  ];
  return parts.filter((part) => part !== "").join(", ");
}

/** One line of a receipt: proven, or not. */
export type Proof = { sure: boolean; text: string; pids?: string };

export function receiptTitle(receipt: Receipt): string {
  const open = receipt.unconfirmed.length;
  if (endedNothing(receipt)) return "Nothing to stop";
  if (open > 0) return `Stopped, ${open === 1 ? "one part" : `${open} parts`} unconfirmed`;
  if (receipt.what === "branch") return "Branch stopped";
  return receipt.what === "everything" ? "Everything stopped" : "Stopped";
}

/** Whether a stop came to where nothing ran, and has nothing to prove. */
function endedNothing(receipt: Receipt): boolean {
  return receipt.ended.length + receipt.processes.length + receipt.unconfirmed.length === 0;
}

/** Who asked, as it follows the label: "by you". */
export function askedBy(receipt: Receipt): string {
  return receipt.by === null ? "" : byWords(receipt.by);
}

export function proofs(receipt: Receipt): Proof[] {
  if (endedNothing(receipt)) return [{ sure: true, text: "Nothing ran that it could end" }];
  const lines: Proof[] = [];
  const ended = receipt.ended.length;
  const seen = receipt.processes.length;
  if (ended === 0 && seen > 0)
    lines.push({
      sure: true,
      text: `Nothing ran; finished work had left ${seen === 1 ? "a process" : "processes"} behind`,
    });
  else if (ended === 0) lines.push({ sure: true, text: "Nothing ran that it could end" });
  else if (ended === 1) lines.push({ sure: true, text: `Asked to end, gone in ${took(receipt.ms)}` });
  else lines.push({ sure: true, text: `${ended} ended in ${took(receipt.ms)}` });

  if (seen > 0) {
    const gone = receipt.processes.filter((process) => process.gone).length;
    const pids = receipt.processes.map((process) => process.pid).join(" ");
    lines.push({
      sure: gone === seen,
      text: `${gone} of ${seen} ${seen === 1 ? "process" : "processes"} seen gone`,
      pids,
    });
  }
  const kept = receipt.kept.length;
  if (kept > 0) {
    const text =
      receipt.what === "turn"
        ? `${kept} below ${kept === 1 ? "keeps" : "keep"} running`
        : `${kept} beside it untouched`;
    lines.push({ sure: true, text });
  }
  for (const text of receipt.unconfirmed) lines.push({ sure: false, text });
  if (receipt.unconfirmed.length === 0) {
    lines.push({ sure: true, text: receipt.what === "everything" ? "Nothing runs" : "Nothing left to confirm" });
  }
  return lines;
}
