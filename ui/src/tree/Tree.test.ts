import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AppState } from "../state/app.svelte";
import { expectAccessible } from "../test/axe";
import { aFrame, aSession, aTask } from "../test/views";
import TreePane from "./TreePane.svelte";

const host = vi.hoisted(() => ({ call: vi.fn(), watch: vi.fn(async () => 1) }));
vi.mock("../host", () => ({ ...host, HostError: Error, mintKey: () => "key", quit: vi.fn() }));

let app: AppState;

function show(): AppState {
  app = new AppState();
  app.ready = true;
  app.apply(
    aFrame({
      sessions: [
        aSession("old", { title: "Sort receipts", created_at: 1 }),
        aSession("root", { title: "Release", created_at: 2, live_below: 2 }),
        aSession("a", {
          parent: "root",
          title: "Port the solver",
          created_at: 3,
          state: "running",
          detail: "writing",
          live_below: 1,
        }),
        aSession("b", {
          parent: "root",
          title: "Build it",
          created_at: 4,
          state: "failed",
          detail: "exit 101",
          ended_at: 9e12,
        }),
      ],
      tasks: [aTask("t", "a", { label: "cargo bench" })],
    }),
  );
  render(TreePane, { app });
  return app;
}

const rows = () =>
  waitFor(() => {
    const shown = screen.getAllByRole("treeitem");
    expect(shown).toHaveLength(5);
    return shown;
  });
const focused = () => document.activeElement?.getAttribute("data-row");

beforeEach(() => {
  localStorage.clear();
  vi.clearAllMocks();
  host.call.mockImplementation(async (cmd: string, args: { what?: string; id?: string }) =>
    cmd === "page"
      ? { rows: [], first: 0, last: 0 }
      : {
          what: args.what,
          label: args.id ?? "",
          by: "person",
          ended: [],
          kept: [],
          processes: [],
          unconfirmed: [],
          ms: 1,
        },
  );
});

afterEach(() => vi.useRealTimers());

describe("the tree", () => {
  it("names every row with its state, and tells its place", async () => {
    show();
    const told = (await rows()).map((row) => [
      row.textContent?.replace(/\s+/g, " ").trim(),
      ["level", "posinset", "setsize", "expanded"].map((name) => row.getAttribute(`aria-${name}`)).join(" "),
    ]);
    expect(told.map(([, place]) => place)).toEqual(["1 1 2 ", "1 2 2 true", "2 1 2 true", "3 1 1 ", "2 2 2 "]);
    const names = told.map(([name]) => name ?? "");
    expect(names[1]).toContain("idle · 2 run below");
    expect(names[2]).toContain("running, writing");
    expect(names[3]).toContain("cargo bench running,");
    expect(names[4]).toContain("failed · exit 101");
    expect(names[4]).toContain("not seen yet");
  });

  it("has no violations", async () => {
    show();
    await rows();
    await expectAccessible();
  });

  it("moves by keys as a tree does, with one stop in the tab order", async () => {
    show();
    await rows();
    const user = userEvent.setup();
    screen
      .getAllByRole("treeitem")
      .find((row) => row.tabIndex === 0)
      ?.focus();
    const walk: Array<[string, string]> = [
      ["{ArrowDown}", "s:root"],
      ["{ArrowRight}", "s:a"],
      ["l", "t:t"],
      ["{ArrowRight}", "t:t"],
      ["{ArrowLeft}", "s:a"],
      ["{End}", "s:b"],
      ["{ArrowDown}", "s:b"],
      ["{Home}", "s:old"],
      ["G", "s:b"],
      ["k", "t:t"],
      ["h", "s:a"],
      ["g", "s:old"],
    ];
    for (const [key, at] of walk) {
      await user.keyboard(key);
      await waitFor(() => expect([key, focused()]).toEqual([key, at]));
      expect(screen.getAllByRole("treeitem").filter((row) => row.tabIndex === 0)).toHaveLength(1);
    }
    await user.keyboard("jl{ArrowLeft}");
    await waitFor(() => expect(screen.getAllByRole("treeitem")).toHaveLength(4));
    expect(app.tree.isExpanded("a")).toBe(false);
    await user.keyboard("*");
    await waitFor(() => expect(screen.getAllByRole("treeitem")).toHaveLength(5));
  });

  it("selects by Enter and not by the focus, and a command opens its owner", async () => {
    show();
    await rows();
    const user = userEvent.setup();
    screen.getAllByRole("treeitem")[0]?.focus();
    await user.keyboard("jl");
    expect(app.openId).toBe(null);
    await user.keyboard("{Enter}");
    await waitFor(() => expect(screen.getByRole("treeitem", { selected: true }).dataset.row).toBe("s:a"));
    await user.keyboard("l{Enter}");
    expect([app.openId, focused()]).toEqual(["a", "t:t"]);
  });

  it("with letters that jump, they go by name", async () => {
    show();
    app.look.setTypeAhead(true);
    await rows();
    screen.getAllByRole("treeitem")[0]?.focus();
    await userEvent.keyboard("b");
    await waitFor(() => expect(focused()).toBe("s:b"));
  });

  it("a row that settles keeps its place and the focus", async () => {
    show();
    await rows();
    screen.getAllByRole("treeitem")[2]?.focus();
    app.apply(
      aFrame({
        sessions: [
          aSession("a", {
            parent: "root",
            title: "Port the solver",
            created_at: 3,
            state: "completed",
            ended_at: 9,
            last_n: 2,
          }),
        ],
      }),
    );
    await waitFor(() => expect(document.activeElement?.textContent).toContain("completed"));
    expect([focused(), screen.getAllByRole("treeitem").indexOf(document.activeElement as HTMLElement)]).toEqual([
      "s:a",
      2,
    ]);
  });

  it("what settled is unread until it is looked at, and its command leaves when its owner was left", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    show();
    await rows();
    const failed = app.sessions.get("b");
    expect(failed && app.unread(failed)).toBe(true);
    await app.open("a");
    vi.setSystemTime(Date.now() + 1);
    app.apply(aFrame({ tasks: [aTask("t", "a", { status: "completed", settled_at: Date.now() })] }));
    expect(app.tree.rows.map((row) => row.key)).toContain("t:t");
    vi.setSystemTime(Date.now() + 1);
    await app.open("b");
    expect(failed && app.unread(failed)).toBe(false);
    expect(app.tree.rows.map((row) => row.key)).not.toContain("t:t");
  });

  it("Stop on a row aims at that row, a command's at the command", async () => {
    show();
    await rows();
    const user = userEvent.setup();
    for (const at of [2, 3]) {
      const button = screen.getAllByRole("treeitem")[at]?.querySelector<HTMLElement>(".act");
      if (button != null) await user.click(button);
    }
    const stops = host.call.mock.calls.filter(([cmd, args]) => cmd === "stop" && args.preview !== true);
    expect(stops.map(([, args]) => [args.what, args.id])).toEqual([
      ["turn", "a"],
      ["task", "t"],
    ]);
    expect(app.openId).toBe(null);
  });

  it("a branch leaves for the archive at a key, the focus stays in the tree, and it comes back", async () => {
    show();
    await rows();
    const user = userEvent.setup();
    screen.getAllByRole("treeitem")[4]?.focus();
    await user.keyboard("e");
    const asked = () =>
      host.call.mock.calls
        .filter(([cmd]) => cmd === "archive")
        .map(([, { session, archived, stop }]) => [session, archived, stop]);
    await waitFor(() => expect(asked()).toEqual([["b", true, undefined]]));
    const b = app.sessions.get("b");
    if (b !== undefined) app.apply(aFrame({ sessions: [{ ...b, archived: true, last_n: 2 }] }));
    await waitFor(() => expect(focused()).toBe("x:s:root"));
    expect(document.activeElement?.textContent).toContain("1 archived");
    expect(screen.getByText("Archived Build it.")).toBeTruthy();
    expect(app.live.sentence).toBe("Archived Build it.");
    await expectAccessible();
    await user.keyboard("l");
    await waitFor(() => expect(app.tree.rows.map((row) => row.key)).toContain("s:b"));
    await user.click(screen.getByRole("button", { name: "Undo" }));
    await waitFor(() => expect(asked().at(-1)).toEqual(["b", false, undefined]));
    expect(screen.queryByRole("button", { name: "Undo" })).toBe(null);
  });

  it("what runs is not archived at a key: it is asked first", async () => {
    show();
    await rows();
    screen.getAllByRole("treeitem")[2]?.focus();
    await userEvent.keyboard("e");
    expect(app.overlay).toEqual({ is: "archive", session: "a" });
    expect(host.call.mock.calls.filter(([cmd]) => cmd === "archive")).toEqual([]);
  });

  it("stays small in the page however many rows there are", async () => {
    show();
    const many = Array.from({ length: 5_000 }, (_, index) => aSession(`m${index}`, { created_at: 10 + index }));
    app.apply(aFrame({ sessions: many }));
    await waitFor(() => expect(app.tree.rows).toHaveLength(5_005));
    expect(screen.getAllByRole("treeitem").length).toBeLessThan(60);
  });
});
