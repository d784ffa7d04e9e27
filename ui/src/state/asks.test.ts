import { beforeEach, describe, expect, it, vi } from "vitest";
import { anAsk } from "../test/views";
import type { AskView } from "../wire";
import { Asks } from "./asks.svelte";

const host = vi.hoisted(() => {
  class HostError extends Error {
    constructor(
      readonly code: string,
      message: string,
    ) {
      super(message);
    }
  }
  return { HostError, call: vi.fn(), keys: 0 };
});
vi.mock("../host", () => ({
  ...host,
  isRace: (code: string) => code === "conflict",
  mintKey: () => `key-${++host.keys}`,
}));

const ids = (asks: readonly AskView[]) => asks.map((ask) => ask.id);
let asks: Asks;
let kept: AskView[];
beforeEach(() => {
  asks = new Asks();
  kept = [];
  host.call.mockReset();
  host.call.mockImplementation(async () => ({ asks: kept }));
});

describe("what is known of asks", () => {
  it("stands in its order: those that wait, oldest first, then those put off, then what was decided last", () => {
    asks.take([
      anAsk("b", "s", { asked_at: 2 }),
      anAsk("a", "s", { asked_at: 1 }),
      anAsk("l", "t", { asked_at: 0, state: "later" }),
      anAsk("x", "t", { state: "once", decided_at: 5 }),
      anAsk("y", "t", { state: "denied", decided_at: 9 }),
    ]);
    expect([ids(asks.open), ids(asks.later), ids(asks.settled), ids(asks.of("s")), ids(asks.of("t"))]).toEqual([
      ["a", "b"],
      ["l"],
      ["y", "x"],
      ["a", "b"],
      ["l"],
    ]);
  });

  it("goes forward only: what was read late does not open again what was answered", async () => {
    kept = [anAsk("a", "s"), anAsk("b", "s", { state: "open" })];
    const reading = asks.read();
    asks.take([anAsk("a", "s", { state: "denied", decided_at: 5 }), anAsk("b", "s", { state: "later" })]);
    await reading;
    expect([asks.get("a")?.state, asks.get("b")?.state]).toEqual(["denied", "later"]);
  });

  it("after a gap is what the engine has: what went is gone, and what came meanwhile stays", async () => {
    asks.take([anAsk("gone", "s"), anAsk("a", "s")]);
    kept = [anAsk("a", "s", { state: "once", decided_at: 3 })];
    const reading = asks.read();
    asks.take([anAsk("new", "s")]);
    await reading;
    expect([ids(asks.open), ids(asks.settled)]).toEqual([["new"], ["a"]]);
  });

  it("goes with its session, and does not come back with what was read before", () => {
    asks.take([anAsk("a", "s"), anAsk("b", "t")]);
    asks.remove("s");
    asks.take([anAsk("a", "s"), anAsk("c", "s")]);
    expect(ids(asks.open)).toEqual(["b"]);
  });

  it("forgets the oldest of what is decided, and nothing that waits", () => {
    const many = Array.from({ length: 500 }, (_, at) => anAsk(`d${at}`, "s", { state: "once", decided_at: at }));
    asks.take([anAsk("waits", "s"), ...many]);
    expect([ids(asks.open), asks.settled.length, asks.settled[0]?.id, asks.get("d0")]).toEqual([
      ["waits"],
      200,
      "d499",
      undefined,
    ]);
  });

  it("tells which are new, once, and only while they wait", () => {
    const told = [anAsk("a", "s"), anAsk("b", "s", { state: "once" })];
    expect([ids(asks.take(told)), ids(asks.take(told))]).toEqual([["a"], []]);
  });

  it("finds what was decided before about exactly the same in the same folder", () => {
    const same = { allows: { kind: "command" as const, text: "make" }, state: "once" as const };
    asks.take([
      anAsk("older", "s", { ...same, decided_at: 1 }),
      anAsk("newer", "t", { ...same, decided_at: 2 }),
      anAsk("elsewhere", "s", { ...same, decided_at: 3, cwd: "/other" }),
      anAsk("other", "s", { ...same, decided_at: 4, allows: { kind: "command", text: "make x" } }),
      anAsk("back", "s", { ...same, decided_at: 5, state: "withdrawn" }),
    ]);
    expect(asks.before(anAsk("a", "s", { allows: same.allows }))?.id).toBe("newer");
  });

  it("names what comes next once one is answered", () => {
    asks.take([
      anAsk("a", "s", { asked_at: 1 }),
      anAsk("b", "s", { asked_at: 2 }),
      anAsk("l", "s", { state: "later" }),
    ]);
    expect([asks.after("a")?.id, asks.after("b")?.id]).toEqual(["b", "a"]);
    asks.take([anAsk("b", "s", { state: "once" })]);
    expect([asks.after("a")?.id, asks.after("l")?.id]).toEqual(["l", "a"]);
  });
});

describe("an answer", () => {
  it("is given once, with its word, and what became of the ask stands at once", async () => {
    const ask = anAsk("a", "s");
    asks.take([ask]);
    const denied = { ...ask, state: "denied", note: "no", decided_at: 9 };
    host.call.mockResolvedValue({ ask: denied });
    const both = [asks.answer(ask, "deny", "no"), asks.answer(ask, "once")];
    expect(asks.busy.has("a")).toBe(true);
    expect(await Promise.all(both)).toEqual([true, false]);
    expect(host.call.mock.calls).toEqual([
      ["answer", { ask: "a", decision: "deny", note: "no", key: expect.any(String) }],
    ]);
    expect([asks.get("a"), asks.busy.size]).toEqual([denied, 0]);
  });

  it("that came too late is told with the one that stands, and the list is right", async () => {
    const ask = anAsk("a", "s");
    asks.take([ask]);
    kept = [{ ...ask, state: "denied", decided_at: 9 }];
    host.call.mockImplementation(async (cmd: string) => {
      if (cmd === "answer") throw new host.HostError("conflict", "a was answered already; the first answer stands.");
      return { asks: kept };
    });
    expect(await asks.answer(ask, "once")).toBe(false);
    expect([asks.problems.get("a"), ids(asks.open), asks.get("a")?.state]).toEqual([
      "Too late, your answer did not count: it was denied.",
      [],
      "denied",
    ]);
  });

  it("that failed is tried again under the same key; another answer has another", async () => {
    const ask = anAsk("a", "s");
    asks.take([ask]);
    host.call.mockRejectedValue(new host.HostError("store", "The disk is full."));
    for (const decision of ["once", "once", "deny"] as const) await asks.answer(ask, decision);
    const keys = host.call.mock.calls.map(([, args]) => args.key);
    expect([keys[0] === keys[1], keys[1] === keys[2], asks.problems.get("a"), asks.get("a")?.state]).toEqual([
      true,
      false,
      "Not decided. The disk is full.",
      "open",
    ]);
  });
});
