import { beforeEach, describe, expect, it, vi } from "vitest";
import { aFrame, anAnswer, aSession } from "../test/views";
import type { Push, Receipt } from "../wire";
import { AppState } from "./app.svelte";
import { Look } from "./look.svelte";
import { Room } from "./room.svelte";

const host = vi.hoisted(() => {
  class HostError extends Error {
    constructor(
      readonly code: string,
      message: string,
    ) {
      super(message);
    }
  }
  return { HostError, call: vi.fn(), watch: vi.fn(), quit: vi.fn() };
});
vi.mock("../host", () => ({ ...host, mintKey: () => "key" }));

type Asked = {
  session: string | null;
  after: number | null;
  push: (push: Push) => void;
  yes: (seq: number) => void;
  no: (error: Error) => void;
};
let asked: Asked[];
const receipt: Receipt = {
  what: "turn",
  label: "Release",
  by: "person",
  ended: [],
  kept: [],
  processes: [],
  unconfirmed: [],
  ms: 1,
};

function answer(cmd: string): unknown {
  const answers: Record<string, unknown> = {
    tree: { sessions: [aSession("root"), aSession("a", { parent: "root" })], tasks: [] },
    asks: { asks: [] },
    models: { models: [] },
    about: { status: null },
    page: { rows: [], first: 0, last: 0 },
    stop: receipt,
  };
  return answers[cmd] ?? {};
}

const followed = () => asked.map(({ session }) => session);
const calls = (cmd: string) => host.call.mock.calls.filter(([name]) => name === cmd).length;

beforeEach(() => {
  localStorage.clear();
  vi.clearAllMocks();
  asked = [];
  host.call.mockImplementation(async (cmd: string) => answer(cmd));
  host.watch.mockImplementation(async (session: string | null, after: number | null, push: (push: Push) => void) => {
    asked.push({ session, after, push, yes: () => {}, no: () => {} });
    return 1;
  });
});

/** From now on every `watch` is answered by hand. */
function byHand(): void {
  host.watch.mockImplementation(
    (session: string | null, after: number | null, push: (push: Push) => void) =>
      new Promise<number>((yes, no) => asked.push({ session, after, push, yes, no })),
  );
}

async function started(): Promise<AppState> {
  const app = new AppState();
  await app.start();
  return app;
}

describe("what is followed", () => {
  it("when it cannot be, what was followed before goes on and is shown again", async () => {
    const app = await started();
    const before = app.store;
    byHand();
    const opened = app.open("a");
    await vi.waitFor(() => expect(followed()).toEqual([null, "root", "a"]));
    asked[1]?.push({ frame: aFrame({ seq: 2, rows: [anAnswer(1, 1)], sessions: [aSession("new")] }) });
    asked[2]?.no(new host.HostError("unknown_session", "There is no such session."));
    await opened;
    expect([app.openId, app.store === before, app.problem]).toEqual(["root", true, "There is no such session."]);
    asked[1]?.push({ frame: aFrame({ seq: 3, sessions: [aSession("newer")] }) });
    expect(["new", "newer"].map((id) => app.sessions.has(id))).toEqual([true, true]);
  });

  it("a session that is not known is opened when it is", async () => {
    const app = await started();
    await app.open("made");
    expect([app.openId, followed()]).toEqual(["root", [null, "root"]]);
    asked[1]?.push({ frame: aFrame({ sessions: [aSession("made")] }) });
    await vi.waitFor(() => expect([app.openId, followed().at(-1)]).toEqual(["made", "made"]));
  });

  it("what is to be shown before the tree was read is what opens", async () => {
    const app = new AppState();
    host.call.mockImplementation(async (cmd: string) => {
      if (cmd === "tree") asked[0]?.push({ show: { session: "root", ask: null } });
      const sessions = [aSession("root"), aSession("later", { created_at: 2_000 })];
      return cmd === "tree" ? { sessions, tasks: [] } : answer(cmd);
    });
    await app.start();
    expect(app.openId).toBe("root");
  });

  it("is asked for one after the other, so that the last one opened is the one that is followed", async () => {
    const app = await started();
    byHand();
    const opened = [app.open("a"), app.open("root")];
    await vi.waitFor(() => expect(followed()).toEqual([null, "root", "a"]));
    asked[2]?.yes(2);
    await vi.waitFor(() => expect(followed()).toEqual([null, "root", "a", "root"]));
    asked[3]?.yes(3);
    await Promise.all(opened);
    asked[2]?.push({ frame: aFrame({ sessions: [aSession("ghost")] }) });
    expect([app.openId, app.sessions.has("ghost")]).toEqual(["root", false]);
  });

  it("begins anew where its position is not known any more, with the tree as it is now", async () => {
    const app = await started();
    asked[1]?.push({ frame: aFrame({ seq: 7, sessions: [aSession("gone")] }) });
    byHand();
    host.call.mockImplementation(async (cmd: string) =>
      cmd === "tree"
        ? { sessions: [aSession("root"), aSession("a", { parent: "root", title: "New", last_n: 2 })], tasks: [] }
        : answer(cmd),
    );
    const opened = app.open("a");
    await vi.waitFor(() => expect(asked.length).toBe(3));
    asked[2]?.no(new host.HostError("stale", "Too many sessions were deleted. Read the tree again."));
    await vi.waitFor(() => expect(asked.length).toBe(4));
    asked[3]?.yes(4);
    await opened;
    expect([asked[2]?.after, asked[3]?.after, app.problem, app.openId]).toEqual([7, null, null, "a"]);
    expect([app.sessions.has("gone"), app.sessions.get("a")?.title]).toEqual([false, "New"]);
    void app.open("root");
    await vi.waitFor(() => expect(asked.at(-1)?.after).toBe(4));
  });

  it("tells when it is the inbox, so that no notification tells of what is looked at", async () => {
    const app = new AppState();
    await app.read();
    const inbox = () => host.watch.mock.calls.map(([session, , , inbox]) => [session, inbox]).at(-1);
    for (const view of ["inbox", "settings", "inbox", "new"] as const) {
      app.view = view;
      await vi.waitFor(() => expect(inbox()).toEqual([null, view === "inbox"]));
    }
    await app.open("a");
    await vi.waitFor(() => expect(inbox()).toEqual(["a", false]));
  });

  it("is no session while the settings or a new one fill the window, and the same again on return", async () => {
    const app = await started();
    const before = app.store;
    app.view = "settings";
    app.view = "new";
    app.view = "session";
    await vi.waitFor(() => expect(followed()).toEqual([null, "root", null, "root"]));
    // What came meanwhile is read anew.
    await vi.waitFor(() => expect(calls("page")).toBe(2));
    expect([app.view, app.openId, app.store === before]).toEqual(["session", "root", false]);
    app.view = "new";
    await app.open("root");
    expect(followed().slice(4)).toEqual([null, "root"]);
  });
});

it("the first page waits for the tree, and for nothing else", async () => {
  host.call.mockImplementation((cmd: string) =>
    cmd === "tree" || cmd === "page" ? answer(cmd) : new Promise(() => {}),
  );
  const app = await started();
  expect([app.ready, app.openId]).toEqual([true, "root"]);
});

it("models are read again where they are chosen or shown", async () => {
  const app = await started();
  expect(calls("models")).toBe(1);
  app.view = "new";
  expect(calls("models")).toBe(2);
  app.view = "settings";
  expect(calls("models")).toBe(3);
  app.view = "session";
  expect(calls("models")).toBe(3);
});

it("a stop that found nothing says so", async () => {
  const app = await started();
  await app.stops.stop({ what: "turn", id: "root" });
  expect(app.live.sentence).toBe("Nothing ran in Release.");
});

describe("a stop", () => {
  const ended = (id: string): Receipt => ({ ...receipt, ended: [{ kind: "turn", id, label: id }] });

  it("has its receipt in the branch that it was aimed at, and nowhere else", async () => {
    const app = await started();
    app.branches.put(aSession("b", { parent: "root" }));
    app.branches.put(aSession("other"));
    host.call.mockImplementation(async (cmd: string, args: { id?: string }) =>
      cmd === "stop" ? ended(args.id ?? "all") : answer(cmd),
    );
    const seen = () => ["root", "a", "b", "other"].map((id) => app.stops.lastIn(id)?.receipt.ended[0]?.id ?? null);
    await app.stops.stop({ what: "turn", id: "a" });
    expect(seen()).toEqual(["a", "a", null, null]);
    await app.stops.stop({ what: "turn", id: "b" });
    expect(seen()).toEqual(["b", "a", "b", null]);
    await app.stops.stop({ what: "everything" });
    expect(seen()).toEqual(["all", "all", "all", "all"]);
    app.branches.put(aSession("later", { created_at: Date.now() + 1_000 }));
    expect(app.stops.lastIn("later")).toBe(null);
  });

  it("is spoken once: the end that it brought about is not spoken too", async () => {
    const app = await started();
    const push = asked.at(-1)?.push as (push: Push) => void;
    const turn = (state: "running" | "idle", started_at: number) =>
      push({ frame: aFrame({ sessions: [aSession("root", { state, started_at })] }) });
    let stopped: (receipt: Receipt) => void = () => {};
    host.call.mockImplementation((cmd: string, args: { preview?: boolean }) =>
      cmd === "stop" && args.preview !== true ? new Promise((yes) => (stopped = yes)) : Promise.resolve(answer(cmd)),
    );
    const said = vi.spyOn(app.live, "say");
    turn("running", Date.now());
    const stop = app.stops.stop({ what: "turn", id: "root" });
    turn("idle", Date.now());
    expect(said.mock.calls).toEqual([]);
    stopped(ended("root"));
    await stop;
    turn("running", Date.now() + 1_000);
    turn("idle", Date.now() + 1_000);
    expect(said.mock.calls).toEqual([["Stopped Release: 1 ended."], ["Title of root: the turn ended."]]);
  });
});

describe("the size of the text", () => {
  it("is stepped within its bounds, is kept, and folds the panes as a small window does", async () => {
    const app = await started();
    const room = new Room();
    expect([room.narrow, room.tight]).toEqual([false, false]);
    for (let i = 0; i < 9; i++) app.look.stepTextSize(1);
    expect([app.look.textSize, new Look().textSize, document.documentElement.style.fontSize]).toEqual([
      200,
      200,
      "200%",
    ]);
    document.documentElement.style.fontSize = "32px";
    room.measure();
    expect([room.narrow, room.tight]).toEqual([true, true]);
    app.look.setTextSize(100);
    expect(document.documentElement.style.fontSize).toBe("");
    app.look.stepTextSize(-1);
    expect(app.look.textSize).toBe(90);
    app.look.setTextSize(100);
  });
});
