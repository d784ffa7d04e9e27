// What a session may do without asking, in words. Pure.

import type { Mode, SessionView } from "../wire";

/** From the least to the most. */
export const MODES: readonly Mode[] = ["read-only", "ask", "accept-edits", "full"];

export const MODE_WORDS: Readonly<Record<Mode, string>> = {
  "read-only": "read only",
  ask: "asks first",
  "accept-edits": "edits freely",
  full: "full access",
};

/** What a mode means, in one line. */
export const MODE_MEANS: Readonly<Record<Mode, string>> = {
  "read-only": "Looks around in its folder, and changes nothing.",
  ask: "Looks around in its folder. Asks before anything else.",
  "accept-edits": "Writes files in its folder. Asks before other commands and places.",
  full: "Runs and writes anything, and asks nothing.",
};

/** Whether a mode allows more than another. */
export function exceeds(mode: Mode, most: Mode): boolean {
  return MODES.indexOf(mode) > MODES.indexOf(most);
}

/** The least of the modes of these sessions; `full` for none. */
export function leastOf(views: readonly SessionView[]): Mode {
  return views.reduce<Mode>((least, view) => (exceeds(view.mode, least) ? least : view.mode), "full");
}
