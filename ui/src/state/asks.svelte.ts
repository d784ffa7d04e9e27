import { SvelteMap, SvelteSet } from "svelte/reactivity";
import { call, HostError, isRace, mintKey } from "../host";
import { asksNow, becameOf, rank } from "../inbox/words";
import type { AskId, AskView, Decision, SessionId } from "../wire";

/** The most asks that are kept after they were answered or taken back. */
const MOST_SETTLED = 200;

/** What came into view less than this ago was not read by who presses now, in milliseconds. */
export const UNREAD = 400;

/** Said of an answer that was pressed sooner than that. */
export const NOT_READ = "Not answered: what is shown changed as you pressed.";

/** The asks of all trees: those that wait, and what became of those that were decided lately. */
export class Asks {
  #all = $state.raw<ReadonlyMap<AskId, AskView>>(new Map());
  #waiting = $derived(
    [...this.#all.values()].filter((ask) => asksNow(ask.state)).sort((a, b) => a.asked_at - b.asked_at || a.n - b.n),
  );
  #bySession = $derived(bySession(this.#waiting));

  /** Those that wait, oldest first. */
  readonly open = $derived(this.#waiting.filter((ask) => ask.state === "open"));
  /** Those that wait and were put off, oldest first. */
  readonly later = $derived(this.#waiting.filter((ask) => ask.state === "later"));
  /** Those that were answered or taken back, the newest first. */
  readonly settled = $derived(
    [...this.#all.values()]
      .filter((ask) => !asksNow(ask.state))
      .sort((a, b) => (b.decided_at ?? b.asked_at) - (a.decided_at ?? a.asked_at)),
  );

  /** Answers that are under way. */
  readonly busy = new SvelteSet<AskId>();
  /** Why the last answer to an ask did not count. */
  readonly problems = new SvelteMap<AskId, string>();
  /** Words to the agent that are being written. */
  readonly notes = new SvelteMap<AskId, string>();
  /** When an answer last counted: what stood below it moved then. */
  answeredAt = Number.NEGATIVE_INFINITY;

  #gone = new Set<SessionId>();
  /** The last try that failed: the same again is the same action. */
  #tried = { what: "", key: "" };

  get(id: AskId | null): AskView | undefined {
    return id === null ? undefined : this.#all.get(id);
  }

  /** The asks of one session that wait, oldest first. */
  of(session: SessionId): readonly AskView[] {
    return this.#bySession.get(session) ?? [];
  }

  /** The next one to look at once `id` is answered: the next that waits, else one that was put off. */
  after(id: AskId): AskView | undefined {
    const at = this.open.findIndex((ask) => ask.id === id);
    const others = [...this.open.slice(at + 1), ...this.open.slice(0, Math.max(0, at)), ...this.later];
    return others.find((ask) => ask.id !== id);
  }

  /** What was decided last about exactly the same in the same folder; none when nothing was. */
  before(ask: AskView): AskView | undefined {
    const what = JSON.stringify(ask.allows ?? ask.action);
    return this.settled.find(
      (other) =>
        other.id !== ask.id &&
        other.state !== "withdrawn" &&
        other.cwd === ask.cwd &&
        (other.decided_at ?? 0) <= (ask.decided_at ?? Number.POSITIVE_INFINITY) &&
        JSON.stringify(other.allows ?? other.action) === what,
    );
  }

  /** Reads all anew. What frames tell meanwhile stands. */
  async read(): Promise<void> {
    const known = [...this.#all.keys()];
    const { asks } = await call("asks", { all: true });
    const told = new Set(asks.map((ask) => ask.id));
    const all = new Map(this.#all);
    for (const id of known) if (!told.has(id)) all.delete(id);
    for (const ask of asks) this.#lay(all, ask);
    this.#keep(all);
  }

  /** Takes what a frame tells. Answers those that are new and wait. */
  take(asks: readonly AskView[]): AskView[] {
    if (asks.length === 0) return [];
    const all = new Map(this.#all);
    const fresh = asks.filter((ask) => !all.has(ask.id) && ask.state === "open");
    for (const ask of asks) this.#lay(all, ask);
    this.#keep(all);
    return fresh.filter((ask) => all.has(ask.id));
  }

  /** The session was deleted, and its asks with it. */
  remove(session: SessionId): void {
    this.#gone.add(session);
    const all = new Map(this.#all);
    for (const ask of this.#all.values()) if (ask.session === session) all.delete(ask.id);
    if (all.size < this.#all.size) this.#keep(all);
  }

  /** Gives an answer. Answers whether it counts; why not is in `problems`. */
  async answer(ask: AskView, decision: Decision, note = ""): Promise<boolean> {
    if (this.busy.has(ask.id)) return false;
    this.busy.add(ask.id);
    this.problems.delete(ask.id);
    const what = JSON.stringify([ask.id, decision, note]);
    const key = this.#tried.what === what ? this.#tried.key : mintKey();
    this.#tried = { what, key };
    try {
      const answered = await call("answer", { ask: ask.id, decision, key, ...(note === "" ? {} : { note }) });
      this.take([answered.ask]);
      this.answeredAt = performance.now();
      this.notes.delete(ask.id);
      this.#tried = { what: "", key: "" };
      return true;
    } catch (error) {
      if (error instanceof HostError && isRace(error.code)) {
        this.#tried = { what: "", key: "" };
        this.problems.set(ask.id, await this.#tooLate(ask.id, error.message));
      } else {
        this.problems.set(ask.id, `Not decided. ${error instanceof HostError ? error.message : String(error)}`);
      }
      return false;
    } finally {
      this.busy.delete(ask.id);
    }
  }

  /** What is told when somebody else, or a stop, was first. */
  async #tooLate(id: AskId, message: string): Promise<string> {
    try {
      await this.read();
    } catch {
      return `Too late. ${message}`;
    }
    const ask = this.get(id);
    if (ask === undefined) return "Too late: its session was deleted.";
    if (asksNow(ask.state)) return `Not decided. ${message}`;
    return `Too late, your answer did not count: it was ${becameOf(ask.state).words.toLowerCase()}.`;
  }

  #lay(all: Map<AskId, AskView>, ask: AskView): void {
    const old = all.get(ask.id);
    if (this.#gone.has(ask.session) || (old !== undefined && rank(old.state) > rank(ask.state))) return;
    all.set(ask.id, ask);
  }

  #keep(all: Map<AskId, AskView>): void {
    const settled = [...all.values()].filter((ask) => !asksNow(ask.state));
    if (settled.length > MOST_SETTLED) {
      settled.sort((a, b) => (b.decided_at ?? 0) - (a.decided_at ?? 0));
      for (const ask of settled.slice(MOST_SETTLED)) all.delete(ask.id);
    }
    this.#all = all;
  }
}

function bySession(asks: readonly AskView[]): Map<SessionId, AskView[]> {
  const found = new Map<SessionId, AskView[]>();
  for (const ask of asks) {
    const own = found.get(ask.session);
    if (own === undefined) found.set(ask.session, [ask]);
    else own.push(ask);
  }
  return found;
}
