import { SvelteMap } from "svelte/reactivity";
import { runs, STATE_WORDS } from "../format";
import { call, HostError, mintKey, quit, watch } from "../host";
import { asksNow, becameOf, deedOf } from "../inbox/words";
import { MODE_WORDS } from "../mode/words";
import { oneLine } from "../text/clean";
import { titleOf } from "../tree/words";
import type {
  About,
  AskId,
  AskView,
  Decision,
  Frame,
  LimitsView,
  Mode,
  ModelView,
  Push,
  Receipt,
  SessionId,
  SessionView,
  TaskView,
} from "../wire";
import { Asks } from "./asks.svelte";
import { Branches, lives, NOTHING, type Sum, settled, taskLives } from "./branch.svelte";
import { Clock } from "./clock.svelte";
import { Live } from "./live.svelte";
import { Look } from "./look.svelte";
import { forgetPlace, placeOf, recall, remember, rememberPlace } from "./memory";
import { SessionStore } from "./session.svelte";
import { Stops, type Target } from "./stops.svelte";
import { TreeState } from "./tree.svelte";

/** What fills the middle of the window. */
export type View = "session" | "inbox" | "new" | "settings";

/** Everything the window knows: made once, given to every part of it. */
export class AppState {
  readonly asks = new Asks();
  readonly branches = new Branches();
  readonly clock = new Clock();
  readonly live = new Live();
  readonly look = new Look();
  readonly stops = new Stops(this.branches, (sentence) => this.live.say(sentence));
  readonly tree = new TreeState(this);

  openId = $state<SessionId | null>(null);
  /** The transcript of the open session. */
  store = $state.raw<SessionStore | null>(null);
  /** True once the tree was read: before, nothing is known to be empty. */
  ready = $state(false);
  /** One line of the engine for the status line. */
  status = $state<string | null>(null);
  /** Why the window is out of touch with the engine. */
  problem = $state<string | null>(null);
  /** A draft could not be kept in the storage. */
  unstored = $state(false);
  models = $state.raw<ModelView[]>([]);
  limits = $state.raw<LimitsView | null>(null);
  about = $state.raw<About | null>(null);
  /** How many runs a quit would touch, while it is asked. */
  quitting = $state<number | null>(null);
  /** What an overlay asks about; at most one is open. */
  overlay = $state.raw<Overlay | null>(null);
  /** The ask that the inbox shows in full. */
  askId = $state<AskId | null>(null);
  /** The context menu of a row of the tree. */
  menu = $state.raw<Menu | null>(null);

  /** What was archived last, while it can be undone at a press. */
  archived = $state.raw<SessionId | null>(null);

  #view = $state<View>("session");
  #drafts = new SvelteMap<SessionId, string>();
  #seen = new SvelteMap<SessionId, number>(Object.entries(recall<Record<string, number>>("seen", {})));
  /** What was looked at when the window opened, or was last left: what settled since is still shown. */
  #left = new Map<SessionId, number>(this.#seen);
  #since: number;
  #seq: number | null = null;
  /** Subscriptions are asked for one after the other, so that the last one asked for is the one that holds. */
  #watched: Promise<unknown> = Promise.resolve();
  #watching = 0;
  /** The newest subscription that delivers, and the transcript that it brings rows for. */
  #heard = 0;
  #held: SessionStore | null = null;
  /** A session to open as soon as it is known. */
  #awaited: SessionId | null = null;
  /** An ask to show as soon as it is known. */
  #awaitedAsk: AskId | null = null;
  #shape = 0;
  #stored = true;
  #back: SessionId[] = [];
  #forward: SessionId[] = [];

  constructor() {
    this.look.show();
    this.#since = recall<number>("since", 0);
    if (this.#since === 0) {
      this.#since = Date.now();
      remember("since", this.#since);
    }
  }

  /** How often the page for a new session was asked for: each time its box takes the focus. */
  asked = $state(0);

  /** Goes to the page where a session begins. */
  begin(): void {
    this.view = "new";
    this.asked += 1;
  }

  get view(): View {
    return this.#view;
  }

  /** What is looked at is also what is followed, because the shell is silent about what the person sees. */
  set view(view: View) {
    const from = this.#view;
    if (view === from) return;
    if (view === "session" && this.openId !== null) {
      void this.open(this.openId);
      return;
    }
    this.#view = view;
    if (view === "session") return;
    if (from === "session" || from === "inbox" || view === "inbox") void this.#watch(null, null);
    if (view === "inbox") void this.#readAsks();
    else void this.#readModels();
  }

  /** Goes to the inbox: at this ask, else at the one that waits longest. */
  openInbox(ask: AskId | null = null): void {
    const first = this.asks.open[0] ?? this.asks.later[0];
    this.askId = ask ?? first?.id ?? null;
    this.view = "inbox";
  }

  /** Answers an ask. Answers whether it counts; why not is told, and stands in `asks.problems`. */
  async answer(ask: AskView, decision: Decision, note = ""): Promise<boolean> {
    const counts = await this.asks.answer(ask, decision, note);
    const state = this.asks.get(ask.id)?.state;
    if (counts && state !== undefined) this.live.say(`${becameOf(state).words}.`);
    else if (!counts) this.live.say(this.asks.problems.get(ask.id) ?? "Not decided.");
    return counts;
  }

  /** Changes what a session may do without asking, from its next call on. */
  async setMode(id: SessionId, mode: Mode): Promise<void> {
    const set = await this.#try(async () => {
      await call("set_mode", { session: id, mode, key: mintKey() });
    });
    const view = this.sessions.get(id);
    this.live.say(set ? `${view === undefined ? "It" : titleOf(view)}: ${MODE_WORDS[mode]}.` : (this.problem ?? ""));
  }

  get sessions(): SvelteMap<SessionId, SessionView> {
    return this.branches.sessions;
  }

  get tasks(): SvelteMap<string, TaskView> {
    return this.branches.tasks;
  }

  /** The open session. */
  get session(): SessionView | null {
    return this.openId === null ? null : (this.sessions.get(this.openId) ?? null);
  }

  /** How many sessions and commands run, everywhere. */
  get running(): number {
    return this.branches.roots().reduce((sum, id) => sum + this.runningIn(id), 0);
  }

  /** How many asks wait for the person, everywhere. */
  get needsYou(): number {
    let sum = 0;
    for (const id of this.branches.roots()) sum += this.sessions.get(id)?.needs_you ?? 0;
    return sum;
  }

  /** How many sessions and commands run in a branch, its top included. */
  runningIn(id: SessionId): number {
    const view = this.sessions.get(id);
    return view === undefined ? 0 : view.live_below + (lives(view.state) ? 1 : 0);
  }

  /** The root of the tree that a session or task belongs to. */
  rootOf(id: string): SessionId | null {
    const owner = this.tasks.get(id)?.owner ?? id;
    return this.sessions.get(owner)?.root ?? null;
  }

  /** What a session and all below it used. */
  sumOf(id: SessionId): Sum {
    return this.branches.sums.get(id) ?? NOTHING;
  }

  /** The sessions and commands that run right below a session, and further down. */
  runningBelow(id: SessionId): Array<{ session: SessionView } | { task: TaskView }> {
    const found: Array<{ session: SessionView } | { task: TaskView }> = [];
    const walk = (owner: SessionId) => {
      for (const child of this.branches.childrenOf(owner)) {
        const session = this.sessions.get(child);
        if (session !== undefined && (lives(session.state) || session.state === "unverified")) found.push({ session });
        walk(child);
      }
      for (const command of this.branches.commandsOf(owner)) {
        const task = this.tasks.get(command);
        if (task !== undefined && taskLives(task.status)) found.push({ task });
      }
    };
    walk(id);
    return found;
  }

  /** Whether a session settled, answered or asked since the person last looked at it. */
  unread(view: SessionView): boolean {
    if (view.id === this.openId && this.view === "session") return false;
    if (view.state === "waiting") return view.last_sign_at > this.#seenAt(view.id);
    if (lives(view.state) || view.ended_at === null) return false;
    if (!settled(view.state) && view.state !== "idle") return false;
    if (view.state === "killed" && view.task !== null && this.tasks.get(view.task)?.killed_by === "person")
      return false;
    return view.ended_at > this.#seenAt(view.id);
  }

  /** Whether a command has its row in the tree: until it has settled and its owner was looked at. */
  commandShown(task: TaskView): boolean {
    if (taskLives(task.status) || task.settled_at === null) return true;
    return task.settled_at > Math.max(this.#since, this.#left.get(task.owner) ?? 0);
  }

  /** The state of everything in one sentence: "5 run, 1 needs you, 1 failed." */
  sumWords(): string {
    let failed = 0;
    for (const view of this.sessions.values()) if (view.state === "failed" && this.unread(view)) failed += 1;
    const parts = [this.running === 0 ? "Nothing runs" : runs(this.running)];
    if (this.needsYou > 0) parts.push(`${this.needsYou} ${this.needsYou === 1 ? "needs" : "need"} you`);
    if (failed > 0) parts.push(`${failed} failed`);
    return `${parts.join(", ")}.`;
  }

  draft(id: SessionId): string {
    return this.#drafts.get(id) ?? placeOf(id).draft ?? "";
  }

  /** Keeps a draft, through to the storage. */
  setDraft(id: SessionId, text: string): void {
    this.#drafts.set(id, text);
    this.noteStored(rememberPlace(id, { draft: text === "" ? undefined : text }));
  }

  /** Whether words of the person reached the storage. Said once until it works again. */
  noteStored(stored: boolean): void {
    if (stored === this.#stored) return;
    this.#stored = stored;
    this.unstored = !stored;
  }

  /** What the status line says: the worst first. */
  get line(): string | null {
    return this.problem ?? (this.unstored ? UNSTORED : this.status);
  }

  /** Takes away what the status line says. */
  dismiss(): void {
    if (this.problem !== null) this.problem = null;
    else if (this.unstored) this.unstored = false;
    else this.status = null;
  }

  /** Reads the tree and what is configured, follows what changes, and opens what was open. */
  async start(): Promise<void> {
    document.addEventListener("visibilitychange", () => this.#look());
    addEventListener("pagehide", () => this.#look());
    await this.read();
  }

  /** Reads all anew; what `start` does, and what is tried again after it failed. */
  async read(): Promise<void> {
    this.problem = null;
    // Only the tree is waited for: a model's server may be slow to say that it is there.
    void this.#readModels();
    void this.#try(async () => {
      this.limits = await call("limits", {});
    });
    void this.#try(async () => {
      this.about = await call("about", {});
      this.status ??= this.about.status;
    });
    if (this.#view === "session") await this.#watch(this.openId, this.store);
    else await this.#watch(null, null);
    await this.#try(async () => {
      const tree = await call("tree", {});
      for (const view of tree.sessions) if (!this.sessions.has(view.id)) this.branches.put(view);
      for (const task of tree.tasks) if (!this.tasks.has(task.id)) this.branches.putTask(task);
      this.branches.tell();
      this.ready = true;
    });
    void this.#readAsks();
    this.#changed();
    const last = this.#awaited ?? recall<SessionId | null>("open", null);
    const first = last !== null && this.sessions.has(last) ? last : this.branches.newest();
    if (this.openId !== null) return;
    if (first !== undefined) await this.open(first);
    else if (this.ready) this.view = "new";
  }

  /** Opens a session in the middle of the window; one that is not known yet, as soon as it is. */
  async open(id: SessionId, way: "go" | "back" | "forward" = "go"): Promise<void> {
    this.#awaited = this.sessions.has(id) ? null : id;
    if (this.#awaited !== null) return;
    const shown = this.#view === "session";
    this.#view = "session";
    if (id === this.openId && shown) return this.#look();
    const from = this.openId;
    if (from !== id) this.archived = null;
    if (from !== null && from !== id) {
      this.#look();
      this.#left.set(from, Date.now());
      if (way === "back") this.#forward.push(from);
      else this.#back.push(from);
      if (way === "go") this.#forward = [];
      this.branches.shape += 1;
    }
    const store = new SessionStore(id);
    this.openId = id;
    this.store = store;
    this.stops.aim(id);
    this.tree.reveal(id);
    remember("open", id);
    this.#look();
    if (await this.#watch(id, store)) await store.load();
    else if (this.store === store) this.#fallBack();
  }

  /** Opens the next session, in the order of the tree, that itself waits for the person. */
  async openNext(): Promise<void> {
    const all = this.branches.roots().flatMap((id) => {
      const root = this.sessions.get(id);
      return root === undefined ? [] : [root, ...this.branches.below(id)];
    });
    const at = all.findIndex((view) => view.id === this.openId);
    const next = [...all.slice(at + 1), ...all.slice(0, at + 1)].find(
      (view) => view.state === "waiting" || this.asks.of(view.id).length > 0,
    );
    if (next !== undefined) await this.open(next.id);
  }

  /** Goes to the session that was open before. */
  async back(): Promise<void> {
    const id = this.#last(this.#back);
    if (id !== null) await this.open(id, "back");
  }

  async forward(): Promise<void> {
    const id = this.#last(this.#forward);
    if (id !== null) await this.open(id, "forward");
  }

  /** Takes what changed. Rows and live text belong to `store`, whose subscription brought them. */
  apply(frame: Frame, store: SessionStore | null = this.store): void {
    this.#seq = Math.max(this.#seq ?? 0, frame.seq);
    for (const view of frame.sessions) this.#put(view);
    for (const task of frame.tasks) this.branches.putTask(task);
    for (const ask of this.asks.take(frame.asks)) this.#asked(ask);
    for (const id of frame.removed) this.#remove(id);
    this.#showAwaited();
    if (frame.status !== null) this.status = frame.status === "" ? null : frame.status;
    store?.apply(frame);
    const open = this.session;
    if (open !== null && store?.id === open.id && !lives(open.state) && open.state !== "unverified") store.settle();
    this.#changed();
    if (this.#awaited !== null && this.sessions.has(this.#awaited)) void this.open(this.#awaited);
  }

  /** Stops at once, or asks first where a stop ends a lot. */
  async stop(target: Target): Promise<void> {
    if (target.what !== "branch" && target.what !== "everything") {
      await this.stops.stop(target);
      return;
    }
    await this.#try(async () => {
      const preview = await this.stops.preview(target);
      const asks = target.what === "everything" || preview.ended.length > MOST_UNASKED;
      if (asks) this.overlay = { is: "stop", target, preview };
      else await this.stops.stop(target);
    });
  }

  /** Puts a branch out of the way, or brings it back. Asks first where something runs in it. */
  async archive(id: SessionId, archived: boolean): Promise<void> {
    await this.#try(async () => {
      if (archived && this.runningIn(id) > 0) {
        this.overlay = { is: "archive", session: id };
        return;
      }
      try {
        await call("archive", { session: id, archived, key: mintKey() });
      } catch (error) {
        if (!(error instanceof HostError) || error.code !== "busy") throw error;
        // Something began in this very moment.
        this.overlay = { is: "archive", session: id };
        return;
      }
      this.noteArchived(id, archived);
    });
  }

  /** Tells that a branch was put away or brought back. */
  noteArchived(id: SessionId, archived: boolean): void {
    this.archived = archived ? id : null;
    const view = this.sessions.get(id);
    this.live.say(`${archived ? "Archived" : "Brought back"} ${view === undefined ? "it" : titleOf(view)}.`);
  }

  /** Quits where nothing runs, else asks what becomes of it. */
  async quit(): Promise<void> {
    await this.#try(async () => await quit("ask"));
  }

  /** Answers the question of the quit dialog. */
  async answerQuit(choice: "keep" | "stop" | "cancel"): Promise<void> {
    await this.#try(async () => {
      await quit(choice);
      this.quitting = null;
    });
  }

  #put(view: SessionView): void {
    const old = this.sessions.get(view.id);
    this.branches.put(view);
    if (lives(view.state)) this.clock.sign(view.id);
    if (view.id === this.archived && !view.archived) this.archived = null;
    if (old === undefined) {
      if (view.id === this.openId) this.tree.reveal(view.id);
      return;
    }
    // A stop that was asked for here is told with its receipt.
    const stopped = this.stops.toldIn(view.id, view.started_at ?? view.created_at);
    if (view.id === this.openId && lives(old.state) && !lives(view.state) && !stopped) {
      this.live.say(`${view.title}: ${view.state === "idle" ? "the turn ended" : STATE_WORDS[view.state]}.`);
    }
    if (view.id === this.openId && view.ended_at !== old.ended_at) this.#look();
  }

  #asked(ask: AskView): void {
    const view = this.sessions.get(ask.session);
    const name = view === undefined ? oneLine(ask.lineage.at(-1)?.title ?? "", 120) : titleOf(view);
    this.live.say(`${name} needs you: ${deedOf(ask.action).toLowerCase()}.`);
  }

  async #readAsks(): Promise<void> {
    await this.#try(async () => await this.asks.read());
    this.#showAwaited();
  }

  /** Shows what a notification named: the ask while it waits, else its session. */
  #show(session: SessionId, ask: AskId | null): void {
    this.#awaitedAsk = ask;
    void this.open(session);
    this.#showAwaited();
  }

  #showAwaited(): void {
    const ask = this.asks.get(this.#awaitedAsk);
    if (ask === undefined) return;
    this.#awaitedAsk = null;
    if (!asksNow(ask.state)) return;
    this.#awaited = null;
    this.openInbox(ask.id);
  }

  #remove(id: SessionId): void {
    const gone = [id, ...this.branches.below(id).map((view) => view.id)];
    const parent = this.sessions.get(id)?.parent ?? null;
    this.branches.remove(id);
    if (this.archived !== null && gone.includes(this.archived)) this.archived = null;
    for (const each of gone) {
      this.asks.remove(each);
      forgetPlace(each);
      this.tree.forget(each);
      this.#drafts.delete(each);
      this.#seen.delete(each);
    }
    this.#back = this.#back.filter((each) => !gone.includes(each));
    this.#forward = this.#forward.filter((each) => !gone.includes(each));
    if (this.openId === null || !gone.includes(this.openId)) return;
    this.openId = null;
    this.store = null;
    this.stops.aim(null);
    const next = parent ?? this.branches.newest();
    if (next !== undefined) void this.open(next);
    else this.view = "new";
  }

  /** Follows a session, or none. Answers whether it does; if not, the subscription before goes on. */
  #watch(id: SessionId | null, store: SessionStore | null): Promise<boolean> {
    const follows = this.#watched.then(() => this.#follow(id, store));
    this.#watched = follows;
    return follows;
  }

  async #follow(id: SessionId | null, store: SessionStore | null): Promise<boolean> {
    this.#watching += 1;
    const watching = this.#watching;
    return await this.#try(async () => {
      const hear = (push: Push): void => {
        // An earlier subscription may still deliver; the one that replaced it tells the same again.
        if (watching < this.#heard) return;
        this.#heard = watching;
        this.#push(push, store);
      };
      const follow = async () => await watch(id, this.#seq, hear, this.#view === "inbox");
      let stale = false;
      const seq = await follow().catch(async (error) => {
        if (!(error instanceof HostError && error.code === "stale")) throw error;
        // What came since cannot be told, so it is followed from now on, and everything is read anew.
        stale = true;
        this.#seq = null;
        return await follow();
      });
      this.#heard = watching;
      this.#held = store;
      this.#seq ??= seq;
      if (stale) await this.#renew(store);
    });
  }

  /** Reads everything anew, after frames were missed. */
  async #renew(store: SessionStore | null): Promise<void> {
    const tree = await call("tree", {});
    const known = new Set(tree.sessions.map((view) => view.id));
    for (const id of [...this.sessions.keys()]) if (!known.has(id)) this.#remove(id);
    for (const view of tree.sessions) this.#put(view);
    for (const task of tree.tasks) this.branches.putTask(task);
    await this.asks.read();
    this.#changed();
    await store?.renew();
  }

  /** Shows again what is still followed, because what was opened cannot be. */
  #fallBack(): void {
    const held = this.#held !== null && this.sessions.has(this.#held.id) ? this.#held : null;
    this.store = held;
    this.openId = held?.id ?? null;
    this.stops.aim(this.openId);
    if (held !== null) remember("open", held.id);
  }

  async #readModels(): Promise<void> {
    await this.#try(async () => {
      this.models = (await call("models", {})).models;
    });
  }

  #push(push: Push, store: SessionStore | null): void {
    if ("frame" in push) this.apply(push.frame, store);
    else if ("show" in push) this.#show(push.show.session, push.show.ask);
    else this.quitting = push.quitting;
  }

  #changed(): void {
    this.branches.tell();
    this.clock.run(this.running > 0);
    const needs = this.needsYou;
    document.title = needs > 0 ? `(${needs}) Coppice` : "Coppice";
    // What streams changes nothing that a stop would end.
    if (this.branches.shape !== this.#shape) this.stops.changed();
    this.#shape = this.branches.shape;
  }

  /** The person sees the open session now. */
  #look(): void {
    if (this.openId === null || this.view !== "session" || document.hidden) return;
    this.#seen.set(this.openId, Date.now());
    remember("seen", Object.fromEntries(this.#seen));
  }

  #seenAt(id: SessionId): number {
    return Math.max(this.#since, this.#seen.get(id) ?? 0);
  }

  #last(trail: SessionId[]): SessionId | null {
    for (;;) {
      const id = trail.pop();
      if (id === undefined) return null;
      if (this.sessions.has(id) && id !== this.openId) return id;
    }
  }

  async #try(what: () => Promise<void>): Promise<boolean> {
    try {
      await what();
      return true;
    } catch (error) {
      this.problem = error instanceof HostError ? error.message : String(error);
      return false;
    }
  }
}

/** A context menu: of which session or command, opened from where, and at which place. */
export type Menu = { row: "session" | "command"; id: string; from: "tree" | "head"; x: number; y: number };

const UNSTORED =
  "Your draft is kept only while this window is open: the page's storage is full or off. Send it or copy it elsewhere.";

/** A stop that ends more than this asks again. */
const MOST_UNASKED = 10;

/** Which changes of files are taken back: a branch's, a row's, or one call's. */
export type UndoWhat = { session: SessionId } & ({ branch: true } | { n: number; call?: string });

/** What lies over the window. */
export type Overlay =
  | { is: "jump"; query: string }
  | { is: "keys" }
  | { is: "rename"; session: SessionId }
  | { is: "archive"; session: SessionId }
  | { is: "delete"; session: SessionId }
  | { is: "stop"; target: Target; preview: Receipt }
  | { is: "undo"; what: UndoWhat }
  | { is: "tree" }
  | { is: "inspector" };
