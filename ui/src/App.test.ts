import { cleanup, render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, describe, expect, it, vi } from "vitest";
import App from "./App.svelte";
import { AppState } from "./state/app.svelte";
import { expectAccessible } from "./test/axe";
import { composeWithEnter, pressAt } from "./test/keys";
import { aFrame, anAsk, aSession } from "./test/views";
import type { AllowanceView, AskView, ModelView, Push, Receipt, Row, UndoneFile } from "./wire";

const host = vi.hoisted(() => ({ call: vi.fn(), watch: vi.fn(), quit: vi.fn(), pickFolder: vi.fn() }));
vi.mock("./host", () => {
  let key = 0;
  return { ...host, HostError: Error, isRace: () => false, openLink: vi.fn(), mintKey: () => `key-${++key}` };
});

let push: (push: Push) => void;
let tree: { sessions: unknown[]; tasks: unknown[] };
const model = (name: string, change: Partial<ModelView> = {}): ModelView => ({
  name,
  protocol: "openai-chat",
  model: name,
  base_url: null,
  context: null,
  default: false,
  problem: null,
  ...change,
});
const ended = (count: number) =>
  Array.from({ length: count }, (_, id) => ({ kind: "turn", id: `${id}`, label: `run ${id}` }));
let asks: AskView[] = [];
let allowances: AllowanceView[] = [];
let rows: Row[] = [];
let ends = 1;
let deletes = 7;
let refuse: string | null = null;

function answer(cmd: string, args: Record<string, unknown>): unknown {
  const receipt: Receipt = {
    what: String(args.what),
    label: "Release",
    by: "person",
    ended: ended(ends),
    kept: [],
    processes: [],
    unconfirmed: [],
    ms: 800,
  };
  const answers: Record<string, unknown> = {
    tree,
    models: { models: [model("local", { default: true }), model("rehearsal", { protocol: "rehearsal", model: null })] },
    limits: {
      limits: {
        depth: 3,
        live_tasks_per_owner: 1,
        live_children: 1,
        children: 1,
        tokens: 0,
        money_usd: 0,
        wall_clock_s: 0,
        step_limit: 1,
        same_calls: 8,
        failed_steps: 20,
        idle_s: 1,
        stop_grace_ms: 1,
        wake_budget: 1,
      },
      spent: [],
      notices: { wake: true, desktop: "tasks" },
    },
    about: { version: "1", data: "/data", config: "/config", cwd: "/home/me/work", status: null },
    asks: { asks },
    allowances: { allowances },
    page: { rows, first: 0, last: 9 },
    stop: receipt,
    open: { session: "new" },
    delete: { ...receipt, ended: args.preview === true ? ended(deletes) : [], sessions: 2, messages: 12 },
    archive: receipt,
    undo: { files: undone, n: args.preview === true ? null : 9 },
  };
  if (cmd === "delete" && args.preview !== true && refuse !== null) throw new Error(refuse);
  return answers[cmd] ?? {};
}

const undone: UndoneFile[] = [
  { path: "/w/f", shown: "f", how: "restored", why: null, edits: 2, added: 1, removed: 1, diff: "" },
  {
    path: "/w/g",
    shown: "g",
    how: "refused",
    why: "g is left alone: “b” changed it.",
    edits: 1,
    added: 0,
    removed: 0,
    diff: "",
  },
];

/** Lets all that is due happen. */
const everything = () => new Promise((done) => setTimeout(done));
const calls = (name: string) => host.call.mock.calls.filter(([cmd]) => cmd === name).map(([, args]) => args);

async function show(): Promise<AppState> {
  const app = new AppState();
  render(App, { app });
  await waitFor(() => expect(app.ready && app.about !== null).toBe(true));
  return app;
}

beforeEach(() => {
  localStorage.clear();
  [asks, allowances, rows] = [[], [], []];
  deletes = 7;
  refuse = null;
  vi.clearAllMocks();
  ends = 1;
  tree = {
    sessions: [
      aSession("root", { title: "Release", live_below: 1 }),
      aSession("a", { parent: "root", title: "Port the solver", state: "running", started_at: 1, step: 4 }),
    ],
    tasks: [],
  };
  host.call.mockImplementation(async (cmd: string, args: Record<string, unknown>) => answer(cmd, args));
  host.watch.mockImplementation(async (_s: unknown, _a: unknown, onPush: typeof push) => {
    push = onPush;
    return 1;
  });
});

describe("the first page", () => {
  beforeEach(() => {
    tree = { sessions: [], tasks: [] };
  });

  it("starts a session from a folder, a model and a job, by Enter", async () => {
    const app = await show();
    const job = await screen.findByRole("textbox", { name: "The job" });
    await userEvent.type(job, "Build it{Shift>}{Enter}{/Shift}well{Enter}");
    await waitFor(() => expect(calls("prompt")).toHaveLength(1));
    push({ frame: aFrame({ sessions: [aSession("new")] }) });
    await waitFor(() => expect(app.openId).toBe("new"));
    const [open] = calls("open");
    expect(open).toMatchObject({ cwd: "/home/me/work", model: "local" });
    expect(calls("prompt")).toEqual([{ session: "new", text: "Build it\nwell", key: expect.any(String) }]);
    // Who typed the job goes on typing.
    await waitFor(() => expect(document.activeElement).toBe(screen.getByRole("textbox", { name: /^Message to/ })));
  });

  it("has the focus in its box whenever it is asked for, wherever the focus was", async () => {
    await show();
    const job = await screen.findByRole("textbox", { name: "The job" });
    const folder = screen.getByRole("button", { name: /^Folder/ });
    folder.focus();
    await userEvent.keyboard("{Control>}n{/Control}");
    expect(document.activeElement).toBe(job);
    await userEvent.click(folder);
    await waitFor(() => expect(document.activeElement).toBe(job));
  });

  it("begins with asking first, whatever was chosen before, and says plainly what full access is", async () => {
    await show();
    const pick = await screen.findByRole("combobox", { name: "Permissions" });
    expect((pick as HTMLSelectElement).value).toBe("ask");
    await userEvent.selectOptions(pick, "full");
    expect(screen.getByText("Runs and writes anything, and asks nothing.")).toBeTruthy();
    await userEvent.type(screen.getByRole("textbox", { name: "The job" }), "Go{Enter}");
    await waitFor(() => expect(calls("open")).toMatchObject([{ mode: "full" }]));
    cleanup();
    await show();
    expect(((await screen.findByRole("combobox", { name: "Permissions" })) as HTMLSelectElement).value).toBe("ask");
  });

  it("keeps the words when it fails, and tries again under the same key", async () => {
    await show();
    host.call.mockImplementation(async (cmd: string, args: Record<string, unknown>) => {
      if (cmd === "prompt") throw new Error("The model does not answer.");
      return answer(cmd, args);
    });
    const job = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "The job" });
    await userEvent.type(job, "Build it{Enter}");
    expect(await screen.findByRole("alert")).toHaveProperty(
      "textContent",
      "Not started. The model does not answer. Your text is still in the box.",
    );
    await userEvent.type(job, "{Enter}");
    await waitFor(() => expect(calls("open")).toHaveLength(2));
    expect(job.value).toBe("Build it");
    expect(new Set(calls("open").map((args) => args.key)).size).toBe(1);
    expect(new Set(calls("prompt").map((args) => args.key)).size).toBe(1);
    await userEvent.type(job, " well{Enter}");
    await waitFor(() => expect(calls("open")).toHaveLength(3));
    expect(new Set(calls("open").map((args) => args.key)).size).toBe(1);
    expect(new Set(calls("prompt").map((args) => args.key)).size).toBe(2);
    await userEvent.click(screen.getByRole("button", { name: /The rehearsal/ }));
    await waitFor(() => expect(calls("open")).toHaveLength(4));
    expect(new Set(calls("open").map((args) => args.key)).size).toBe(2);
  });

  it("says plainly what the rehearsal is", async () => {
    await show();
    await userEvent.selectOptions(await screen.findByRole("combobox", { name: "Model" }), "rehearsal");
    expect(screen.getByText(/a built-in script, not a model/)).toBeTruthy();
  });

  it("Enter that ends a composition does not start", async () => {
    await show();
    const job = await screen.findByRole("textbox", { name: "The job" });
    await userEvent.type(job, "中");
    await pressAt(job, "Enter", 900, { keyCode: 229 });
    await composeWithEnter(job, 1_000);
    expect(calls("open")).toEqual([]);
    await pressAt(job, "Enter", 1_060);
    await waitFor(() => expect(calls("open")).toHaveLength(1));
  });

  it("has no violations", async () => {
    await show();
    await screen.findByRole("textbox", { name: "The job" });
    await expectAccessible();
  });
});

describe("the window", () => {
  it("opens the last session, and has no violations", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    await screen.findByRole("heading", { level: 1, name: "Release" });
    await screen.findAllByRole("treeitem");
    await expectAccessible();
  });

  it("counts what needs the person in its title", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).not.toBe(null));
    push({
      frame: aFrame({
        sessions: [
          aSession("a", { parent: "root", state: "waiting", needs_you: 1, last_n: 2 }),
          aSession("root", { needs_you: 1, last_n: 2 }),
        ],
      }),
    });
    await waitFor(() => expect(document.title).toBe("(1) Coppice"));
    await userEvent.keyboard("{Control>}j{/Control}");
    await waitFor(() => expect(app.openId).toBe("a"));
  });

  it("leads to what needs the person, at its place in the tree, and back", async () => {
    asks = [
      anAsk("x", "a", {
        lineage: [
          { id: "root", title: "Release" },
          { id: "a", title: "Port the solver" },
        ],
      }),
    ];
    tree.sessions = [
      aSession("root", { title: "Release", live_below: 1, needs_you: 1 }),
      aSession("a", { parent: "root", title: "Port the solver", state: "waiting", needs_you: 1, started_at: 1 }),
    ];
    const app = await show();
    await waitFor(() => expect([app.openId, app.asks.open.length]).toEqual(["root", 1]));
    const entry = await screen.findByRole("button", { name: /^Needs you\s*1$/ });
    await userEvent.click(entry);
    await screen.findByRole("heading", { name: "May it run this command?" });
    expect([entry.getAttribute("aria-current"), document.activeElement?.getAttribute("role")]).toEqual([
      "page",
      "option",
    ]);
    await waitFor(() => expect(document.querySelector(".row.ref")?.textContent).toContain("Port the solver"));
    await expectAccessible();
    await userEvent.keyboard("{Escape}");
    expect([app.view, app.openId]).toEqual(["session", "root"]);
    push({
      frame: aFrame({
        sessions: [aSession("root", { title: "Release", last_n: 2 }), aSession("a", { parent: "root", last_n: 2 })],
        asks: [{ ...(asks[0] as AskView), state: "once", decided_at: 5 }],
      }),
    });
    await waitFor(() => expect(screen.queryByRole("button", { name: /^Needs you/ })).toBe(null));
    expect(document.title).toBe("Coppice");
  });

  it("a notification leads to its ask, also before the asks were read; one that is answered, to its session", async () => {
    asks = [anAsk("x", "a"), anAsk("y", "a", { state: "once", decided_at: 5 })];
    const app = new AppState();
    host.watch.mockImplementation(async (_s: unknown, _a: unknown, onPush: typeof push) => {
      if (push === undefined || host.watch.mock.calls.length === 1) onPush({ show: { session: "a", ask: "x" } });
      push = onPush;
      return 1;
    });
    render(App, { app });
    await waitFor(() => expect([app.view, app.askId]).toEqual(["inbox", "x"]));
    await userEvent.keyboard("{Escape}");
    expect([app.view, app.openId]).toEqual(["session", "a"]);
    push({ show: { session: "root", ask: "y" } });
    await waitFor(() => expect([app.view, app.openId]).toEqual(["session", "root"]));
    await everything();
    expect(app.view).toBe("session");
    push({ show: { session: "a", ask: "x" } });
    await waitFor(() => expect([app.view, app.askId]).toEqual(["inbox", "x"]));
    asks = [...asks, anAsk("z", "new")];
    push({ show: { session: "new", ask: "z" } });
    push({ frame: aFrame({ seq: 2, sessions: [aSession("new", { created_at: 5 })], asks: [anAsk("z", "new")] }) });
    await everything();
    expect([app.view, app.askId]).toEqual(["inbox", "z"]);
  });

  it("shows what is allowed for more than one call, and takes it back", async () => {
    allowances = [
      {
        ask: "x",
        session: "a",
        cwd: "/home/me/w",
        what: { kind: "command", text: "make \u202eall" },
        since: 5,
        used: 4,
      },
      { ask: "y", session: null, cwd: "/home/me/w", what: { kind: "write", path: "/etc/x" }, since: 5, used: 0 },
    ];
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    app.view = "settings";
    await userEvent.click(await screen.findByRole("button", { name: "Permissions" }));
    const rows = await screen.findAllByRole("listitem");
    expect(rows.map((row) => row.textContent?.replace(/\s+/g, " ").trim())).toEqual([
      expect.stringMatching(
        /^Run a command make ⟨U\+202E⟩all In ~\/w, for Port the solver and all below it, until it is deleted · since .* · used 4 times Take back$/,
      ),
      expect.stringMatching(/^Write a file \/etc\/x Always, for every session in ~\/w · since [^·]* Take back$/),
    ]);
    await expectAccessible();
    allowances = allowances.slice(1);
    await userEvent.click(screen.getByRole("button", { name: "Take back: make ⟨U+202E⟩all" }));
    await waitFor(() => expect(screen.getAllByRole("listitem").length).toBe(1));
    expect(calls("disallow")).toEqual([{ ask: "x", key: expect.any(String) }]);
  });

  it("opens what it is told to show", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    push({ show: { session: "a", ask: null } });
    await waitFor(() => expect(app.openId).toBe("a"));
    await userEvent.keyboard("{Alt>}{ArrowUp}{/Alt}");
    await waitFor(() => expect(app.openId).toBe("root"));
    await userEvent.keyboard("{Alt>}{ArrowLeft}{/Alt}");
    await waitFor(() => expect(app.openId).toBe("a"));
  });

  it("asks what becomes of running work, and Esc keeps everything as it is", async () => {
    await show();
    push({ quitting: 5 });
    const dialog = await screen.findByRole("dialog", { name: "Quit Coppice" });
    expect(document.activeElement?.textContent).toContain("Keep running without a window");
    await expectAccessible(dialog);
    dialog.dispatchEvent(new Event("cancel", { cancelable: true }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBe(null));
    expect(host.quit.mock.calls).toEqual([["cancel"]]);
  });

  it("stops this turn at once, and everything only after the same preview was shown", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    await userEvent.keyboard("{Control>}.{/Control}");
    const real = () => calls("stop").filter((args) => args.preview !== true);
    await waitFor(() => expect(real()).toMatchObject([{ what: "turn", id: "root" }]));
    await userEvent.keyboard("{Control>}{Alt>}.{/Alt}{/Control}");
    const dialog = await screen.findByRole("dialog", { name: "Stop everything" });
    expect(within(dialog).getByText("Ends 1 in 1 session.")).toBeTruthy();
    expect(real()).toHaveLength(1);
    await userEvent.keyboard("{Enter}");
    await waitFor(() => expect(real().at(-1)).toMatchObject({ what: "everything" }));
    expect(await screen.findByRole("heading", { name: /Everything stopped/ })).toBeTruthy();
    expect(screen.getByRole("status").textContent).toContain("Stopped Release: 1 ended.");
  });

  it("a branch stop asks again only when it ends more than ten", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    await app.stop({ what: "branch", id: "root" });
    expect([calls("stop").filter((args) => !args.preview).length, app.overlay]).toEqual([1, null]);
    ends = 11;
    await app.stop({ what: "branch", id: "root" });
    expect([calls("stop").filter((args) => !args.preview).length, app.overlay?.is]).toEqual([1, "stop"]);
  });

  it("jumps by title and does commands after >", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    await userEvent.keyboard("{Control>}k{/Control}");
    const box = await screen.findByRole("combobox", { name: /Title of a session/ });
    await userEvent.type(box, "solver port");
    expect((await screen.findAllByRole("option"))[0]?.textContent).toContain("Port the solver");
    await expectAccessible(screen.getByRole("dialog"));
    await userEvent.keyboard("{Enter}");
    await waitFor(() => expect(app.openId).toBe("a"));
    await userEvent.keyboard("{Control>}k{/Control}");
    await userEvent.type(await screen.findByRole("combobox", { name: /Title of a session/ }), ">sett{Enter}");
    await waitFor(() => expect(app.view).toBe("settings"));
    for (const page of ["Models", "Limits", "Notifications", "Keyboard", "Data", "General"]) {
      await userEvent.click(screen.getByRole("button", { name: page }));
      expect(screen.getByRole("heading", { level: 1 }).textContent).toBe(page);
      await expectAccessible(screen.getByRole("main"));
    }
    await userEvent.keyboard("{Escape}");
    await waitFor(() => expect(app.view).toBe("session"));
  });

  it("Enter that ends a composition neither jumps nor renames", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    app.overlay = { is: "jump", query: "solver" };
    const box = await screen.findByRole("combobox", { name: /Title of a session/ });
    await composeWithEnter(box, 1_000);
    expect([app.openId, app.overlay?.is]).toEqual(["root", "jump"]);
    await pressAt(box, "Enter", 1_060);
    await waitFor(() => expect(app.openId).toBe("a"));
    app.overlay = { is: "rename", session: "a" };
    const title = await screen.findByRole("textbox", { name: "Title" });
    const told: boolean[] = [];
    const listen = (event: Event) => told.push(event.defaultPrevented);
    window.addEventListener("keydown", listen);
    await composeWithEnter(title, 1_000);
    await pressAt(title, "Enter", 1_060);
    window.removeEventListener("keydown", listen);
    // An Enter that is not prevented submits the form.
    expect(told).toEqual([true, false]);
  });

  it("names what goes and what runs before anything is deleted, and does what it said", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    app.menu = { row: "session", id: "root", from: "head", x: 0, y: 0 };
    const menu = await screen.findByRole("menu");
    await userEvent.click(within(menu).getByRole("menuitem", { name: /Delete/ }));
    const dialog = await screen.findByRole("dialog");
    await waitFor(() => expect(dialog.textContent).toContain("2 sessions with 12 messages go for good"));
    expect(dialog.textContent).toContain("7 run in it and are stopped first:");
    expect(
      within(dialog)
        .getAllByRole("listitem")
        .map((item) => item.textContent),
    ).toEqual([...["run 0", "run 1", "run 2", "run 3", "run 4"], "and 2 more"]);
    await expectAccessible(dialog);
    // A single key deletes nothing: the focus begins on the way out.
    expect(document.activeElement?.textContent).toContain("Cancel");
    refuse = "The engine shuts down.";
    const button = within(dialog).getByRole("button", { name: "Stop and delete" });
    await userEvent.click(button);
    expect((await within(dialog).findByRole("alert")).textContent).toBe(refuse);
    refuse = null;
    await userEvent.click(button);
    await waitFor(() => expect(app.overlay).toBe(null));
    const asked = calls("delete").filter((args) => args.preview !== true);
    expect(asked.map(({ session, stop }) => [session, stop])).toEqual([
      ["root", true],
      ["root", true],
    ]);
    expect(new Set(asked.map(({ key }) => key)).size).toBe(1);
    expect(app.live.sentence).toBe("Deleted Release: 2 sessions.");
  });

  it("says what becomes of each file before edits are undone, and undoes them once", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    app.overlay = { is: "undo", what: { session: "a", branch: true } };
    const dialog = await screen.findByRole("dialog");
    await waitFor(() => expect(dialog.textContent).toContain("2 edits in 1 file."));
    const files = within(dialog).getAllByRole("listitem");
    expect(files.map((item) => item.textContent)).toEqual(["f: as it was before", "g is left alone: “b” changed it."]);
    await expectAccessible(dialog);
    expect(calls("undo")).toHaveLength(1);
    await userEvent.click(within(dialog).getByRole("button", { name: "Undo" }));
    await waitFor(() => expect(app.overlay).toBe(null));
    const asked = calls("undo").filter((args) => args.preview !== true);
    expect(asked.map(({ session, branch }) => [session, branch])).toEqual([["a", true]]);
    expect(app.live.sentence).toBe("Taken back in 1 file.");
  });

  it("asks before it stops what is archived, and keeps the receipt", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    app.overlay = { is: "archive", session: "a" };
    const dialog = await screen.findByRole("dialog");
    const button = await within(dialog).findByRole("button", { name: "Stop and archive" });
    expect(dialog.textContent).toContain("1 runs in it and is stopped first:");
    await expectAccessible(dialog);
    await userEvent.keyboard("{Escape}");
    await waitFor(() => expect(app.overlay).toBe(null));
    expect(calls("archive")).toEqual([]);
    expect(button.isConnected).toBe(false);
    app.overlay = { is: "archive", session: "a" };
    await userEvent.click(await screen.findByRole("button", { name: "Stop and archive" }));
    await waitFor(() => expect(app.overlay).toBe(null));
    expect(calls("archive")).toMatchObject([{ session: "a", stop: true }]);
    expect([app.stops.lastIn("a")?.receipt.ended.length, app.archived]).toEqual([1, "a"]);
  });

  it("behind a dialog no key acts but Escape", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    app.overlay = { is: "rename", session: "a" };
    await screen.findByRole("dialog");
    const before = calls("stop").filter((args) => args.preview !== true).length;
    await userEvent.keyboard("{Control>}.nkbq{/Control}{Alt>}{ArrowUp}{/Alt}");
    const real = calls("stop").filter((args) => args.preview !== true).length;
    expect([app.overlay?.is, app.view, app.look.treeFolded, real, host.quit.mock.calls]).toEqual([
      "rename",
      "session",
      false,
      before,
      [],
    ]);
    await userEvent.keyboard("{Escape}");
    expect(app.overlay).toBe(null);
  });

  it("quits by its key and by its name, and leaves to the shell whether to ask", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    await userEvent.keyboard("{Control>}q{/Control}");
    await userEvent.keyboard("{Control>}k{/Control}");
    await userEvent.type(await screen.findByRole("combobox", { name: /Title of a session/ }), ">quit{Enter}");
    expect(host.quit.mock.calls).toEqual([["ask"], ["ask"]]);
  });

  it("renames and deletes after a question, under one key each", async () => {
    deletes = 0;
    const app = await show();
    app.overlay = { is: "rename", session: "a" };
    const title = await screen.findByRole<HTMLInputElement>("textbox", { name: "Title" });
    expect(title.value).toBe("Port the solver");
    await expectAccessible(screen.getByRole("dialog"));
    await userEvent.clear(title);
    await userEvent.type(title, "Port it{Enter}");
    await waitFor(() => expect(calls("rename")).toMatchObject([{ session: "a", title: "Port it" }]));
    app.overlay = { is: "delete", session: "root" };
    const dialog = await screen.findByRole("dialog");
    await waitFor(() => expect(dialog.textContent).toContain("2 sessions with 12 messages go for good"));
    await userEvent.click(within(dialog).getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(calls("delete").at(-1)).toMatchObject({ session: "root", stop: false }));
    push({ frame: aFrame({ removed: ["root"] }) });
    await waitFor(() => expect([app.sessions.size, app.view]).toEqual([0, "new"]));
  });

  it("frames of a subscription that was replaced are left out", async () => {
    const app = await show();
    await waitFor(() => expect(app.openId).toBe("root"));
    const stale = push;
    await app.open("a");
    stale({ frame: aFrame({ sessions: [aSession("ghost")] }) });
    expect(app.sessions.has("ghost")).toBe(false);
  });

  it("tells when it is out of touch with the engine", async () => {
    host.call.mockImplementation(async (cmd: string, args: Record<string, unknown>) => {
      if (cmd === "tree") throw new Error("The store is held by another process.");
      return answer(cmd, args);
    });
    const app = new AppState();
    render(App, { app });
    expect(await screen.findByText("The store is held by another process.")).toBeTruthy();
    host.call.mockImplementation(async (cmd: string, args: Record<string, unknown>) => answer(cmd, args));
    await userEvent.click(screen.getByRole("button", { name: "Try again" }));
    await waitFor(() => expect([app.openId, app.problem]).toEqual(["root", null]));
  });
});
