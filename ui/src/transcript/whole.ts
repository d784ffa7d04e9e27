import { call } from "../host";
import type { SessionId, TaskId } from "../wire";

/** How many events are read at once, and how often, to find a result that came after its call. */
const EVENTS = 200;
const PAGES = 50;

/** A text, and how many bytes are left out at its end. */
export type Whole = { text: string; left: number };

/** The whole text that a call gave the model, from the log. `n` is the event that holds the call. */
export async function wholeResult(session: SessionId, n: number, id: string): Promise<Whole> {
  let after = n - 1;
  for (let page = 0; page < PAGES; page++) {
    const { events } = await call("events", { session, after, limit: EVENTS });
    const found = events.find((event) => event.kind === "tool_finished" && event.body.call === id);
    if (found !== undefined) return { text: typeof found.body.text === "string" ? found.body.text : "", left: 0 };
    const last = events.at(-1);
    if (last === undefined || last.n <= after) break;
    after = last.n;
  }
  throw new Error("the log holds no result for this call.");
}

/** How much of a command's output is shown at first, and how much at most, in bytes. */
const TAIL = 4096;
const MOST = 400_000;

/** The end of a task's output, its size, and whether that was all. */
export async function outputEnd(task: TaskId): Promise<{ text: string; all: boolean }> {
  const { size } = await call("output", { task, limit: 1 });
  const offset = Math.max(0, size - TAIL);
  const { text } = await call("output", { task, offset, limit: TAIL });
  return { text, all: offset === 0 };
}

/** A task's output from its start, as far as the window can show it, and how many bytes of it are left out. */
export async function wholeOutput(task: TaskId): Promise<Whole> {
  let text = "";
  let offset = 0;
  for (;;) {
    const part = await call("output", { task, offset, limit: MOST });
    text += part.text;
    const left = Math.max(0, part.size - part.next);
    if (left === 0 || part.next <= offset || text.length >= MOST) return { text, left };
    offset = part.next;
  }
}
