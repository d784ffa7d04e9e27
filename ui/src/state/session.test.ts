import { beforeEach, describe, expect, it, vi } from "vitest";
import { aFrame, anAnswer } from "../test/views";
import type { LiveView, Page, Row } from "../wire";
import { MOST_ROWS, mergeLive, SessionStore } from "./session.svelte";

const host = vi.hoisted(() => ({ call: vi.fn() }));
vi.mock("../host", () => ({ call: host.call, HostError: Error }));

const rows = (from: number, to: number): Row[] =>
  Array.from({ length: to - from + 1 }, (_, index) => anAnswer(from + index, from + index));
const numbers = (store: SessionStore) => store.rows.map((row) => row.n);
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

/** A log of `last` events of one row each, paged as the engine does. */
function serve(last: number): void {
  host.call.mockImplementation(
    async (_: string, args: { before?: number; after?: number; limit: number }): Promise<Page> => {
      const to =
        args.after !== undefined
          ? Math.min(last, args.after + args.limit)
          : Math.min(last, (args.before ?? last + 1) - 1);
      const from = args.after !== undefined ? args.after + 1 : Math.max(1, to - args.limit + 1);
      return { rows: rows(from, to), first: 1, last };
    },
  );
}

beforeEach(() => {
  localStorage.clear();
  host.call.mockReset();
});

describe("the open session", () => {
  it("loads the newest rows, and older ones by cursor until the start", async () => {
    serve(450);
    const store = new SessionStore("s");
    await store.load();
    expect([numbers(store)[0], store.atEnd, store.atStart]).toEqual([251, true, false]);
    await store.loadBefore();
    await store.loadBefore();
    expect([numbers(store), store.atStart]).toEqual([range(1, 450), true]);
  });

  it("begins at the remembered anchor and reaches the end by cursor", async () => {
    serve(450);
    localStorage.setItem("coppice.place.s", JSON.stringify({ anchor: { n: 100, part: 0, offset: 4 } }));
    const store = new SessionStore("s");
    await store.load();
    expect([numbers(store), store.atEnd]).toEqual([range(1, 300), false]);
    await store.loadAfter();
    expect([numbers(store), store.atEnd]).toEqual([range(1, 450), true]);
  });

  it("holds no more rows than it may, and gives up those on the far side", async () => {
    serve(4_000);
    const store = new SessionStore("s");
    await store.load();
    for (let page = 0; page < 10; page += 1) await store.loadBefore();
    expect([store.rows.length, store.atEnd, numbers(store)[0]]).toEqual([MOST_ROWS, false, 1801]);
    store.apply(aFrame({ rows: [anAnswer(4_001, 1)] }));
    expect(numbers(store).at(-1)).toBe(1801 + MOST_ROWS - 1);
  });

  it("lays rows that came while a page was under way over that page", async () => {
    const late = anAnswer(5, 5, "changed since");
    const store = new SessionStore("s");
    host.call.mockImplementation(async () => {
      store.apply(aFrame({ rows: [late, anAnswer(7, 7)] }));
      return { rows: rows(1, 6), first: 1, last: 6 };
    });
    await store.load();
    expect(numbers(store)).toEqual(range(1, 7));
    expect(store.rows[4]).toEqual(late);
  });

  it("says why a page failed, and can try again", async () => {
    host.call.mockRejectedValueOnce(new Error("The store could not be read."));
    const store = new SessionStore("s");
    await store.load();
    expect([store.problem, store.loading]).toEqual(["The store could not be read.", null]);
    serve(3);
    await store.loadEnd();
    expect([store.problem, numbers(store)]).toEqual([null, [1, 2, 3]]);
  });
});

describe("what streams", () => {
  const text = (from: number, words: string): LiveView => ({
    at: 5_000,
    step: 3,
    blocks: [{ type: "text", name: null, delegates: false, from, text: words }],
    calls: [],
  });

  it("a delta continues where it says, in UTF-16 units, and one from 0 replaces", () => {
    const first = mergeLive(null, text(0, "🌱 grow"));
    expect(mergeLive(first, text(7, "s on"))).toEqual(text(0, "🌱 grows on"));
    expect(mergeLive(first, text(3, "cut"))).toEqual(text(0, "🌱 cut"));
    expect(mergeLive(first, text(0, "anew"))).toEqual(text(0, "anew"));
  });

  it("a delta of text that was never seen is left out rather than shown torn", () => {
    expect(mergeLive(null, text(40, "the end of it"))).toEqual({ at: 5_000, step: 3, blocks: [], calls: [] });
  });

  it("is a sign of life of the moment when it came, however late this window hears of it", async () => {
    const store = new SessionStore("s");
    store.apply(aFrame({ rows: [anAnswer(1, 1)] }));
    expect(store.signAt).toBe(0);
    store.apply(aFrame({ live: text(0, "Hello") }));
    expect(store.signAt).toBe(5_000);
  });

  it("gives way to the rows of its step, keeps the calls that run, and ends with the turn", async () => {
    serve(1);
    const store = new SessionStore("s");
    await store.load();
    const calls = [{ call: "c", tail: "building" }];
    store.apply(aFrame({ live: { ...text(0, "Hello"), calls } }));
    store.apply(aFrame({ rows: [anAnswer(2, 3)] }));
    expect(store.live).toEqual({ at: 5_000, step: 3, blocks: [], calls });
    store.settle();
    expect(store.live).toBe(null);
  });
});
