// An invented host: the data of the design's main page, for looking at the window and for its tests.
// `?case=empty|main|idle|quit` chooses, `?theme=light|dark` pins the theme, `?open=ID` opens a session, `?ask=ID` the
// inbox at an ask.

import type { Commands, Frame, Push, Quit, Row, SessionId } from "../src/wire";
import { answers, frameOf, sessions } from "./data";

export class HostError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const query = new URLSearchParams(typeof location === "undefined" ? "" : location.search);
const theme = query.get("theme");
if (theme !== null) localStorage.setItem("coppice.theme", JSON.stringify(theme));
localStorage.setItem("coppice.open", JSON.stringify(query.get("open") ?? "solver"));
localStorage.setItem("coppice.since", "1");
const size = query.get("size");
if (size !== null) localStorage.setItem("coppice.textSize", size);
else localStorage.removeItem("coppice.textSize");
const seen = Object.fromEntries(sessions.filter((each) => each.id !== "windows").map((each) => [each.id, Date.now()]));
localStorage.setItem("coppice.seen", JSON.stringify(seen));
if (query.get("draft") !== null)
  localStorage.setItem("coppice.place.solver", JSON.stringify({ draft: query.get("draft") }));

let push: (push: Push) => void = () => {};

export function mintKey(): string {
  return crypto.randomUUID();
}

export async function call<C extends keyof Commands>(cmd: C, args: Commands[C]["args"]): Promise<Commands[C]["ok"]> {
  return answers(query.get("case") ?? "main", cmd, args) as Commands[C]["ok"];
}

export async function watch(
  session: SessionId | null,
  _after: number | null,
  onPush: (push: Push) => void,
): Promise<number> {
  push = onPush;
  const kind = query.get("case") ?? "main";
  setTimeout(() => {
    if (kind !== "empty") push({ frame: frameOf(session) });
    const ask = query.get("ask");
    if (ask !== null && session !== null) push({ show: { session, ask } });
    if (kind === "quit") push({ quitting: 5 });
  }, 60);
  return 1;
}

export function isRace(): boolean {
  return false;
}

export async function pickFolder(_from: string): Promise<string | null> {
  return "/home/me/src/tidewater";
}

export async function openLink(_url: string): Promise<void> {}

export async function quit(_choice: Quit): Promise<void> {}

// `?font=` stands in for a desktop whose system face is not installed here.
const font = query.get("font");
if (font !== null) document.documentElement.style.setProperty("--font-ui", font);

// `?press=Ctrl+K|ArrowDown` presses keys once the window stands, then `?click=SELECTOR` clicks, `?size=200` is the
// size of the text.
const presses = query.get("press")?.split("|") ?? [];
setTimeout(() => {
  for (const press of presses) {
    const parts = press.split(" ");
    const key = parts.at(-1) ?? "";
    const target = document.activeElement ?? document.body;
    const init = { key: key.length === 1 ? key.toLowerCase() : key, code: key === "." ? "Period" : "", bubbles: true };
    target.dispatchEvent(
      new KeyboardEvent("keydown", {
        ...init,
        ctrlKey: parts.includes("Ctrl"),
        altKey: parts.includes("Alt"),
        shiftKey: parts.includes("Shift"),
      }),
    );
  }
  const click = query.get("click");
  setTimeout(() => click !== null && document.querySelector<HTMLElement>(click)?.click(), 100);
}, 1300);

declare global {
  interface Window {
    harness: { frame: (frame: Partial<Frame>) => void; row: (row: Row) => void };
  }
}
if (typeof window !== "undefined") {
  window.harness = {
    frame: (frame) =>
      push({
        frame: { seq: 2, sessions: [], removed: [], tasks: [], asks: [], rows: [], live: null, status: null, ...frame },
      }),
    row: (row) => window.harness.frame({ rows: [row] }),
  };
}
