// What the palette finds. Pure.

import type { IconName } from "../icons/names";
import type { SessionView } from "../wire";

/** Something that can be done by its name. */
export type Deed = { name: string; keys: string; icon: IconName; run: () => void };

const MOST = 50;

/** Sessions whose title holds every word, the latest sign first. Without words, the latest ones. */
export function sessionsFor(all: readonly SessionView[], query: string): SessionView[] {
  const words = wordsOf(query);
  return all
    .filter((view) => holds(`${view.title} ${view.label ?? ""}`, words))
    .sort((a, b) => b.last_sign_at - a.last_sign_at)
    .slice(0, MOST);
}

export function deedsFor(all: readonly Deed[], query: string): Deed[] {
  const words = wordsOf(query);
  return all.filter((deed) => holds(deed.name, words));
}

function wordsOf(query: string): string[] {
  return query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
}

function holds(text: string, words: readonly string[]): boolean {
  const low = text.toLowerCase();
  return words.every((word) => low.includes(word));
}
