import { cleanup, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AppState } from "../state/app.svelte";
import { expectAccessible } from "../test/axe";
import { frame, layOut, serve, settle, shown as show, words } from "../test/layout";
import { made, result, row, tool } from "../test/made";
import { anAsk } from "../test/views";
import type { AskView, Row } from "../wire";
import { itemsOf } from "./items";

const call = vi.hoisted(() => vi.fn());
vi.mock("../host", async (original) => ({ ...(await original<object>()), call, watch: async () => 1 }));

let app: AppState;
beforeEach(() => {
  localStorage.clear();
  layOut();
  call.mockReset();
  app = new AppState();
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const action = { kind: "command" as const, text: "make \u202eall", background: false };
const reason = { rule: "unknown" as const, text: "make is not known to only read." };
const asks = (state: AskView["state"], note: string | null = null): Row =>
  row(2, { kind: "ask", ask: "ask-1", call: "c", tool: "bash", action, reason, state, note });
const runs = (done: ReturnType<typeof result> | null = null): Row => row(1, tool("bash", "make all", done, "c"));
const view = (change: Partial<AskView> = {}) => anAsk("ask-1", "s", { call: "c", action, reason, ...change });

async function shown(rows: Row[]) {
  serve(call, rows);
  const view = await show(app, made({ state: "waiting" }));
  // What is shown was looked at.
  await vi.advanceTimersByTimeAsync(500);
  return view;
}

describe("an ask in the transcript", () => {
  it("stands in its place with its buttons while it waits", async () => {
    app.asks.take([view({ said: "Builds \u001bit" })]);
    await shown([runs(), asks("open")]);
    expect(words()).toContain("Run make all waits for you");
    expect(words()).toContain(
      "May it run this command? make ⟨U+202E⟩all Its reason: “Builds ⟨U+001B⟩it” make is not known",
    );
    expect(words()).not.toMatch(/running|Running/);
    const names = within(screen.getByRole("group", { name: "Your answer" })).getAllByRole("button");
    expect(names.map((button) => button.textContent?.trim())).toEqual([
      "Allow once",
      "Allow for this branch",
      "Deny",
      "Not now",
      "Always allow exactly this",
    ]);
    vi.useRealTimers();
    await expectAccessible();
  });

  it("is answered there, and becomes a line that says what became of it", async () => {
    app.asks.take([view()]);
    const { store } = await shown([runs(), asks("open")]);
    call.mockImplementation(async () => ({ ask: view({ state: "once", decided_at: 40_000 }) }));
    screen.getByRole("button", { name: "Allow once" }).click();
    await settle();
    expect(call.mock.calls.find(([cmd]) => cmd === "answer")?.[1]).toMatchObject({ ask: "ask-1", decision: "once" });
    store.apply(frame([asks("once")]));
    app.clock.now = 45_000;
    await settle();
    expect(screen.queryByRole("group", { name: "Your answer" })).toBe(null);
    expect(words()).toContain("Allowed once make ⟨U+202E⟩all");
    // What it waited was no work: it runs since it may.
    expect(words()).toContain("Running make all running 0:05");
    expect(document.activeElement?.classList.contains("item")).toBe(true);
  });

  it("that moved to where another was answered is not answered by the same press", async () => {
    const second = { ...asks("open"), n: 3, ask: "ask-2", call: "d" } as Row;
    app.asks.take([view(), view({ id: "ask-2", call: "d" })]);
    await shown([asks("open"), second]);
    const answers = () => call.mock.calls.filter(([cmd]) => cmd === "answer").map(([, args]) => args.ask);
    call.mockImplementation(async (_, args) => ({ ask: view({ id: args.ask, state: "once", decided_at: 40_000 }) }));
    screen.getAllByRole("button", { name: "Allow once" })[0]?.click();
    await settle();
    screen.getByRole("button", { name: "Allow once" }).click();
    await settle();
    expect([answers(), screen.getByRole("alert").textContent]).toEqual([
      ["ask-1"],
      "Not answered: what is shown changed as you pressed.",
    ]);
    await vi.advanceTimersByTimeAsync(500);
    screen.getByRole("button", { name: "Allow once" }).click();
    await settle();
    expect(answers()).toEqual(["ask-1", "ask-2"]);
  });

  it("denied has its word, and its call did nothing", async () => {
    await shown([runs(result("The person did not allow this.", { ok: false })), asks("denied", "Never <b>that</b>")]);
    expect(words()).toContain("Run make all denied");
    expect(words()).toContain("Denied make ⟨U+202E⟩all You said: “Never <b>that</b>”");
    expect(words()).not.toMatch(/Ran|failed/);
  });

  it("that is not known yet, or was taken back, has no buttons", async () => {
    await shown([asks("open")]);
    expect(screen.queryByRole("button", { name: /Allow/ })).toBe(null);
    cleanup();
    await shown([asks("withdrawn", "its call was stopped")]);
    expect(words()).toContain("Taken back make");
  });

  it("of which the list knows more than the row is shown as the list has it", async () => {
    app.asks.take([view({ state: "branch", decided_at: 5, used: 2 })]);
    await shown([runs(), asks("open")]);
    expect(words()).toContain("Allowed for the branch make ⟨U+202E⟩all used twice since");
  });

  it("whose answer came too late says so", async () => {
    app.asks.take([view()]);
    await shown([asks("open")]);
    app.asks.problems.set("ask-1", "Too late, your answer did not count: it was denied.");
    await settle();
    expect(screen.getByRole("alert").textContent).toContain("Too late");
  });

  it("is one line high once it is decided", () => {
    const tight = (state: AskView["state"]) => itemsOf([runs(), asks(state)], null, []).map((item) => item.tight);
    expect([tight("open"), tight("once")]).toEqual([
      [false, false],
      [false, true],
    ]);
  });
});

it("a change of what it may do is told in its place, and full access stands out", async () => {
  await shown([row(1, { kind: "mode", mode: "full" }), row(2, { kind: "mode", mode: "ask" })]);
  expect(words()).toMatch(/From here on: full access set by you.*From here on: asks first set by you/);
  expect([...document.querySelectorAll(".bad")].map((each) => each.textContent)).toEqual(["full access"]);
});
