import { call, HostError, isRace, mintKey } from "../host";
import type { AppState } from "../state/app.svelte";
import { recall, remember } from "../state/memory";
import type { Row, SessionView } from "../wire";
import type { Route } from "./routes";

/** A message between the press and its row in the transcript. */
export type Sending = {
  /** One per press, so that asking again does nothing twice. */
  key: string;
  session: string;
  text: string;
  at: number;
  /** The session's last event at the press: its row comes later. */
  after: number;
  /** `kept`: it is not known whether it arrived, so nothing is sent by itself. */
  phase: "sending" | "accepted" | "kept";
  /** Its event, once it is known. */
  n: number | null;
};

/** Why a message was not sent. `race` says that the state had changed, and nothing is wrong. */
export type Refusal = { code: HostError["code"]; reason: string; race: boolean };

/** The most bytes of one message. */
export const MOST_BYTES = 1_000_000;
/** Codes that leave open whether the engine took the message: the same key asks again. */
const OPEN: ReadonlySet<HostError["code"]> = new Set(["internal", "shutting_down", "store"]);
const STORED = "outbox";

/** Messages on their way. What is not known to have arrived survives a reload, and goes back into the box. */
export class Outbox {
  sending = $state.raw<readonly Sending[]>([]);

  #app: AppState;

  constructor(app: AppState) {
    this.#app = app;
    const left = recall<Sending[]>(STORED, []);
    if (!Array.isArray(left)) return;
    for (const each of left) {
      this.#put({ ...each, phase: "kept" });
      this.#giveBack(each.session, each.text);
    }
  }

  /** The messages of a session that are on their way, oldest first. */
  of(session: string): Sending[] {
    return this.sending.filter((each) => each.session === session && each.phase !== "kept");
  }

  /** The text of the last message of a session that is not known to have been sent. */
  unsent(session: string): string | null {
    return this.sending.filter((each) => each.session === session && each.phase === "kept").at(-1)?.text ?? null;
  }

  /**
   * Sends a message and empties the box; a message that is not sent goes back into it. `way` is what was shown at the
   * press: by another way nothing is delivered.
   */
  async send(session: SessionView, text: string, way: Route["way"]): Promise<Refusal | null> {
    const size = new TextEncoder().encode(text).length;
    if (size > MOST_BYTES) {
      const reason = `it has ${(size / 1e6).toFixed(1)} MB, and a message may have 1 MB. Put the rest in a file and name it`;
      return { code: "too_large", reason, race: false };
    }
    const kept = this.sending.find(
      (each) => each.session === session.id && each.phase === "kept" && each.text === text,
    );
    const sending: Sending = {
      key: kept?.key ?? mintKey(),
      session: session.id,
      text,
      at: Date.now(),
      after: kept?.after ?? session.last_n,
      phase: "sending",
      n: null,
    };
    this.#put(sending);
    this.#app.setDraft(session.id, "");
    try {
      const n = await this.#deliver(session, sending, way);
      // What was kept before is either this message or was given up for it.
      this.sending = this.sending.filter((each) => each.session !== session.id || each.phase !== "kept");
      this.#put({ ...sending, phase: "accepted", n });
      return null;
    } catch (error) {
      const code = error instanceof HostError ? error.code : "internal";
      if (OPEN.has(code)) this.#put({ ...sending, phase: "kept" });
      else this.#drop(sending.key);
      this.#giveBack(session.id, text);
      const reason = error instanceof Error ? error.message : String(error);
      return { code, reason, race: isRace(code) };
    }
  }

  /** Forgets what the log holds by now. */
  arrived(session: string, rows: readonly Row[]): void {
    const taken = new Set<Row>();
    for (const each of this.sending.filter((each) => each.session === session)) {
      const row = rows.find((row) => !taken.has(row) && isRowOf(row, each));
      if (row === undefined) continue;
      if (each.n === null) taken.add(row);
      // It had arrived after all, so the text that was given back is not wanted again.
      if (each.phase === "kept" && this.#app.draft(session) === each.text) this.#app.setDraft(session, "");
      this.#drop(each.key);
    }
  }

  /** The event that holds the message, where the answer tells. */
  async #deliver(session: SessionView, { text, key }: Sending, way: Route["way"]): Promise<number | null> {
    if (session.parent === null) return (await call("prompt", { session: session.id, text, key })).n;
    await call("send", { child: session.id, text, expect: way === "wakes" ? "started" : "steered", key });
    return null;
  }

  /** Puts text back into the box, before what was typed since. */
  #giveBack(session: string, text: string): void {
    const typed = this.#app.draft(session);
    if (typed === text || typed.startsWith(`${text}\n\n`)) return;
    this.#app.setDraft(session, typed === "" ? text : `${text}\n\n${typed}`);
  }

  #put(sending: Sending): void {
    const known = this.sending.some((each) => each.key === sending.key);
    this.sending = known
      ? this.sending.map((each) => (each.key === sending.key ? sending : each))
      : [...this.sending, sending];
    this.#store();
  }

  #drop(key: string): void {
    this.sending = this.sending.filter((each) => each.key !== key);
    this.#store();
  }

  #store(): void {
    const open = this.sending.filter((each) => each.phase !== "accepted");
    this.#app.noteStored(remember(STORED, open));
  }
}

function isRowOf(row: Row, sending: Sending): boolean {
  if (sending.n !== null) return row.n >= sending.n;
  return row.kind === "message" && row.n > sending.after && row.text === sending.text;
}

const outboxes = new WeakMap<AppState, Outbox>();

/** The one outbox of a window. */
export function outboxOf(app: AppState): Outbox {
  const known = outboxes.get(app);
  if (known !== undefined) return known;
  const outbox = new Outbox(app);
  outboxes.set(app, outbox);
  return outbox;
}
