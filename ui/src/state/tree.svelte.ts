import { untrack } from "svelte";
import { SvelteMap, SvelteSet } from "svelte/reactivity";
import { archiveKey, buildRows, type TreeRow } from "../tree/rows";
import type { SessionId, SessionView, TaskView } from "../wire";
import type { Branches } from "./branch.svelte";
import { recall, remember } from "./memory";

/** What the tree is made of, and what is looked at. */
export interface Forest {
  readonly sessions: ReadonlyMap<SessionId, SessionView>;
  readonly branches: Branches;
  readonly openId: SessionId | null;
  unread(view: SessionView): boolean;
  commandShown(task: TaskView): boolean;
}

/** The rows of the tree as they stand: what is open, what is folded, and where the focus is. */
export class TreeState {
  /** The row that has, or last had, the focus. */
  focusKey = $state<string | null>(null);
  rows = $derived.by<TreeRow[]>(() => this.#build());

  #app: Forest;
  #expanded = new SvelteMap<SessionId, boolean>(Object.entries(recall<Record<string, boolean>>("expanded", {})));
  /** Roots that were looked at or lived in this window: they open, and stay as they are when they settle. */
  #touched = new Set<SessionId>();
  #unfolded = new SvelteSet<string>();

  constructor(app: Forest) {
    this.#app = app;
  }

  isExpanded(id: SessionId): boolean {
    const view = this.#app.sessions.get(id);
    return this.#expanded.get(id) ?? ((view?.depth ?? 0) > 0 || this.#touched.has(id) || (view?.live_below ?? 0) > 0);
  }

  expand(id: SessionId, open: boolean): void {
    this.#expanded.set(id, open);
    remember("expanded", Object.fromEntries(this.#expanded));
  }

  unfold(key: string, open: boolean): void {
    if (open) this.#unfolded.add(key);
    else this.#unfolded.delete(key);
  }

  /** Makes a session's row visible: opens all above it. */
  reveal(id: SessionId): void {
    const view = this.#app.sessions.get(id);
    if (view === undefined) return;
    this.#touched.add(view.root);
    this.#app.branches.shape += 1;
    const lineage = this.#app.branches.lineage(id);
    for (const above of lineage) if (!this.isExpanded(above.id)) this.expand(above.id, true);
    for (const each of [...lineage, view]) if (each.archived) this.unfold(archiveKey(each.parent), true);
    this.focusKey = `s:${id}`;
  }

  forget(id: SessionId): void {
    if (this.#expanded.delete(id)) remember("expanded", Object.fromEntries(this.#expanded));
    this.#touched.delete(id);
  }

  #build(): TreeRow[] {
    const app = this.#app;
    void app.branches.shape;
    void app.openId;
    void this.#expanded.size;
    const expanded = new Map(this.#expanded);
    const unfolded = new Set(this.#unfolded);
    // The views themselves are not followed here: `shape` tells when a change matters to the list.
    return untrack(() =>
      buildRows(app.branches, {
        expanded: (view) => {
          if (view.depth === 0 && view.live_below > 0) this.#touched.add(view.id);
          return expanded.get(view.id) ?? (view.depth > 0 || this.#touched.has(view.id));
        },
        unfolded: (key) => unfolded.has(key),
        keep: (view) => view.id === app.openId || app.unread(view),
        shown: (task) => app.commandShown(task),
      }),
    );
  }
}
