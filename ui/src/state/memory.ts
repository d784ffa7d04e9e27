// What the window remembers between two looks, in the page's own storage. Losing it loses no work: every read has a
// sane answer when nothing, or something broken, is stored.

import type { SessionId } from "../wire";

/** Where a reader stood: a row and how far its top was from the top of the pane, in pixels. */
export type Anchor = { n: number; part: number; offset: number };

/** What is remembered of one session. */
export type Place = {
  draft?: string;
  /** None: at the end, following. */
  anchor?: Anchor;
  /** Rows that the person opened or closed, by `n:part`. */
  open?: Record<string, boolean>;
};

const PREFIX = "coppice.";

export function recall<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

/** Stores a value. Answers false when the storage is full or off. */
export function remember(name: string, value: unknown): boolean {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function placeOf(session: SessionId): Place {
  return recall<Place>(`place.${session}`, {});
}

/** Changes what is remembered of a session; an undefined value forgets that part. */
export function rememberPlace(session: SessionId, change: Partial<Place>): boolean {
  return remember(`place.${session}`, { ...placeOf(session), ...change });
}

export function forgetPlace(session: SessionId): void {
  try {
    localStorage.removeItem(`${PREFIX}place.${session}`);
  } catch {
    // Storage that cannot be written holds nothing to forget.
  }
}
