import { cleanup, fireEvent, render, screen } from "@testing-library/svelte";
import axe from "axe-core";
import { flushSync } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { HostError } from "../host";
import { AppState } from "../state/app.svelte";
import { composeWithEnter, pressAt } from "../test/keys";
import { answer, made, message, row } from "../test/made";
import { anAsk } from "../test/views";
import type { SessionState, SessionView } from "../wire";
import Composer from "./Composer.svelte";
import { Outbox, outboxOf } from "./outbox.svelte";
import { routeOf } from "./routes";
import { Composition } from "./typing";

const call = vi.hoisted(() => vi.fn());
vi.mock("../host", async (original) => ({ ...(await original<object>()), call }));
const { HostError: Fails } = await import("../host");

const fails = (code: HostError["code"], message: string) => new Fails(code, message);
const child = (state: SessionState, change: Partial<SessionView> = {}) =>
  made({ parent: "p", depth: 1, state, task: "subagent-1", ...change });

let app: AppState;
let now = 10_000;
beforeEach(() => {
  localStorage.clear();
  call.mockReset();
  app = new AppState();
  vi.spyOn(performance, "now").mockImplementation(() => now);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const box = () => screen.getByRole<HTMLTextAreaElement>("textbox");
const words = () => document.getElementById("route")?.textContent?.replace(/\s+/g, " ").trim();
const buttons = () =>
  screen
    .getAllByRole("button")
    .map(
      (each) =>
        `${each.textContent?.replace(/\s+/g, " ").trim()}${(each as HTMLButtonElement).disabled ? " (off)" : ""}`,
    );

function shown(session: SessionView, draft = "") {
  app.branches.put(session);
  app.setDraft(session.id, draft);
  return render(Composer, { session, app });
}

async function type(text: string) {
  box().value = text;
  await fireEvent.input(box());
}

async function press(key: string, init: KeyboardEventInit & { keyCode?: number } = {}) {
  await fireEvent.keyDown(box(), { key, ...init });
}

describe("what it says is what happens", () => {
  const parent = made({ id: "p" });
  const ended = made({ id: "p", parent: "r", state: "completed" });
  const cases: [string, SessionView, SessionView | null, string, string[]][] = [
    ["a root that never ran", made({ step: 0 }), null, "Starts the session", ["Send"]],
    ["an idle root", made(), null, "Starts a turn", ["Send"]],
    ["an interrupted root", made({ state: "interrupted" }), null, "Starts a turn", ["Send"]],
    [
      "a running root",
      made({ state: "running" }),
      null,
      "Joins the running turn at its next step",
      ["Stop turn Ctrl .", "Send"],
    ],
    [
      "a running child",
      child("running", { steerable: true }),
      parent,
      "Joins the running turn at its next step",
      ["Stop turn Ctrl .", "Send"],
    ],
    [
      "a child whose turn settles",
      child("running"),
      parent,
      "Its turn is ending. You can send when it has ended",
      ["Stop turn Ctrl .", "Send (off)"],
    ],
    [
      "a starting root",
      made({ state: "starting" }),
      null,
      "Waits for its first step, then joins",
      ["Stop turn Ctrl .", "Send"],
    ],
    [
      "a starting child",
      child("starting"),
      parent,
      "Starting. You can send at its first step",
      ["Stop turn Ctrl .", "Send (off)"],
    ],
    [
      "a child that its parent waits for",
      child("running", { steerable: true, task: null }),
      parent,
      "Its parent waits for it; it takes no messages",
      ["Stop turn Ctrl .", "Send (off)"],
    ],
    [
      "a child that its parent waited for",
      child("completed", { task: null }),
      parent,
      "Wakes this child, which goes on after step 3",
      ["Wake and send"],
    ],
    [
      "a child without a sign since a moment",
      child("unverified", { last_sign_at: 240_000 }),
      parent,
      "No sign for 0 s. Joins when it answers",
      ["Stop turn Ctrl .", "Send"],
    ],
    ["one that needs you", child("waiting"), parent, "Joins after you decide", ["Stop turn Ctrl .", "Send"]],
    ["one that stops", child("stopping"), parent, "Stopping. You can send when it has stopped", ["Send (off)"]],
    [
      "a completed child",
      child("completed"),
      parent,
      "Wakes this child, which goes on after step 3",
      ["Wake and send"],
    ],
    ["a failed child", child("failed"), parent, "Wakes this child, which goes on after step 3", ["Wake and send"]],
    ["a stopped child", child("killed", { step: 0 }), parent, "Wakes this child", ["Wake and send"]],
    [
      "an interrupted child",
      child("interrupted"),
      parent,
      "Wakes this child, which goes on after step 3",
      ["Wake and send"],
    ],
    [
      "a child of a closed one",
      child("completed"),
      ended,
      "Opens its parent, then wakes this child, which goes on after step 3",
      ["Wake and send"],
    ],
    [
      "one without a sign",
      child("unverified"),
      parent,
      "No sign for 4 min. Joins when it answers",
      ["Stop turn Ctrl .", "Send"],
    ],
  ];
  it("one that asks leads to its ask", async () => {
    app.asks.take([anAsk("b", "s", { asked_at: 2 }), anAsk("a", "s", { asked_at: 1 })]);
    shown(child("waiting"));
    expect(buttons()).toEqual(["Decide", "Stop turn Ctrl .", "Send"]);
    screen.getByRole("button", { name: "Decide" }).click();
    expect([app.view, app.askId]).toEqual(["inbox", "a"]);
  });

  it.each(cases)("%s", async (_, session, above, wanted, verbs) => {
    app.clock.coarse = 240_000;
    if (above !== null) app.branches.put(above);
    const { container } = shown(session);
    expect(words()).toBe(wanted);
    expect(buttons()).toEqual(verbs);
    const { violations } = await axe.run(container, {
      rules: { "color-contrast": { enabled: false }, region: { enabled: false } },
    });
    expect(violations).toEqual([]);
  });

  it("changes its words and verb as the state changes", async () => {
    const { rerender } = shown(child("running", { steerable: true }), "text");
    await rerender({ session: child("completed"), app });
    expect([words(), buttons()]).toEqual(["Wakes this child, which goes on after step 3", ["Wake and send"]]);
  });

  it("refuses when the state changed between reading and pressing, and sends on the next press", async () => {
    const { rerender } = shown(child("running", { steerable: true }), "text");
    await rerender({ session: child("completed"), app });
    now += 100;
    await press("Enter");
    expect(call).not.toHaveBeenCalled();
    expect(words()).toBe("Not sent: it changed as you pressed. Now it would wake");
    expect(box().value).toBe("text");
    now += 1000;
    call.mockResolvedValue({ route: "started", task: "subagent-1" });
    await press("Enter");
    expect(call).toHaveBeenCalledWith("send", { child: "s", text: "text", expect: "started", key: expect.any(String) });
  });

  it("another session is no change of the promise", async () => {
    const { rerender } = shown(made({ id: "a", state: "running" }), "one");
    app.setDraft("b", "two");
    await rerender({ session: child("completed", { id: "b" }), app });
    call.mockResolvedValue({ route: "started", task: "t" });
    await press("Enter");
    expect(call.mock.calls[0]?.[1]).toMatchObject({ child: "b", text: "two" });
  });

  it("sends nothing while it cannot", async () => {
    for (const session of [child("stopping"), child("starting"), child("running")]) {
      expect(routeOf(session, null, 0).way).toBe("closed");
      const { unmount } = shown(session, "text");
      await press("Enter");
      await press("Enter", { ctrlKey: true });
      await fireEvent.submit(screen.getByRole("form"));
      expect(box().value).toBe("text");
      unmount();
    }
    expect(call).not.toHaveBeenCalled();
  });

  it("promises the engine what was shown at the press, whatever is known since", async () => {
    call.mockResolvedValue({ route: "steered", task: "t" });
    const outbox = outboxOf(app);
    await outbox.send(child("completed"), "a", "joins");
    await outbox.send(child("running", { steerable: true }), "b", "wakes");
    expect(call.mock.calls.map(([, args]) => [args.text, args.expect])).toEqual([
      ["a", "steered"],
      ["b", "started"],
    ]);
  });

  it("a click beside the text goes to the text, one on a button does not", async () => {
    shown(made());
    await fireEvent.click(document.getElementById("route") as Element);
    expect(document.activeElement).toBe(box());
    box().blur();
    await fireEvent.click(screen.getByRole("form"));
    expect(document.activeElement).toBe(box());
    box().blur();
    await fireEvent.click(screen.getByRole("button"));
    expect(document.activeElement).not.toBe(box());
  });

  it("stops the turn", async () => {
    call.mockResolvedValue({
      what: "turn",
      label: "x",
      by: "person",
      ended: [],
      kept: [],
      processes: [],
      unconfirmed: [],
      ms: 1,
    });
    shown(made({ state: "running" }));
    await fireEvent.click(screen.getByText("Stop turn"));
    expect(call).toHaveBeenCalledWith("stop", expect.objectContaining({ what: "turn", id: "s" }));
  });
});

describe("keys", () => {
  beforeEach(() => call.mockResolvedValue({ n: 11 }));

  it("Enter sends, Shift Enter does not, Ctrl Enter does", async () => {
    shown(made(), "one");
    await press("Enter", { shiftKey: true });
    expect(call).not.toHaveBeenCalled();
    await press("Enter");
    await type("two");
    await press("Enter", { ctrlKey: true });
    expect(call.mock.calls.map(([cmd, args]) => [cmd, args.text])).toEqual([
      ["prompt", "one"],
      ["prompt", "two"],
    ]);
  });

  it("pressed twice, it sends once", async () => {
    shown(made(), "one");
    await Promise.all([press("Enter"), press("Enter")]);
    expect(call).toHaveBeenCalledTimes(1);
  });

  it("sends nothing that is empty", async () => {
    shown(made(), " \n ");
    await press("Enter");
    expect(call).not.toHaveBeenCalled();
  });

  it("an Enter that an input method takes sends nothing, in any order of events; the next one does", async () => {
    shown(made(), "日本");
    await fireEvent.compositionStart(box());
    await press("Enter", { isComposing: true });
    await press("Enter");
    await press("Enter", { keyCode: 229 });
    await composeWithEnter(box(), 1_000);
    await pressAt(box(), "Enter", 1_010, { keyCode: 229 });
    expect(call).not.toHaveBeenCalled();
    await pressAt(box(), "Enter", 1_060);
    expect(call).toHaveBeenCalledTimes(1);
  });

  it("an Enter right after a composition belongs to it, a later one does not", () => {
    const composition = new Composition();
    const enter = (timeStamp: number) =>
      composition.takes({ isComposing: false, keyCode: 13, timeStamp } as KeyboardEvent);
    composition.start();
    expect(enter(5)).toBe(true);
    composition.end(10);
    expect([enter(12), enter(200)]).toEqual([true, false]);
  });
});

describe("text is never lost", () => {
  it("each session has its own draft, also after a reload", async () => {
    const { rerender } = shown(made({ id: "a" }), "for a");
    await rerender({ session: made({ id: "b" }), app });
    expect(box().value).toBe("");
    await type("for b");
    await rerender({ session: made({ id: "a" }), app });
    expect(box().value).toBe("for a");
    app = new AppState();
    expect([app.draft("a"), app.draft("b")]).toEqual(["for a", "for b"]);
  });

  it("a lost race puts it back and says what would happen now", async () => {
    call.mockRejectedValue(fails("not_delivered", "the turn ended first"));
    const { rerender } = shown(child("running", { steerable: true }), "text");
    await press("Enter");
    await vi.waitFor(() => expect(box().value).toBe("text"));
    await rerender({ session: child("completed"), app });
    expect(words()).toBe("Not sent: the turn ended first. Now it would wake");
    expect(buttons()).toEqual(["Wake and send"]);
    await type("text, again");
    expect(words()).toBe("Wakes this child, which goes on after step 3");
  });

  it.each<[HostError["code"], string]>([
    ["model", "127.0.0.1:11434 does not answer."],
    ["held_elsewhere", "This session is open in another process."],
    ["internal", "The engine is gone."],
    ["too_large", "A message may have 1 MB."],
  ])("%s puts it back and says why", async (code, reason) => {
    call.mockRejectedValue(fails(code, reason));
    shown(made(), "text");
    await press("Enter");
    await vi.waitFor(() => expect(words()).toBe(`Not sent: ${reason} Your text is in the box`));
    expect(box().value).toBe("text");
  });

  it("what was typed since is kept behind it", async () => {
    let refuse: (error: unknown) => void = () => {};
    call.mockImplementation(
      () =>
        new Promise((_, no) => {
          refuse = no;
        }),
    );
    shown(made(), "first");
    await press("Enter");
    expect(box().value).toBe("");
    await type("second");
    refuse(fails("model", "away"));
    await vi.waitFor(() => expect(box().value).toBe("first\n\nsecond"));
  });

  it("a child that cannot be resumed can only be read, and its draft stays", async () => {
    call.mockRejectedValue(fails("not_resumable", "its agent keeps no sessions"));
    app.branches.put(made({ id: "p" }));
    shown(child("completed"), "text");
    await press("Enter");
    await vi.waitFor(() => expect(buttons()).toEqual(["Ask its parent"]));
    expect(screen.queryByRole("textbox")).toBe(null);
    expect(app.draft("s")).toBe("text");
  });

  it("more than a megabyte is refused before it is sent", async () => {
    shown(made(), "é".repeat(600_000));
    await press("Enter");
    expect(call).not.toHaveBeenCalled();
    expect(words()).toContain("Not sent: it has 1.2 MB, and a message may have 1 MB");
    expect(box().value.length).toBe(600_000);
  });

  it("a reload in flight keeps it under the same key, so that sending it again does nothing twice", async () => {
    call.mockReturnValue(new Promise(() => {}));
    void outboxOf(app).send(made(), "text", "starts");
    const key = call.mock.calls[0]?.[1].key;
    app = new AppState();
    const outbox = outboxOf(app);
    expect([app.draft("s"), outbox.unsent("s"), outbox.of("s")]).toEqual(["text", "text", []]);
    call.mockResolvedValue({ n: 11 });
    await outbox.send(made({ last_n: 20 }), "text", "starts");
    expect(call.mock.calls[1]?.[1].key).toBe(key);
    expect(outbox.unsent("s")).toBe(null);
  });

  it("a reload in flight of a message that had arrived empties the box again", () => {
    call.mockReturnValue(new Promise(() => {}));
    void outboxOf(app).send(made(), "text", "starts");
    app = new AppState();
    outboxOf(app).arrived("s", [row(11, message("text"))]);
    expect([app.draft("s"), outboxOf(app).unsent("s")]).toEqual(["", null]);
  });

  it("Up in an empty box brings back what is not known to be sent", async () => {
    call.mockRejectedValue(fails("internal", "no answer"));
    shown(made(), "text");
    await press("Enter");
    await vi.waitFor(() => expect(box().value).toBe("text"));
    await type("");
    await press("ArrowUp");
    expect(box().value).toBe("text");
  });

  it("a draft that cannot be stored is said in the status line, until it can", () => {
    const full = vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new DOMException("full", "QuotaExceededError");
    });
    app.status = "From the engine";
    app.setDraft("s", "text");
    expect([app.draft("s"), app.line]).toEqual([
      "text",
      expect.stringContaining("kept only while this window is open"),
    ]);
    app.dismiss();
    app.setDraft("s", "texts");
    expect(app.line).toBe("From the engine");
    full.mockRestore();
    app.setDraft("s", "text");
    vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new DOMException("full", "QuotaExceededError");
    });
    call.mockReturnValue(new Promise(() => {}));
    void outboxOf(app).send(made(), "text", "starts");
    expect(app.line).toContain("kept only while this window is open");
  });

  it("a broken store of unsent messages is no harm", () => {
    localStorage.setItem("coppice.outbox", "{}");
    expect(new Outbox(app).sending).toEqual([]);
  });
});

describe("a message on its way", () => {
  it("is shown until its row is there: by its number in a root, by its words in a child", async () => {
    const outbox = outboxOf(app);
    call.mockResolvedValueOnce({ n: 12 });
    await outbox.send(made(), "same", "starts");
    outbox.arrived("s", [row(9, message("same")), row(11, message("same"))]);
    expect(outbox.of("s").map((each) => [each.phase, each.n])).toEqual([["accepted", 12]]);
    outbox.arrived("s", [row(12, message("same"))]);
    expect(outbox.of("s")).toEqual([]);

    call.mockResolvedValue({ route: "steered", task: "t" });
    await outbox.send(child("running"), "twice", "joins");
    await outbox.send(child("running"), "twice", "joins");
    outbox.arrived("s", [row(9, message("twice")), row(11, answer("twice")), row(12, message("twice"))]);
    expect(outbox.of("s").length).toBe(1);
  });

  it("has a key of its own for each press", async () => {
    call.mockResolvedValue({ n: 11 });
    const outbox = outboxOf(app);
    await outbox.send(made(), "a", "starts");
    await outbox.send(made(), "a", "starts");
    expect(new Set(call.mock.calls.map(([, args]) => args.key)).size).toBe(2);
  });

  it("that was surely refused is asked again under a new key", async () => {
    call.mockRejectedValue(fails("not_delivered", "the turn ended first"));
    const outbox = outboxOf(app);
    await outbox.send(made(), "a", "starts");
    await outbox.send(made(), "a", "starts");
    expect(new Set(call.mock.calls.map(([, args]) => args.key)).size).toBe(2);
  });
});

it("the box grows with its words up to a bound", async () => {
  let height = 40;
  vi.spyOn(HTMLTextAreaElement.prototype, "scrollHeight", "get").mockImplementation(() => height);
  shown(made());
  height = 120;
  await type("a\nb\nc");
  flushSync();
  expect(box().style.height).toBe("120px");
  height = 4000;
  await type("a\n".repeat(200));
  flushSync();
  expect([box().style.height, box().style.overflowY]).toEqual(["224px", "auto"]);
});
