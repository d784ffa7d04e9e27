import { count } from "../format";
import { call, HostError, mintKey } from "../host";
import type { Receipt, ReceiptItem, SessionId, StopWhat } from "../wire";
import { type Branches, lives, taskLives } from "./branch.svelte";

/** What a stop is aimed at; `id` names the session or task, and is left out for everything. */
export type Target = { what: StopWhat; id?: string };

/** A receipt, what the stop was aimed at, and when it came. */
export type Stopped = { target: Target; receipt: Receipt; at: number };

/** A stop that is asked and not yet proven, with what it is to end. */
export type UnderWay = { target: Target; label: string; expected: ReceiptItem[] };

const SETTLE_MS = 200;
/** Receipts that are kept at hand. All of them stand in the transcripts. */
const MOST_RECEIPTS = 50;

/** Stops, what they would end, and what they ended. */
export class Stops {
  /** What each verb would end now, for the session that is looked at; by `what`. */
  previews = $state.raw<Partial<Record<StopWhat, Receipt>>>({});
  /** The newest first. */
  receipts = $state.raw<readonly Stopped[]>([]);
  underWay = $state.raw<readonly UnderWay[]>([]);
  /** Why a stop failed. */
  problem = $state<string | null>(null);
  /** Why it cannot be told what the verbs would end. */
  blind = $state<string | null>(null);

  #branches: Branches;
  #say: (sentence: string) => void;
  #of: SessionId | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #asked = 0;

  constructor(branches: Branches, say: (sentence: string) => void) {
    this.#branches = branches;
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
    return this.underWay.some(({ target }) => target.what === what && target.id === id);
  }

  /** The last receipt of a stop in the branch of a session; none for a session that began after it. */
  lastIn(id: SessionId): Stopped | null {
    const began = this.#branches.sessions.get(id)?.created_at ?? 0;
    return this.receipts.find(({ target, at }) => at >= began && this.#isIn(target, id)) ?? null;
  }

  /** The stops under way in the branch of a session. */
  underWayIn(id: SessionId): readonly UnderWay[] {
    return this.underWay.filter(({ target }) => this.#isIn(target, id));
  }

  /** Whether the end of a run that began at `since` is told by a stop that was asked for here. */
  toldIn(id: SessionId, since: number): boolean {
    return (
      this.#covers(this.underWay, id) ||
      this.#covers(
        this.receipts.filter(({ at }) => at >= since),
        id,
      )
    );
  }

  /** Whether one of these stops ends what runs in a session. */
  #covers(stops: readonly { target: Target }[], id: SessionId): boolean {
    const above = this.#branches.lineage(id).map((view) => view.id);
    return stops.some(({ target }) => {
      if (target.id === undefined) return true;
      const aim = this.#branches.tasks.get(target.id)?.child ?? target.id;
      return aim === id || above.includes(aim);
    });
  }

  #isIn(target: Target, id: SessionId): boolean {
    if (target.id === undefined) return true;
    const aim = this.#branches.tasks.get(target.id)?.owner ?? target.id;
    return aim === id || this.#branches.lineage(aim).some((above) => above.id === id);
  }

  /** How many of those that a stop is to end are gone, by what the log says of them. */
  goneOf(stop: UnderWay): number {
    return stop.expected.filter((item) => !this.#stillLives(item)).length;
  }

  /** "2 of 5 gone", for the session or task that a stop under way is aimed at; none without one. */
  progressOf(id: string): string | null {
    const stop = this.underWay.find(({ target, expected }) => target.id === id && expected.length > 1);
    return stop === undefined ? null : `${this.goneOf(stop)} of ${stop.expected.length} gone`;
  }

  #stillLives(item: ReceiptItem): boolean {
    const task = this.#branches.tasks.get(item.id);
    if (task !== undefined) return taskLives(task.status);
    const session = this.#branches.sessions.get(item.id);
    return session !== undefined && lives(session.state);
  }

  /** Tells what a stop would end, without ending it. */
  async preview(target: Target): Promise<Receipt> {
    return await call("stop", { ...target, preview: true, key: mintKey() });
  }

  /** Stops, and keeps the receipt. Answers null when it failed; `problem` says why. */
  async stop(target: Target, reason?: string): Promise<Receipt | null> {
    if (this.isUnderWay(target.what, target.id)) return null;
    const stop: UnderWay = { target, label: this.#labelOf(target), expected: [] };
    this.underWay = [...this.underWay, stop];
    this.problem = null;
    try {
      // The preview runs beside the stop and only counts what is to go, so a stop never waits for it.
      void this.#expect(stop);
      const receipt = await call("stop", { ...target, ...(reason === undefined ? {} : { reason }), key: mintKey() });
      this.keep(target, receipt);
      this.#say(saidOf(receipt));
      return receipt;
    } catch (error) {
      this.problem = error instanceof HostError ? error.message : String(error);
      this.#say(`Not stopped: ${this.problem}`);
      return null;
    } finally {
      this.underWay = this.underWay.filter((each) => each.target !== target);
      this.changed();
    }
  }

  /** Keeps the receipt of a stop at hand. */
  keep(target: Target, receipt: Receipt): void {
    this.receipts = [{ target, receipt, at: Date.now() }, ...this.receipts].slice(0, MOST_RECEIPTS);
  }

  async #expect(stop: UnderWay): Promise<void> {
    try {
      const known = stop.target.id === this.#of || stop.target.what === "everything";
      const preview = (known ? this.previews[stop.target.what] : undefined) ?? (await this.preview(stop.target));
      const expected = preview.ended;
      this.underWay = this.underWay.map((each) => (each.target === stop.target ? { ...each, expected } : each));
    } catch {
      // Without a preview the stop has no count; its receipt tells all.
    }
  }

  #labelOf(target: Target): string {
    if (target.id === undefined) return "Everything";
    return this.#branches.tasks.get(target.id)?.label ?? this.#branches.sessions.get(target.id)?.title ?? "";
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
      if (asked !== this.#asked || of !== this.#of) return;
      this.previews = { turn, branch, everything };
      this.blind = null;
    } catch (error) {
      // The verbs stay usable without their previews; the reason stands beside them.
      if (asked !== this.#asked) return;
      this.previews = {};
      this.blind = error instanceof HostError ? error.message : String(error);
    }
  }
}

function saidOf({ what, label, ended, processes, unconfirmed }: Receipt): string {
  const gone = processes.filter((process) => process.gone).length;
  if (ended.length === 0 && gone > 0 && unconfirmed.length === 0)
    return `Nothing ran; ${count(gone, "process", "processes")} that finished work left behind ended.`;
  if (ended.length === 0 && unconfirmed.length === 0)
    return what === "everything" ? "Nothing ran." : `Nothing ran in ${label}.`;
  const part = unconfirmed.length > 0 ? ", one part unconfirmed" : "";
  return `Stopped ${label}: ${ended.length} ended${part}.`;
}
