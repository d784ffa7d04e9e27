import { createEvent, fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { tick } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AppState } from "../state/app.svelte";
import { expectAccessible } from "../test/axe";
import { aFrame, anAsk, aSession } from "../test/views";
import type { AskView, Decision } from "../wire";
import Inbox from "./Inbox.svelte";

const host = vi.hoisted(() => {
  class HostError extends Error {
    constructor(
      readonly code: string,
      message: string,
    ) {
      super(message);
    }
  }
  return { HostError, call: vi.fn(), watch: vi.fn(async () => 1), quit: vi.fn() };
});
vi.mock("../host", () => ({ ...host, isRace: (code: string) => code === "conflict", mintKey: () => "key" }));

let app: AppState;
let now: number;
let refuse: { code: string; message: string } | null;
const NOW = Date.now();

const asked = (id: string, session: string, change: Partial<AskView> = {}) =>
  anAsk(id, session, {
    lineage: [
      { id: "root", title: "Release" },
      { id: session, title: `Title of ${session}` },
    ],
    asked_at: NOW - 80_000,
    ...change,
  });

const BECAME: Readonly<Record<Decision, AskView["state"]>> = {
  once: "once",
  branch: "branch",
  always: "always",
  deny: "denied",
  later: "later",
};

beforeEach(() => {
  localStorage.clear();
  vi.clearAllMocks();
  refuse = null;
  now = 10_000;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  host.call.mockImplementation(async (cmd: string, args: { ask: string; decision: Decision; note?: string }) => {
    if (cmd === "answer") {
      if (refuse !== null) throw new host.HostError(refuse.code, refuse.message);
      const state = BECAME[args.decision];
      const decided_at = state === "later" ? null : Date.now();
      return { ask: { ...(app.asks.get(args.ask) as AskView), state, note: args.note ?? null, decided_at } };
    }
    if (cmd === "page") return { rows: [], first: 0, last: 0 };
    return { asks: [...app.asks.open, ...app.asks.later, ...app.asks.settled] };
  });
});
afterEach(() => vi.restoreAllMocks());

async function show(asks: AskView[], at: string | null = null): Promise<void> {
  app = new AppState();
  app.ready = true;
  app.apply(
    aFrame({
      asks,
      sessions: [
        aSession("root", { title: "Release" }),
        ...[...new Set(asks.map((ask) => ask.session))].map((id) => aSession(id, { parent: "root", state: "waiting" })),
      ],
    }),
  );
  app.clock.now = NOW;
  app.clock.coarse = NOW;
  app.openInbox(at);
  render(Inbox, { app, stacked: false });
  await settled();
  // What is shown was looked at.
  now += 1000;
}

async function settled(): Promise<void> {
  for (let i = 0; i < 6; i++) await tick();
}

async function press(key: string, init = {}): Promise<void> {
  await fireEvent.keyDown(document.activeElement ?? document.body, { key, ...init });
  await settled();
}

const answers = () => host.call.mock.calls.filter(([cmd]) => cmd === "answer").map(([, args]) => args);
const focused = () =>
  (document.activeElement as HTMLElement | null)?.dataset.ask ?? document.activeElement?.textContent;
const words = () => document.querySelector("main")?.textContent?.replace(/\s+/g, " ").trim() ?? "";
const options = () => screen.queryAllByRole("option").map((row) => row.textContent?.replace(/\s+/g, " ").trim());

describe("the list", () => {
  it("holds what waits, oldest first, then what was put off, then what was decided today", async () => {
    await show([
      asked("b", "s", { asked_at: NOW - 34_000 }),
      asked("a", "s", { action: { kind: "write", path: "a.rs", diff: "" } }),
      asked("l", "t", { state: "later" }),
      asked("d", "t", { state: "branch", decided_at: NOW, used: 4 }),
      asked("old", "t", { state: "once", decided_at: NOW - 3 * 86_400_000 }),
    ]);
    const told = screen.getAllByRole("group").filter((group) => group.closest("[role=listbox]") !== null);
    expect(
      told.map((group) => [group.getAttribute("aria-label"), within(group).getAllByRole("option").length]),
    ).toEqual([
      ["Waiting", 2],
      ["Not now", 1],
      ["Decided today", 1],
    ]);
    expect(options()).toEqual([
      "Write a file 1:20 a.rs Title of s, in Release",
      "Run a command 0:34 make b Title of s, in Release",
      "Run a command 1:20 make l Title of t, in Release",
      expect.stringMatching(/^Allowed for the branch \d\d:\d\d make d Title of t, used 4 times since$/),
    ]);
    await expectAccessible();
  });

  it("has one stop in the tab order, which takes the focus and is what is shown", async () => {
    await show([asked("a", "s"), asked("b", "t")], "b");
    const rows = screen.getAllByRole("option");
    expect(rows.map((row) => [row.tabIndex, row.getAttribute("aria-selected")])).toEqual([
      [-1, "false"],
      [0, "true"],
    ]);
    expect([focused(), words()]).toEqual(["b", expect.stringContaining("make b")]);
  });

  it("moves by j and k and the arrows, and Enter opens who asks", async () => {
    await show([asked("a", "s", { asked_at: 1 }), asked("b", "t", { asked_at: 2 }), asked("c", "u", { asked_at: 3 })]);
    const trail: unknown[] = [];
    for (const key of ["j", "ArrowDown", "j", "k", "Home", "End"]) {
      await press(key);
      trail.push(focused());
    }
    expect(trail).toEqual(["b", "c", "c", "b", "a", "c"]);
    await press("Enter");
    await waitFor(() => expect([app.view, app.openId]).toEqual(["session", "u"]));
  });

  it("without anything says so", async () => {
    await show([]);
    expect([words(), options(), focused()]).toEqual(["Nothing needs you.", [], "Nothing needs you."]);
    await expectAccessible();
    app.apply(aFrame({ seq: 2, asks: [asked("new", "s")] }));
    await settled();
    expect([app.askId, focused()]).toEqual(["new", "new"]);
  });
});

describe("what is asked", () => {
  it("is told in full: who, what exactly, where, why, and what was decided before", async () => {
    const same = { kind: "command" as const, text: "make a" };
    await show([
      asked("a", "s", { said: "Builds <b>it</b>\u202e", action: { ...same, background: true } }),
      asked("d", "t", { state: "once", decided_at: NOW, allows: same }),
    ]);
    expect(screen.getByRole("heading", { level: 2 }).textContent).toBe("May it run this command?");
    expect(screen.getByRole("group", { name: "The exact command" }).textContent).toBe("make a");
    for (const part of [
      "Asked 1:20 ago. Only this child is paused.",
      "Runs in ~/work",
      "Its reason “Builds <b>it</b>⟨U+202E⟩”",
      "Why asked make is not known to only read.",
      "Before The same, allowed once by you",
      "In the background",
      "1 of 1",
      "For this branch: exactly this command in this folder, until this child is deleted.",
    ])
      expect(words()).toContain(part);
    expect(document.querySelector("main b")).toBe(null);
    await userEvent.click(within(screen.getByRole("navigation", { name: "Who asks" })).getByText("Release"));
    expect(app.openId).toBe("root");
  });

  it("is shown to the character: nothing hidden, nothing as markup", async () => {
    const text = "rm \u202efdp.txt\x1b[8m\0<img src=x onerror=alert(1)>\n\nrm\u00a0-rf ~";
    await show([asked("a", "s", { action: { kind: "command", text, background: false } })]);
    const box = screen.getByRole("group", { name: "The exact command" });
    expect(box.textContent).toBe(
      "rm ⟨U+202E⟩fdp.txt⟨U+001B⟩[8m⟨U+0000⟩<img src=x onerror=alert(1)>\n\nrm⟨U+00A0⟩-rf ~",
    );
    expect([box.querySelectorAll("mark").length, document.querySelector("img")]).toEqual([4, null]);
    expect(options()[0]).toContain(
      "rm ⟨U+202E⟩fdp.txt⟨U+001B⟩[8m⟨U+0000⟩<img src=x onerror=alert(1)> ⏎ rm⟨U+00A0⟩-rf ~",
    );
  });

  it("says how much there is where not all of it is in view", async () => {
    const text = `${"x\n".repeat(40)}end`;
    await show([
      asked("a", "s", { asked_at: 1, action: { kind: "command", text, background: false } }),
      asked("b", "s", { asked_at: 2, action: { kind: "command", text: "y".repeat(30_000), background: false } }),
    ]);
    expect(words()).toContain("41 lines: scroll to read all of it.");
    await press("j");
    expect(words()).toContain("Only the first 20 KB of 30 KB are shown.");
    await userEvent.click(screen.getByRole("button", { name: "Show all" }));
    expect(screen.getByRole("group", { name: "The exact command" }).textContent).toHaveLength(30_000);
  });

  it("of a write shows the change and where the path leads", async () => {
    await show([
      asked("a", "s", {
        action: {
          kind: "write",
          path: "link/a.rs",
          diff: "@@ -1,2 +1,2 @@\n fn\n-old\u202e\n+<b>new</b>\n... (the diff goes on)\n",
        },
        allows: { kind: "write", path: "/etc/a.rs" },
      }),
    ]);
    expect(screen.getByRole("group", { name: "Change of a.rs" }).textContent?.replace(/\s+/g, " ").trim()).toBe(
      "1 fn2−removed: old⟨U+202E⟩2+added: <b>new</b>",
    );
    for (const part of ["May it write this file?", "link/a.rs", "Leads to /etc/a.rs", "The change goes on."])
      expect(words()).toContain(part);
    await expectAccessible();
  });

  it("whose call does not wait any more says that an answer wakes it", async () => {
    await show([asked("a", "s", { waits: false })]);
    expect(words()).toContain("Coppice was closed since, so its call does not wait any more; your answer wakes it.");
  });

  it("that was decided says what became of it, and has no answers", async () => {
    await show([asked("d", "s", { state: "denied", decided_at: NOW, note: "Never <i>that</i>" })], "d");
    expect(words()).toMatch(/Denied by you, \d\d:\d\d/);
    expect(words()).toContain("You said “Never <i>that</i>”");
    expect(screen.queryByRole("button", { name: /Allow|Deny/ })).toBe(null);
    await press("a");
    expect(answers()).toEqual([]);
    await expectAccessible();
  });
});

describe("an answer", () => {
  it.each([
    ["a", "once"],
    ["b", "branch"],
    ["n", "later"],
  ])("%s is %s, and the focus goes to the next", async (key, decision) => {
    await show([asked("x", "s", { asked_at: 1 }), asked("y", "t", { asked_at: 2 })]);
    await press(key);
    await waitFor(() => expect([answers(), focused()]).toEqual([[{ ask: "x", decision, key: "key" }], "y"]));
  });

  it("always is less at hand, and says for whom", async () => {
    await show([asked("x", "s")]);
    const always = screen.getByRole("button", { name: "Always allow exactly this" });
    const id = always.getAttribute("aria-describedby") ?? "";
    expect(document.getElementById(id)?.textContent).toContain("for every session in this folder");
    await userEvent.click(always);
    expect(answers()).toEqual([{ ask: "x", decision: "always", key: "key" }]);
    await waitFor(() => expect(focused()).toBe("Nothing needs you."));
  });

  it("D opens the line for a word, which Enter sends and the agent reads", async () => {
    await show([asked("x", "s", { asked_at: 1 }), asked("y", "t", { asked_at: 2 })]);
    await press("d");
    const line = screen.getByRole("textbox", { name: /Why, if you like/ });
    expect([document.activeElement, answers()]).toEqual([line, []]);
    await expectAccessible();
    await userEvent.type(line, "use the copy, and bad news{Enter}");
    await waitFor(() => expect(focused()).toBe("y"));
    expect(answers()).toEqual([{ ask: "x", decision: "deny", note: "use the copy, and bad news", key: "key" }]);
    now += 1000;
    await press("d");
    await userEvent.keyboard("{Enter}");
    await waitFor(() => expect(answers()[1]).toEqual({ ask: "y", decision: "deny", key: "key" }));
  });

  it("keeps the word that is being written while another ask is looked at", async () => {
    await show([asked("x", "s", { asked_at: 1 }), asked("y", "t", { asked_at: 2 })]);
    await press("d");
    await userEvent.type(screen.getByRole("textbox"), "not there");
    await userEvent.click(screen.getAllByRole("option")[1] as HTMLElement);
    await userEvent.click(screen.getAllByRole("option")[0] as HTMLElement);
    expect(screen.queryByRole("textbox")).toBe(null);
    await press("d");
    expect(screen.getByRole<HTMLInputElement>("textbox").value).toBe("not there");
  });

  it("Esc takes the line away and denies nothing, and Enter of an input method sends nothing", async () => {
    await show([asked("x", "s")]);
    await press("d");
    const line = screen.getByRole("textbox");
    const enter = createEvent.keyDown(line, { key: "Enter", isComposing: true });
    await fireEvent(line, enter);
    // An Enter that is not prevented submits the form.
    expect(enter.defaultPrevented).toBe(true);
    await press("Escape");
    expect([screen.queryByRole("textbox"), answers(), focused(), app.view]).toEqual([null, [], "x", "inbox"]);
  });

  it("for one call only has neither branch nor always", async () => {
    await show([asked("x", "s", { allows: null })]);
    await press("b");
    const names = within(screen.getByRole("group", { name: "Your answer" }))
      .getAllByRole("button")
      .map((button) => button.textContent?.replace(/\s+/g, " ").trim());
    expect([names, answers()]).toEqual([["Allow onceA", "DenyD", "Not nowN"], []]);
  });

  it("letters answer only while the list has the focus, without modifiers, and once when held down", async () => {
    await show([asked("x", "s"), asked("y", "t")]);
    await press("a", { ctrlKey: true });
    await press("a", { repeat: true });
    await press("A", { shiftKey: true });
    screen.getByRole("region", { name: /May it/ }).focus();
    await press("a");
    expect(answers()).toEqual([]);
  });

  it("is not given to what came into view as the person pressed", async () => {
    await show([asked("x", "s", { asked_at: 1 }), asked("y", "t", { asked_at: 2 })]);
    await press("a");
    await waitFor(() => expect(focused()).toBe("y"));
    await press("a");
    await userEvent.click(screen.getByRole("button", { name: /Allow once/ }));
    expect([answers().length, screen.getByRole("alert").textContent]).toEqual([
      1,
      "Not answered: what is shown changed as you pressed.",
    ]);
    now += 1000;
    await press("a");
    await userEvent.click(screen.getByRole("button", { name: /Allow once/ }));
    await waitFor(() => expect(answers().length).toBe(2));
  });

  it("that was given elsewhere leaves the ask in view, with what became of it", async () => {
    await show([asked("x", "s", { asked_at: 1 }), asked("y", "t", { asked_at: 2 })]);
    app.apply(
      aFrame({
        seq: 2,
        asks: [asked("x", "s", { state: "withdrawn", decided_at: NOW, note: "its call was stopped" })],
      }),
    );
    await settled();
    expect([app.askId, words()]).toEqual(["x", expect.stringContaining("Taken back, ")]);
    expect(words()).toContain("its call was stopped");
    await press("a");
    expect(answers()).toEqual([]);
  });

  it("that came too late is told, and the list is right", async () => {
    await show([asked("x", "s", { asked_at: 1 }), asked("y", "t", { asked_at: 2 })]);
    refuse = { code: "conflict", message: "x was answered already; the first answer stands." };
    const before = host.call.getMockImplementation();
    host.call.mockImplementation(async (cmd: string, args: unknown) =>
      cmd === "asks"
        ? { asks: [asked("y", "t"), asked("x", "s", { state: "denied", decided_at: NOW })] }
        : await before?.(cmd, args),
    );
    await press("a");
    await waitFor(() =>
      expect(screen.getByRole("alert").textContent).toBe("Too late, your answer did not count: it was denied."),
    );
    expect([app.askId, options().map((option) => option?.split(" ")[0]), app.live.sentence]).toEqual([
      "x",
      ["Run", "Denied"],
      expect.stringContaining("needs you"),
    ]);
  });
});

it("a new ask is announced by who asks and what for, in plain words", async () => {
  await show([]);
  app.live.sentence = "";
  vi.spyOn(app.live, "say");
  app.apply(aFrame({ seq: 3, sessions: [aSession("s", { title: "Dry\u202e run\nnow" })], asks: [asked("x", "s")] }));
  app.apply(aFrame({ seq: 4, asks: [asked("x", "s")] }));
  expect(vi.mocked(app.live.say).mock.calls).toEqual([["Dry run now needs you: run a command."]]);
});
