// The only timer of the window: once a second, only while the window is seen and something runs.

import type { SessionId } from "../wire";

const COARSE_MS = 20_000;

export class Clock {
  /** To the second while it ticks. For the open node only. */
  now = $state(Date.now());
  /** In coarse steps: what the tree counts by, because ticking is not a sign of life. */
  coarse = $state(Date.now());
  /** The session whose glyph is dimmed for this step, because an event came for it. */
  beat = $state<SessionId | null>(null);

  #signs = new Set<SessionId>();
  #timer: ReturnType<typeof setInterval> | null = null;
  #wanted = false;

  constructor() {
    document.addEventListener("visibilitychange", () => this.#set());
  }

  /** Says whether something runs. */
  run(wanted: boolean): void {
    this.#wanted = wanted;
    this.#set();
  }

  /** An event came for a session that runs. */
  sign(id: SessionId): void {
    if (this.#timer !== null) this.#signs.add(id);
  }

  #set(): void {
    const on = this.#wanted && !document.hidden;
    if (on && this.#timer === null) {
      this.#tick();
      this.#timer = setInterval(() => this.#tick(), 1000);
    } else if (!on && this.#timer !== null) {
      clearInterval(this.#timer);
      this.#timer = null;
      this.#signs.clear();
      this.beat = null;
      this.now = Date.now();
      this.coarse = this.now;
    }
  }

  #tick(): void {
    this.now = Date.now();
    if (Math.abs(this.now - this.coarse) >= COARSE_MS) this.coarse = this.now;
    if (this.beat !== null) {
      this.beat = null;
      return;
    }
    for (const id of this.#signs) {
      this.#signs.delete(id);
      this.beat = id;
      break;
    }
  }
}
