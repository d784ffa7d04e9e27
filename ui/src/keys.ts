// The keyboard of the window: one table for what is done and for the sheet that tells it.

import { MAC } from "./platform";
import type { AppState } from "./state/app.svelte";
import type { Room } from "./state/room.svelte";
import type { Target } from "./state/stops.svelte";

/** What the window's own keys reach besides the state. */
export type Reach = {
  app: AppState;
  room: Room;
  toggleTree: () => void;
  toggleInspector: () => void;
  focusPane: (step: 1 | -1) => void;
  escape: () => void;
};

export type Binding = { keys: string; does: string; run?: (reach: Reach) => void };

/** Keys that work anywhere, with Cmd for Ctrl on macOS. */
export const ANYWHERE: readonly Binding[] = [
  { keys: "Ctrl K", does: "jump to a session or command", run: ({ app }) => (app.overlay = { is: "jump", query: "" }) },
  { keys: "Ctrl N", does: "new session", run: ({ app }) => app.begin() },
  { keys: "Ctrl ,", does: "settings", run: ({ app }) => (app.view = "settings") },
  { keys: "Ctrl B", does: "tree", run: ({ toggleTree }) => toggleTree() },
  { keys: "Ctrl I", does: "inspector", run: ({ toggleInspector }) => toggleInspector() },
  { keys: "F6", does: "next pane", run: ({ focusPane }) => focusPane(1) },
  { keys: "Shift F6", does: "previous pane", run: ({ focusPane }) => focusPane(-1) },
  { keys: "Ctrl J", does: "next that needs you", run: ({ app }) => void app.openNext() },
  { keys: "Alt Left", does: "back", run: ({ app }) => void app.back() },
  { keys: "Alt Right", does: "forward", run: ({ app }) => void app.forward() },
  { keys: "Alt Up", does: "open the parent", run: ({ app }) => openParent(app) },
  { keys: "Ctrl Shift S", does: "speak the sum", run: ({ app }) => app.live.say(app.sumWords()) },
  { keys: "Ctrl +", does: "larger text", run: ({ app }) => app.look.stepTextSize(1) },
  { keys: "Ctrl -", does: "smaller text", run: ({ app }) => app.look.stepTextSize(-1) },
  { keys: "Ctrl 0", does: "text as the system has it", run: ({ app }) => app.look.setTextSize(100) },
  { keys: "Ctrl Q", does: "quit", run: ({ app }) => void app.quit() },
  { keys: "?", does: "all keys", run: ({ app }) => (app.overlay = { is: "keys" }) },
];

export const STOP: readonly Binding[] = [
  { keys: "Ctrl .", does: "this turn", run: ({ app }) => stopAt(app, "turn") },
  { keys: "Ctrl Shift .", does: "this branch", run: ({ app }) => stopAt(app, "branch") },
  { keys: "Ctrl Alt .", does: "everything", run: ({ app }) => void app.stop({ what: "everything" }) },
];

/** What the other parts of the window do with keys, for the sheet. */
export const SHEET: ReadonlyArray<{ where: string; bindings: readonly Binding[] }> = [
  { where: "Anywhere", bindings: ANYWHERE },
  { where: "Stop, of the focused row, else of the open node", bindings: STOP },
  {
    where: "Tree",
    bindings: [
      { keys: "Up Down, k j", does: "move" },
      { keys: "Right, l", does: "open, then first child" },
      { keys: "Left, h", does: "close, then parent" },
      { keys: "Home End, g G", does: "first, last" },
      { keys: "*", does: "open siblings" },
      { keys: "Enter", does: "open the transcript" },
      { keys: "F2", does: "rename" },
      { keys: "e", does: "archive, or bring back" },
      { keys: "Delete", does: "delete, after a question" },
    ],
  },
  {
    where: "Transcript",
    bindings: [
      { keys: "Up Down", does: "scroll" },
      { keys: "] [", does: "next, previous message" },
      { keys: "Enter, Space", does: "open a row" },
      { keys: "e", does: "open all" },
      { keys: "End", does: "follow again" },
    ],
  },
  {
    where: "Composer",
    bindings: [
      { keys: "Enter", does: "send" },
      { keys: "Shift Enter", does: "new line" },
      { keys: "Ctrl Enter", does: "always sends" },
    ],
  },
  {
    where: "Needs you, in the list",
    bindings: [
      { keys: "j k, Up Down", does: "next, previous" },
      { keys: "A", does: "allow once" },
      { keys: "B", does: "allow for this branch" },
      { keys: "D", does: "deny, with a word if you like" },
      { keys: "N", does: "not now" },
      { keys: "Enter", does: "open who asks" },
    ],
  },
  {
    where: "Esc",
    bindings: [{ keys: "Esc", does: "closes what lies on top, then goes to the transcript, then to the tree" }],
  },
];

/** The name of a key press, as the tables spell it. */
export function nameOf(event: KeyboardEvent): string {
  const main = (MAC ? event.metaKey : event.ctrlKey) ? "Ctrl" : "";
  const key =
    event.code === "Period"
      ? "."
      : event.key.startsWith("Arrow")
        ? event.key.slice(5)
        : event.key.length === 1
          ? event.key.toUpperCase()
          : event.key;
  // Plus is shifted on some keyboards and not on others, and shares its key with the equals sign.
  if (main !== "" && !event.altKey && (key === "+" || key === "=")) return "Ctrl +";
  // A character that needs Shift to be typed is named by itself.
  const shift = event.shiftKey && (event.key.length > 1 || main !== "" || event.altKey) ? "Shift" : "";
  return [main, event.altKey ? "Alt" : "", shift, key].filter((part) => part !== "").join(" ");
}

/** Does what a key means anywhere. Answers whether it meant something. */
export function handleKey(event: KeyboardEvent, reach: Reach): boolean {
  if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return false;
  if (event.key === "Escape") {
    reach.escape();
    return true;
  }
  // What lies on top takes the keys: nothing may act behind it, unseen.
  if (reach.app.overlay !== null || reach.app.quitting !== null) return false;
  const name = nameOf(event);
  const binding = [...ANYWHERE, ...STOP].find((each) => each.keys === name);
  if (binding?.run === undefined || (name === "?" && isField(event.target))) return false;
  // Alt with arrows belongs to the text while there is text under the cursor.
  if (name.startsWith("Alt ") && isField(event.target) && (event.target as HTMLTextAreaElement).value !== "")
    return false;
  binding.run(reach);
  return true;
}

export function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

function openParent(app: AppState): void {
  const parent = app.session?.parent;
  if (parent != null) void app.open(parent);
}

/** Stops at the focused row of the tree, else at the open node. */
function stopAt(app: AppState, what: "turn" | "branch"): void {
  const row = document.activeElement?.closest<HTMLElement>("[data-row]")?.dataset.row;
  const target: Target | null = row?.startsWith("t:")
    ? { what: "task", id: row.slice(2) }
    : row?.startsWith("s:")
      ? { what, id: row.slice(2) }
      : app.openId !== null
        ? { what, id: app.openId }
        : null;
  if (target !== null) void app.stop(target);
}
