import { SvelteMap } from "svelte/reactivity";
import { call, HostError } from "../host";
import type { CallId, Frame, LiveBlock, LiveView, Row, SessionId } from "../wire";
import { type Anchor, placeOf, rememberPlace } from "./memory";

/** The most rows that are held at once; what scrolls out of reach is fetched again by cursor. */
export const MOST_ROWS = 1500;
type AskRow = Extract<Row, { kind: "ask" }>;

const PAGE_EVENTS = 200;

/** Names a row within its session. */
export function rowKey(row: { n: number; part: number }): string {
  return `${row.n}:${row.part}`;
}

/** The transcript of the open session: a window of rows around where the reader is, and what streams now. */
export class SessionStore {
  readonly id: SessionId;

  /** Sorted by `(n, part)`, without gaps between the first and the last. Replaced on every change. */
  rows = $state.raw<Row[]>([]);
  /** The reply that streams and the calls that run; blocks hold their whole text, with `from` 0. */
  live = $state.raw<LiveView | null>(null);
  /** When something last streamed; what was committed stands in the session's own view. */
  signAt = $state(0);
  /** Whether the newest row of the session is among `rows`. */
  atEnd = $state(false);
  /** The `n` of the first event that gives rows. */
  first = $state(0);
  loading = $state<"before" | "after" | "end" | null>(null);
  problem = $state<string | null>(null);
  /** The reader sees the end and wants to stay there. The transcript keeps it. */
  following = $state(true);
  /** Where the reader stood when they left; none for the end. */
  anchor: Anchor | null;

  /** What was asked before a call could go on, by the call; of several the last. */
  readonly asked: ReadonlyMap<CallId, AskRow> = $derived(
    new Map(this.rows.filter((row) => row.kind === "ask").map((row) => [row.call, row])),
  );

  #open = new SvelteMap<string, boolean>();
  #loaded = false;
  /** Rows that frames brought while a page was under way. */
  #late: Row[] = [];

  constructor(id: SessionId) {
    this.id = id;
    const place = placeOf(id);
    this.anchor = place.anchor ?? null;
    for (const [key, open] of Object.entries(place.open ?? {})) this.#open.set(key, open);
  }

  /** Whether nothing comes before the rows that are held. */
  get atStart(): boolean {
    const row = this.rows[0];
    return row === undefined ? this.atEnd : row.n <= this.first;
  }

  /** Loads the rows around the remembered anchor, or the newest. */
  async load(): Promise<void> {
    const anchor = this.anchor;
    if (anchor === null) return await this.loadEnd();
    await this.#page("before", { before: anchor.n + 1 });
    await this.loadAfter();
  }

  /** Loads all anew: frames may have been missed. */
  async renew(): Promise<void> {
    this.rows = [];
    this.atEnd = false;
    this.live = null;
    await this.load();
  }

  /** Drops what is held and loads the newest rows. */
  async loadEnd(): Promise<void> {
    await this.#page("end", {});
  }

  async loadBefore(): Promise<void> {
    const row = this.rows[0];
    if (row === undefined || this.atStart) return;
    await this.#page("before", { before: row.n });
  }

  async loadAfter(): Promise<void> {
    const row = this.rows.at(-1);
    if (row === undefined || this.atEnd) return;
    await this.#page("after", { after: row.n });
  }

  /** Takes what a frame tells about this session. */
  apply(frame: Frame): void {
    if (frame.rows.length > 0) {
      this.#take(frame.rows);
      this.live = withoutCommitted(this.live, frame.rows);
    }
    if (frame.live === null) return;
    this.signAt = frame.live.at;
    this.live = withoutCommitted(mergeLive(this.live, frame.live), frame.rows);
  }

  /** The turn is over: what streamed is a row now, or will never be one. */
  settle(): void {
    this.live = null;
  }

  /** Whether a row is open, as the person left it, else as `otherwise` says. */
  isOpen(key: string, otherwise: boolean): boolean {
    return this.#open.get(key) ?? otherwise;
  }

  setOpen(key: string, open: boolean): void {
    this.#open.set(key, open);
    rememberPlace(this.id, { open: Object.fromEntries(this.#open) });
  }

  /** Remembers where the reader stands; none for the end. */
  rememberAnchor(anchor: Anchor | null): void {
    this.anchor = anchor;
    rememberPlace(this.id, { anchor: anchor ?? undefined });
  }

  async #page(way: "before" | "after" | "end", cursor: { before?: number; after?: number }): Promise<void> {
    if (this.loading !== null) return;
    this.loading = way;
    this.problem = null;
    try {
      const page = await call("page", { session: this.id, ...cursor, limit: PAGE_EVENTS });
      this.first = page.first;
      // A row that a frame brought is at least as new as the page's, and stays.
      const held = way === "end" ? this.rows.filter((row) => row.n >= (page.rows[0]?.n ?? 0)) : this.rows;
      this.rows = merge(page.rows, held);
      const reached = cursor.after === undefined ? (this.rows.at(-1)?.n ?? 0) : cursor.after + PAGE_EVENTS;
      if (way === "end" || reached >= page.last) this.atEnd = true;
      this.#loaded = true;
      this.#trim(way === "before" ? "end" : "start");
    } catch (error) {
      this.problem = error instanceof HostError ? error.message : String(error);
    } finally {
      this.loading = null;
      const late = this.#late;
      this.#late = [];
      if (late.length > 0) this.#take(late);
    }
  }

  #take(rows: Row[]): void {
    // The page that is under way may be older than these rows, so they are laid over it when it is there.
    if (this.loading !== null) this.#late = merge(this.#late, rows);
    if (!this.#loaded) return;
    const first = this.rows[0]?.n ?? 0;
    const last = this.rows.at(-1)?.n ?? 0;
    // Rows outside the held window would leave a gap; paging brings them in their turn.
    const fits = rows.filter((row) => row.n >= first && (this.atEnd || row.n <= last));
    if (fits.length === 0) return;
    this.rows = merge(this.rows, fits);
    this.#trim(this.following ? "start" : "end");
  }

  #trim(side: "start" | "end"): void {
    const excess = this.rows.length - MOST_ROWS;
    if (excess <= 0) return;
    // The rows of one event stay together, because cursors count events.
    if (side === "start") {
      const from = this.rows[excess]?.n ?? 0;
      this.rows = this.rows.filter((row) => row.n >= from);
    } else {
      const to = this.rows[MOST_ROWS - 1]?.n ?? 0;
      this.rows = this.rows.filter((row) => row.n <= to);
      this.atEnd = false;
    }
  }
}

/** Joins two sorted lists; where both have a row, `newer` wins. */
export function merge(older: Row[], newer: Row[]): Row[] {
  const joined: Row[] = [];
  let a = 0;
  let b = 0;
  for (;;) {
    const x = older[a];
    const y = newer[b];
    if (x === undefined && y === undefined) return joined;
    const order = x === undefined ? 1 : y === undefined ? -1 : x.n - y.n || x.part - y.part;
    if (order <= 0 && x !== undefined) {
      if (order < 0) joined.push(x);
      a += 1;
    }
    if (order >= 0 && y !== undefined) {
      joined.push(y);
      b += 1;
    }
  }
}

/** Adds a delta to what streams. A block that begins at 0 replaces, one that continues text we never saw is left out. */
export function mergeLive(held: LiveView | null, delta: LiveView): LiveView {
  const known = held !== null && held.step === delta.step ? held.blocks : [];
  const blocks: LiveBlock[] = [];
  for (const [index, block] of delta.blocks.entries()) {
    const before = known[index];
    if (block.from === 0) {
      blocks.push(block);
    } else if (before !== undefined && before.text.length >= block.from) {
      const text = before.text.slice(0, block.from) + block.text;
      blocks.push({ ...before, ...block, name: block.name ?? before.name, from: 0, text });
    }
  }
  return { at: delta.at, step: delta.step, blocks, calls: delta.calls };
}

/** Once the reply is committed its rows speak for it, and only the calls still stream. */
function withoutCommitted(live: LiveView | null, rows: Row[]): LiveView | null {
  if (live === null) return null;
  const committed = rows.some((row) => row.step === live.step && SPOKEN.has(row.kind));
  return committed ? { ...live, blocks: [] } : live;
}

const SPOKEN: ReadonlySet<Row["kind"]> = new Set(["answer", "thinking", "tool", "delegation"]);
