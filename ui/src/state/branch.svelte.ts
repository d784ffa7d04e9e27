import { SvelteMap } from "svelte/reactivity";
import type { SessionId, SessionState, SessionView, TaskId, TaskStatus, TaskView } from "../wire";

/** What a session and all below it used. */
export type Sum = {
  input: number;
  output: number;
  requests: number;
  estimated: number;
  /** US dollars of the sessions whose cost is known. */
  cost: number;
  /** Sessions that used tokens at a known, and at an unknown price. */
  priced: number;
  unpriced: number;
};

/** Whether a session has a run of its own that may still do something. */
export function lives(state: SessionState): boolean {
  return state === "starting" || state === "running" || state === "waiting" || state === "stopping";
}

/** Whether a session's last run has ended. */
export function settled(state: SessionState): boolean {
  return state === "completed" || state === "failed" || state === "killed" || state === "interrupted";
}

export function taskLives(status: TaskStatus): boolean {
  return status === "running" || status === "stopping";
}

/** Sessions and commands by who delegated them, in the order in which they began, with the sums of every branch. */
export class Branches {
  readonly sessions = new SvelteMap<SessionId, SessionView>();
  readonly tasks = new SvelteMap<TaskId, TaskView>();
  readonly sums = new SvelteMap<SessionId, Sum>();
  /** Changes when the list of rows may change: something came, went, began or ended. */
  shape = $state(0);

  #changed = false;
  #gone = new Set<SessionId>();
  #children = new Map<SessionId | null, SessionId[]>();
  #commands = new Map<SessionId, TaskId[]>();

  roots(): readonly SessionId[] {
    return this.childrenOf(null);
  }

  /** Read where effects follow: changes of the lists are told by `shape`. */
  childrenOf(id: SessionId | null): readonly SessionId[] {
    void this.shape;
    return this.#children.get(id) ?? [];
  }

  /** The commands that a session started, oldest first. */
  commandsOf(id: SessionId): readonly TaskId[] {
    void this.shape;
    return this.#commands.get(id) ?? [];
  }

  /** From the root down to the session's parent. */
  lineage(id: SessionId): SessionView[] {
    const above: SessionView[] = [];
    let parent = this.sessions.get(id)?.parent ?? null;
    while (parent !== null) {
      const view = this.sessions.get(parent);
      if (view === undefined || above.includes(view)) break;
      above.unshift(view);
      parent = view.parent;
    }
    return above;
  }

  /** Whether a session is in the archive, by itself or with one above it. */
  isAway(id: SessionId): boolean {
    return this.sessions.get(id)?.archived === true || this.lineage(id).some((above) => above.archived);
  }

  /** The newest root that is not in the archive. */
  newest(): SessionId | undefined {
    return this.roots().findLast((id) => this.sessions.get(id)?.archived === false);
  }

  /** Everything below a session, depth first, in the order of the tree. */
  below(id: SessionId): SessionView[] {
    const all: SessionView[] = [];
    for (const child of this.childrenOf(id)) {
      const view = this.sessions.get(child);
      if (view !== undefined) all.push(view, ...this.below(child));
    }
    return all;
  }

  /** Tells those who follow `shape` once about all that was put and removed before. */
  tell(): void {
    if (this.#changed) this.shape += 1;
    this.#changed = false;
  }

  put(view: SessionView): void {
    const old = this.sessions.get(view.id);
    if (this.#gone.has(view.id) || (old !== undefined && old.last_n > view.last_n)) return;
    this.sessions.set(view.id, view);
    if (old === undefined) {
      this.#insert(this.#children, view.parent, view.id, (id) => this.sessions.get(id)?.created_at ?? 0);
      const sum = { ...NOTHING };
      for (const child of this.childrenOf(view.id)) add(sum, this.sums.get(child) ?? NOTHING, 1);
      this.sums.set(view.id, { ...NOTHING });
      this.#grow(view.id, sum);
    }
    const grown = { ...NOTHING };
    add(grown, ownSum(view), 1);
    if (old !== undefined) add(grown, ownSum(old), -1);
    this.#grow(view.id, grown);
    const moved = old?.state !== view.state || old.live_below !== view.live_below || old.archived !== view.archived;
    if (moved) this.#changed = true;
  }

  putTask(view: TaskView): void {
    const old = this.tasks.get(view.id);
    if (this.#gone.has(view.owner)) return;
    if (old !== undefined && !taskLives(old.status) && taskLives(view.status)) return;
    this.tasks.set(view.id, view);
    // A task that activates a child shows as that child.
    if (old === undefined && view.child === null) {
      this.#insert(this.#commands, view.owner, view.id, (id) => this.tasks.get(id)?.started_at ?? 0);
    }
    if (old === undefined || old.status !== view.status) this.#changed = true;
  }

  /** Takes a session out with all below it, for good: what was read of it before does not bring it back. */
  remove(id: SessionId): void {
    this.#gone.add(id);
    const view = this.sessions.get(id);
    if (view === undefined) return;
    for (const child of [...this.childrenOf(id)]) this.remove(child);
    const shrunk = { ...NOTHING };
    add(shrunk, this.sums.get(id) ?? NOTHING, -1);
    this.#grow(id, shrunk);
    for (const task of this.tasks.values()) if (task.owner === id) this.tasks.delete(task.id);
    this.#commands.delete(id);
    this.#children.delete(id);
    const siblings = this.#children.get(view.parent);
    siblings?.splice(siblings.indexOf(id), 1);
    this.sums.delete(id);
    this.sessions.delete(id);
    this.#changed = true;
  }

  #insert<K, V>(into: Map<K, V[]>, under: K, id: V, at: (id: V) => number): void {
    const list = into.get(under) ?? [];
    let place = list.length;
    while (place > 0 && at(list[place - 1] as V) > at(id)) place -= 1;
    list.splice(place, 0, id);
    into.set(under, list);
  }

  /** Adds to the sums of a session and of all above it. */
  #grow(id: SessionId, by: Sum): void {
    if (Object.values(by).every((n) => n === 0)) return;
    let at: SessionId | null = id;
    const seen = new Set<SessionId>();
    while (at !== null && !seen.has(at)) {
      seen.add(at);
      const sum: Sum = { ...(this.sums.get(at) ?? NOTHING) };
      add(sum, by, 1);
      if (this.sums.has(at)) this.sums.set(at, sum);
      at = this.sessions.get(at)?.parent ?? null;
    }
  }
}

/** What a session itself used. */
export function ownSum(view: SessionView): Sum {
  const used = view.tokens.input + view.tokens.output > 0;
  return {
    input: view.tokens.input,
    output: view.tokens.output,
    requests: view.tokens.requests,
    estimated: view.tokens.estimated ? 1 : 0,
    cost: view.cost ?? 0,
    priced: view.cost !== null && used ? 1 : 0,
    unpriced: view.cost === null && used ? 1 : 0,
  };
}

/** The sum of sums. */
export function total(sums: Iterable<Sum>): Sum {
  const all = { ...NOTHING };
  for (const sum of sums) add(all, sum, 1);
  return all;
}

function add(sum: Sum, other: Sum, times: 1 | -1): void {
  sum.input += times * other.input;
  sum.output += times * other.output;
  sum.requests += times * other.requests;
  sum.estimated += times * other.estimated;
  sum.cost += times * other.cost;
  sum.priced += times * other.priced;
  sum.unpriced += times * other.unpriced;
}

export const NOTHING: Readonly<Sum> = {
  input: 0,
  output: 0,
  requests: 0,
  estimated: 0,
  cost: 0,
  priced: 0,
  unpriced: 0,
};
