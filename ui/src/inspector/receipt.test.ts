import { describe, expect, it } from "vitest";
import type { Receipt, ReceiptItem } from "../wire";
import { endsNothing, previewWords, proofs, receiptTitle } from "./receipt";

const item = (kind: string, id = kind): ReceiptItem => ({ kind, id, label: id });
const receipt = (change: Partial<Receipt>): Receipt => ({
  what: "turn",
  label: "Port the solver",
  by: "person",
  ended: [item("turn")],
  kept: [],
  processes: [],
  unconfirmed: [],
  ms: 800,
  ...change,
});

describe("a preview names what would end", () => {
  const check = (change: Partial<Receipt>, words: string) =>
    it(words, () => expect(previewWords(receipt(change), (id) => (id === "far" ? "two" : "one"))).toBe(words));
  check({ kept: [item("child"), item("task")] }, "Ends 1. The 2 below keep running.");
  check({ kept: [item("child")] }, "Ends 1. The 1 below keeps running.");
  check(
    { what: "branch", ended: [item("turn"), item("child"), item("task")] },
    "Ends 3: this turn, 1 child, 1 command.",
  );
  check({ what: "branch", ended: [item("child", "a"), item("child", "b")] }, "Ends 2: 2 children.");
  check({ what: "everything", ended: [item("turn"), item("turn", "far")] }, "Ends 2 in 2 sessions.");
  check({ ended: [] }, "No turn runs here.");
  check({ what: "branch", ended: [] }, "Nothing runs in this branch.");
  check({ what: "everything", ended: [] }, "Nothing runs.");
  const left = [4, 5].map((pid) => ({ pid, started_at: 1, gone: false }));
  check({ what: "branch", ended: [], processes: left }, "Ends 2 processes that finished work left behind.");
  check(
    { ended: [], processes: left.slice(1), kept: [item("task")] },
    "Ends 1 process that finished work left behind. The 1 below keeps running.",
  );

  it("and ends nothing only where neither work nor a process lives", () => {
    const ends = (change: Partial<Receipt>) => endsNothing(receipt(change));
    expect([endsNothing(undefined), ends({}), ends({ ended: [], processes: left }), ends({ ended: [] })]).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });
});

describe("a receipt proves what ended", () => {
  it("names processes and what is left to confirm", () => {
    const processes = [4, 5].map((pid) => ({ pid, started_at: 1, gone: true }));
    expect(proofs(receipt({ processes }))).toEqual([
      { sure: true, text: "Asked to end, gone in 0.8 s" },
      { sure: true, text: "2 of 2 processes seen gone", pids: "4 5" },
      { sure: true, text: "Nothing left to confirm" },
    ]);
  });

  it("of a stop that came too late says so, and once", () => {
    const late = receipt({ ended: [] });
    expect(receiptTitle(late)).toBe("Nothing to stop");
    expect(proofs(late).map(({ text }) => text)).toEqual(["Nothing ran that it could end"]);
  });

  it("never claims what it could not see", () => {
    const open = receipt({ processes: [{ pid: 4, started_at: 1, gone: false }], unconfirmed: ["It gave no answer"] });
    expect(receiptTitle(open)).toBe("Stopped, one part unconfirmed");
    expect(proofs(open).map(({ sure, text }) => [sure, text])).toEqual([
      [true, "Asked to end, gone in 0.8 s"],
      [false, "0 of 1 process seen gone"],
      [false, "It gave no answer"],
    ]);
  });
});
