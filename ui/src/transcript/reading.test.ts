import { cleanup, fireEvent, render, screen, within } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { outboxOf } from "../composer/outbox.svelte";
import { AppState } from "../state/app.svelte";
import { SessionStore } from "../state/session.svelte";
import { frame, HEIGHT, ITEM, layOut, log, many, scrollTo, serve, settle, shown as show, words } from "../test/layout";
import { answer, made, message, row, tool } from "../test/made";
import type { LiveView, Row, SessionView } from "../wire";
import Transcript from "./Transcript.svelte";

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

async function shown(rows: Row[], session: SessionView = made(), live: LiveView | null = null) {
  serve(call, rows);
  return await show(app, session, live);
}

describe("reading", () => {
  it("holds only what is in reach, opens at the end and follows it", async () => {
    const { store } = await shown(many(300));
    expect(screen.getAllByRole("article").length).toBeLessThan(60);
    expect(words()).toContain("words 300");
    expect(store.following).toBe(true);
    store.apply(frame([row(301, answer("words 301"))]));
    await settle();
    expect(words()).toContain("words 301");
    expect(log().scrollTop).toBe(log().scrollHeight - HEIGHT);
  });

  it("never moves what someone reads, and says how much is new", async () => {
    const { store } = await shown(many(90));
    await scrollTo(2000);
    const top = log().scrollTop;
    expect(store.following).toBe(false);
    expect(screen.queryByRole("button", { name: /new/ })).toBe(null);
    for (let n = 91; n <= 94; n++) store.apply(frame([row(n, answer(`words ${n}`))]));
    await settle();
    expect(log().scrollTop).toBe(top);
    await fireEvent.click(screen.getByRole("button", { name: "4 new" }));
    await settle();
    expect(store.following).toBe(true);
    expect(words()).toContain("words 94");
    expect(screen.queryByRole("button", { name: /new/ })).toBe(null);
  });

  it("a place that is corrected after the end was shown is not the reader's doing", async () => {
    const { store } = await shown(many(90));
    store.apply(frame([row(91, answer("words 91"))]));
    await vi.waitFor(() => expect(words()).toContain("words 91"));
    log().scrollTop -= 40;
    await settle();
    expect(store.following).toBe(true);
    await scrollTo(log().scrollTop - 40);
    expect(store.following).toBe(false);
  });

  it("brings older rows without a jump", async () => {
    const { store } = await shown(many(250));
    await scrollTo(1500);
    await scrollTo(400);
    expect(store.rows[0]?.n).toBe(51);
    const first = [...log().querySelectorAll<HTMLElement>(".item")].map((each) => each.dataset.key);
    // Row 151 was at the start: what was in view at 400 is in view 100 rows further down.
    expect(log().scrollTop).toBe(400 + 100 * ITEM);
    expect(first).toContain("159:0");
  });

  it("remembers where the reader stood", async () => {
    const { unmount } = await shown(many(90));
    await scrollTo(2020);
    unmount();
    expect(new SessionStore("s").anchor).toEqual({ n: 41, part: 0, offset: -20 });
    const { store } = await shown(many(90));
    expect(store.following).toBe(false);
    expect(log().scrollTop).toBe(2020);
  });

  it("End goes back to the end, ] and [ step through messages, e opens all", async () => {
    const mixed = Array.from({ length: 90 }, (_, i) =>
      row(i + 1, i % 3 === 0 ? answer(`words ${i + 1}`) : tool("bash", `c${i}`)),
    );
    const { store } = await shown(mixed);
    await scrollTo(1000);
    await fireEvent.keyDown(log(), { key: "]" });
    await settle();
    expect((document.activeElement as HTMLElement).dataset.key).toBe("22:0");
    await fireEvent.keyDown(log(), { key: "[" });
    await settle();
    expect((document.activeElement as HTMLElement).dataset.key).toBe("19:0");
    await fireEvent.keyDown(log(), { key: "e" });
    expect(store.isOpen("2:0", false)).toBe(true);
    await fireEvent.keyDown(log(), { key: "e" });
    expect(store.isOpen("2:0", true)).toBe(false);
    await fireEvent.keyDown(log(), { key: "End" });
    await settle();
    expect(store.following).toBe(true);
    await fireEvent.keyDown(log(), { key: "e", ctrlKey: true });
    expect(store.isOpen("2:0", true)).toBe(false);
  });

  it("shows a message from its press until its row is there", async () => {
    const { store, session } = await shown(many(5));
    let accept: (answer: unknown) => void = () => {};
    call.mockImplementation(
      () =>
        new Promise((yes) => {
          accept = yes;
        }),
    );
    void outboxOf(app).send(session, "hello", "joins");
    await settle();
    expect(words()).toContain("hello Kept here, not sent yet");
    accept({ n: 6 });
    await settle();
    expect(words()).toContain("hello Accepted, waits for the next step");
    store.apply(frame([row(6, message("hello"))]));
    await settle();
    expect(within(log()).getAllByText("hello").length).toBe(1);
  });

  it("what streams stands at the end, with a heading that says so", async () => {
    const live = {
      at: 1,
      step: 4,
      blocks: [{ type: "text" as const, name: null, delegates: false, from: 0, text: "So *far*" }],
      calls: [],
    };
    await shown([row(1, message("go"))], made({ state: "running" }), live);
    expect(screen.getByRole("heading", { name: "Answer, step 4, still being written" })).toBeTruthy();
    expect(words()).toContain("So far");
  });

  it("arguments that stream are never shown or parsed, only their size", async () => {
    const live = {
      step: 4,
      at: 1,
      blocks: [
        { type: "tool_call" as const, name: "write_file", delegates: false, from: 0, text: "x".repeat(500_000) },
      ],
      calls: [],
    };
    await shown([row(1, message("go"))], made({ state: "running" }), live);
    expect(words()).toContain("Prepares write_file 500 KB");
    expect(words().length).toBeLessThan(200);
  });

  it("says nothing of loading at first, then how much it reads", async () => {
    const session = made({ step: 12_400 });
    app.branches.put(session);
    const store = new SessionStore("s");
    call.mockReturnValue(new Promise(() => {}));
    render(Transcript, { session, store, app });
    void store.load();
    await vi.advanceTimersByTimeAsync(100);
    expect(words()).toBe("");
    expect(screen.getByRole("heading", { level: 1 }).textContent).toBe("Port the solver");
    await vi.advanceTimersByTimeAsync(100);
    expect(words()).toBe("Reading 12,400 steps");
  });

  it("says why it cannot be read, and tries again", async () => {
    call.mockRejectedValueOnce(new Error("the store is damaged"));
    const { store } = await shown(many(3));
    expect(words()).toContain("The transcript could not be read");
    await fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    await settle();
    expect([store.problem, words().includes("words 3")]).toEqual([null, true]);
  });

  it("switching between long sessions keeps the page small", async () => {
    const a = await shown(many(600), made({ id: "a" }));
    const count = () => document.querySelectorAll("*").length;
    const before = count();
    for (let i = 0; i < 6; i++) {
      const id = i % 2 === 0 ? "b" : "a";
      const store = new SessionStore(id);
      await a.rerender({ session: made({ id }), store, app });
      await store.load();
      await settle();
    }
    expect(count()).toBeLessThan(before * 2);
  });
});
