// What a tool call is called in the transcript: an icon, a verb in the tense of its state, and the facts at its right.

import { bytes, clock, count, took } from "../format";
import type { IconName } from "../icons/names";
import { byWords } from "../tree/words";
import type { Receipt, TaskStatus, ToolResultRow, ToolRow } from "../wire";

/** How a tool is spoken of. */
export type Verb = {
  icon: IconName;
  did: string;
  does: string;
  /** What it would do, before it may. */
  will: string;
  /** Its target is code: a path, a pattern, a command. */
  mono: boolean;
  /** Neighbours of one kind merge into one row. */
  merges: "read" | "search" | null;
};

/** The verbs of what may have to be asked first. */
const WILL: Readonly<Record<string, string>> = {
  Ran: "Run",
  Read: "Read",
  Wrote: "Write",
  Edited: "Edit",
  Searched: "Search",
  Fetched: "Fetch",
};

const look = (
  icon: IconName,
  did: string,
  does: string,
  merges: Verb["merges"] = null,
  mono = true,
  will = WILL[did] ?? did,
): Verb => {
  return { icon, did, does, will, mono, merges };
};

const VERBS: Readonly<Record<string, Verb>> = {
  bash: look("term", "Ran", "Running"),
  read_file: look("file", "Read", "Reading", "read"),
  write_file: look("pencil", "Wrote", "Writing"),
  edit_file: look("pencil", "Edited", "Editing"),
  glob: look("search", "Searched", "Searching", "search"),
  grep: look("search", "Searched", "Searching", "search"),
  fetch: look("server", "Fetched", "Fetching"),
  task_output: look("script", "Collected", "Waiting for"),
  task_list: look("script", "Listed its tasks", "Listing its tasks", null, false),
  task_kill: look("stop", "Stopped", "Stopping"),
  send_message: look("chat", "Wrote to", "Writing to", null, false),
  list_agents: look("fork", "Listed its children", "Listing its children", null, false),
};

const DELEGATES = look("fork", "Delegated", "Delegating", null, false);

/** The verb for a tool; one that this build does not know is called by its name. */
export function verbOf(tool: string, delegates = false): Verb {
  if (delegates) return DELEGATES;
  if (Object.hasOwn(VERBS, tool)) return VERBS[tool] as Verb;
  return look("plug", `Used ${tool}`, `Using ${tool}`, null, true, `Use ${tool}`);
}

/** Whether a call is a command whose output is worth watching while it runs. */
export function runs(tool: string): boolean {
  return tool === "bash";
}

/** A fact of a call's result that is a number. */
export function fact(row: ToolRow, name: string): number | null {
  const value = row.result?.detail?.[name];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** A fact of a call's result that is words. */
export function words(row: ToolRow, name: string): string | null {
  const value = row.result?.detail?.[name];
  return typeof value === "string" && value !== "" ? value : null;
}

/** Whether a stop or the end of Coppice ended a call: nothing of its own went wrong. */
export function isCutOff(result: ToolResultRow): boolean {
  return result.detail?.cut_off === true;
}

/** One fact at the right of a row, in the voice that it needs. */
export type Fact = { text: string; voice?: "add" | "del" | "bad" };

/** What a finished call came to. */
export function factsOf(row: ToolRow): Fact[] {
  const result = row.result;
  if (result === null) return [];
  const [exit, added, removed, hits, lines] = ["exit", "added", "removed", "hits", "lines"].map((name) =>
    fact(row, name),
  );
  const facts: Fact[] = [];
  if (isCutOff(result)) facts.push({ text: "cut off" });
  else if (exit != null) facts.push({ text: `exit ${exit}`, ...(exit === 0 ? {} : { voice: "bad" as const }) });
  else if (!result.ok) facts.push({ text: "failed", voice: "bad" });
  if (result.ok && added != null && removed != null && added + removed > 0) {
    if (added > 0) facts.push({ text: `+${added}`, voice: "add" });
    if (removed > 0) facts.push({ text: `−${removed}`, voice: "del" });
  } else if (hits != null) {
    facts.push({ text: count(hits, "hit") });
  } else if (lines != null) {
    facts.push({ text: count(lines, "line") });
  }
  const masked = fact(row, "masked");
  if (masked != null && masked > 0) {
    facts.push({ text: `${count(masked, "secret")} ${masked === 1 ? "was" : "were"} masked` });
  }
  if (runs(row.tool) || facts.length === 0) facts.push({ text: took(result.ms) });
  return facts;
}

/** What a running call shows at its right: for how long it runs. */
export function runningFor(at: number, now: number): string {
  return `running ${clock(now - at)}`;
}

/** How the arguments of a call that is still being written are spoken of: their size only, whatever they are. */
export function writingSize(text: string): string {
  return bytes(text.length);
}

/** The word that leads a notice. */
export const ENDED: Readonly<Record<TaskStatus, string>> = {
  running: "Runs",
  stopping: "Stops",
  completed: "Completed",
  failed: "Failed",
  killed: "Stopped",
  interrupted: "Interrupted",
};

/** A receipt in one line: who, and how many processes were seen gone. */
export function receiptLine(receipt: Receipt): string {
  const gone = receipt.processes.filter((process) => process.gone).length;
  const parts = receipt.by === null ? [] : [byWords(receipt.by)];
  if (receipt.processes.length > 0) parts.push(`${gone} of ${receipt.processes.length} gone`);
  if (receipt.unconfirmed.length > 0) parts.push(`${receipt.unconfirmed.length} unconfirmed`);
  return parts.join(" · ");
}
