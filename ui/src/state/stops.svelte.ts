import { call, HostError, mintKey } from "../host";
import type { Receipt, SessionId, StopWhat } from "../wire";

/** What a stop is aimed at; `id` names the session or task, and is left out for everything. */
export type Target = { what: StopWhat; id?: string };

/** A receipt and when it came. */
export type Stopped = { receipt: Receipt; at: number };

const SETTLE_MS = 200;

/** Stops, what they would end, and what they ended. */
export class Stops {
  /** What each verb would end now, for the session that is looked at; by `what`. */
  previews = $state.raw<Partial<Record<StopWhat, Receipt>>>({});
  /** The last receipt, kept until the next. */
  last = $state.raw<Stopped | null>(null);
  /** The targets of stops that are under way. */
  underWay = $state.raw<readonly Target[]>([]);
  problem = $state<string | null>(null);

  #say: (sentence: string) => void;
  #of: SessionId | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #asked = 0;

  constructor(say: (sentence: string) => void) {
    this.#say = say;
  }

  /** Looks at a session: its previews are kept fresh until another is looked at. */
  aim(id: SessionId | null): void {
    if (id === this.#of) return;
    this.#of = id;
    this.previews = {};
    this.changed();
  }

  /** Something changed, so the previews may be old. */
  changed(): void {
    if (this.#of === null || this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.#preview();
    }, SETTLE_MS);
  }

  isUnderWay(what: StopWhat, id?: string): boolean {
    return this.underWay.some((target) => target.what === what && target.id === id);
  }

  /** Tells what a stop would end, without ending it. */
  async preview(target: Target): Promise<Receipt> {
    return await call("stop", { ...target, preview: true, key: mintKey() });
  }

  /** Stops, and keeps the receipt. Answers null when it failed; `problem` says why. */
  async stop(target: Target, reason?: string): Promise<Receipt | null> {
    if (this.isUnderWay(target.what, target.id)) return null;
    this.underWay = [...this.underWay, target];
    this.problem = null;
    try {
      const receipt = await call("stop", { ...target, ...(reason === undefined ? {} : { reason }), key: mintKey() });
      this.last = { receipt, at: Date.now() };
      const part = receipt.unconfirmed.length > 0 ? ", one part unconfirmed" : "";
      this.#say(`Stopped ${receipt.label}: ${receipt.ended.length} ended${part}.`);
      return receipt;
    } catch (error) {
      this.problem = error instanceof HostError ? error.message : String(error);
      this.#say(`Not stopped: ${this.problem}`);
      return null;
    } finally {
      this.underWay = this.underWay.filter((each) => each !== target);
      this.changed();
    }
  }

  async #preview(): Promise<void> {
    const of = this.#of;
    if (of === null) return;
    this.#asked += 1;
    const asked = this.#asked;
    try {
      const [turn, branch, everything] = await Promise.all([
        this.preview({ what: "turn", id: of }),
        this.preview({ what: "branch", id: of }),
        this.preview({ what: "everything" }),
      ]);
      if (asked === this.#asked && of === this.#of) this.previews = { turn, branch, everything };
    } catch (error) {
      // The verbs stay usable without their previews; the reason stands beside them.
      if (asked === this.#asked) this.problem = error instanceof HostError ? error.message : String(error);
    }
  }
}
