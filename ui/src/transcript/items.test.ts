import { describe, expect, it } from "vitest";
import { answer, message, result, row, tool } from "../test/made";
import type { LiveView, MessageReceipt, Row } from "../wire";
import { type Item, itemsOf } from "./items";
import { aheadOf, anchorIndex } from "./reading";
import { factsOf, receiptLine, verbOf } from "./verbs";

const summary = (items: Item[]) =>
  items.map((item) => `${item.tight ? "|" : " "}${item.step.padStart(3)} ${item.is} ${item.key}`);

describe("rows become items", () => {
  it("a stop is told once: by its receipt, where there is one", () => {
    const stopped = (n: number) => row(n, { kind: "turn_end", end: "stopped", by: "person", detail: "stopped by you" });
    const receipt = (n: number, what: string) =>
      row(n, {
        kind: "decision",
        receipt: {
          what,
          label: "Port",
          by: "person",
          ended: [{ kind: "turn", id: "s", label: "Port" }],
          kept: [],
          processes: [],
          unconfirmed: [],
          ms: 900,
        },
      });
    const keys = (rows: Row[]) => itemsOf(rows, null, []).map((item) => item.key);
    expect(keys([stopped(1), receipt(2, "branch")])).toEqual(["2:0"]);
    expect(keys([stopped(1), receipt(2, "task")])).toEqual(["1:0", "2:0"]);
    expect(keys([stopped(1), row(2, message("go on")), receipt(3, "turn")])).toEqual(["1:0", "2:0", "3:0"]);
  });

  it("a message stands where it was read, below the steps that did not know of it", () => {
    const steer = (n: number, receipt: MessageReceipt) => row(n, { kind: "message", text: "look twice", receipt });
    const read = (n: number, step: number) => steer(n, { is: "admitted", step, route: "steered" });
    const keys = (rows: Row[], live: LiveView | null = null) => itemsOf(rows, live, []).map((item) => item.key);
    const [third, fourth] = [row(3, answer("three"), 3), row(5, answer("four"), 4)];
    expect(keys([read(2, 4), third, fourth])).toEqual(["3:0", "2:0", "5:0"]);
    expect(keys([row(1, answer("two"), 2), read(2, 3), third])).toEqual(["1:0", "2:0", "3:0"]);
    expect(keys([read(1, 4), read(2, 4), third, fourth])).toEqual(["3:0", "1:0", "2:0", "5:0"]);
    expect(keys([steer(2, { is: "accepted" }), third])).toEqual(["3:0", "2:0"]);
    const live = {
      at: 1,
      step: 3,
      blocks: [{ type: "text" as const, name: null, delegates: false, from: 0, text: "th" }],
      calls: [],
    };
    expect(keys([steer(2, { is: "accepted" })], live)).toEqual(["live:3:0", "2:0"]);
    expect(keys([steer(2, { is: "deferred", reason: "stopped" }), third])).toEqual(["2:0", "3:0"]);
  });

  it("merges neighbouring looks that went well, and numbers steps where they begin", () => {
    const rows = [
      row(1, message("do it", 1)),
      row(2, tool("read_file", "a"), 1),
      row(2, tool("read_file", "b"), 1, 1),
      row(3, tool("grep", "x"), 2),
      row(4, tool("read_file", "gone", result("no such file", { ok: false })), 3),
      row(5, tool("read_file", "c", null), 3),
      row(6, answer("Done"), 4),
      row(7, tool("bash", "make"), 4),
      row(8, { kind: "turn_end", end: "completed", by: null, detail: null }),
    ];
    expect(summary(itemsOf(rows, null, []))).toEqual([
      "     row 1:0",
      " 1–2 calls 2:0",
      "|  3 call 4:0",
      "|    call 5:0",
      "   4 row 6:0",
      "     call 7:0",
    ]);
  });

  it("puts what streams and what is not in the log yet at the end", () => {
    const live = {
      at: 1,
      step: 5,
      blocks: [
        { type: "thinking" as const, name: null, delegates: false, from: 0, text: "hm" },
        { type: "text" as const, name: null, delegates: false, from: 0, text: "" },
        { type: "tool_call" as const, name: "bash", delegates: false, from: 0, text: "" },
      ],
      calls: [],
    };
    const unsent = [{ key: "k", text: "hello", at: 1, accepted: false }];
    expect(summary(itemsOf([row(1, answer("a"), 4)], live, unsent))).toEqual([
      "   4 row 1:0",
      "   5 writing live:5:0",
      "|    writing live:5:2",
      "     unsent unsent:k",
    ]);
  });

  it("keeps the key of a merged row while it grows at its end", () => {
    const rows = [row(1, tool("read_file", "a"), 1), row(2, tool("read_file", "b"), 2)];
    expect(itemsOf(rows.slice(0, 1), null, [])[0]?.key).toBe(itemsOf(rows, null, [])[0]?.key);
  });
});

describe("a place is kept", () => {
  const list = (from: number, to: number) =>
    itemsOf(
      Array.from({ length: to - from }, (_, i) => row(from + i, answer("a"))),
      null,
      [],
    );
  const cases: [string, ReturnType<typeof aheadOf>, ReturnType<typeof aheadOf>][] = [
    ["nothing before", aheadOf([], list(1, 3)), { shift: false, both: false, anchor: null }],
    ["appended", aheadOf(list(3, 5), list(3, 7)), { shift: false, both: false, anchor: null }],
    ["older rows came", aheadOf(list(3, 5), list(1, 5)), { shift: true, both: false, anchor: null }],
    ["the oldest went", aheadOf(list(1, 5), list(3, 5)), { shift: true, both: false, anchor: null }],
    ["both at once", aheadOf(list(3, 5), list(1, 7)), { shift: false, both: true, anchor: 2 }],
  ];
  it.each(cases)("%s", (_, got, wanted) => expect(got).toEqual(wanted));

  it("the anchor's row may have merged into one before it", () => {
    const items = itemsOf(
      [row(1, answer("a")), row(2, tool("read_file", "a")), row(3, tool("read_file", "b")), row(4, answer("b"))],
      null,
      [],
    );
    expect([1, 2, 3, 4, 9].map((n) => anchorIndex(items, { n, part: 0, offset: 0 }))).toEqual([0, 1, 1, 2, 2]);
  });
});

describe("a call says what it came to", () => {
  const factsFor = (name: string, done: ReturnType<typeof result>) =>
    factsOf(tool(name, "t", done) as unknown as Extract<Row, { kind: "tool" }>)
      .map((fact) => (fact.voice === undefined ? fact.text : `${fact.voice}:${fact.text}`))
      .join(" ");
  const cases: [string, ReturnType<typeof result>, string][] = [
    ["bash", result("", { detail: { exit: 0 }, ms: 41_000 }), "exit 0 41 s"],
    ["bash", result("", { ok: false, detail: { exit: 101 }, ms: 400 }), "bad:exit 101 0.4 s"],
    ["bash", result("", { ok: false, detail: null, ms: 400 }), "bad:failed 0.4 s"],
    ["bash", result("", { ok: false, detail: { exit: null, cut_off: true }, ms: 400 }), "cut off 0.4 s"],
    ["bash", result("", { detail: { exit: 0, masked: 2 }, ms: 400 }), "exit 0 2 secrets were masked 0.4 s"],
    ["read_file", result("", { detail: { lines: 3, masked: 1 } }), "3 lines 1 secret was masked"],
    ["edit_file", result("", { detail: { added: 42, removed: 16 } }), "add:+42 del:−16"],
    ["write_file", result("", { detail: { added: 190, removed: 0 } }), "add:+190"],
    ["read_file", result("", { detail: { lines: 418, added: 0, removed: 0 } }), "418 lines"],
    ["grep", result("", { detail: { hits: 1 } }), "1 hit"],
    ["something", result("", { detail: { exit: "<b>" } }), "0.4 s"],
    ["something", result("", { detail: { exit: Number.NaN } }), "0.4 s"],
  ];
  it.each(cases)("%s %o", (name, done, wanted) => expect(factsFor(name, done)).toBe(wanted));

  it("an unknown tool is called by its name, also when it is named like a built-in", () => {
    expect(verbOf("constructor").did).toBe("Used constructor");
    expect(verbOf("subagent_fork").did).toBe("Used subagent_fork");
    expect(verbOf("hand_over", true).does, "whatever it is called").toBe("Delegating");
  });
});

it("a receipt says in one line who asked, and what was not proven", () => {
  const receipt = {
    what: "branch",
    label: "x",
    by: "person" as const,
    ended: [
      { kind: "turn", id: "s", label: "x" },
      { kind: "task", id: "bash-1", label: "make" },
    ],
    kept: [],
    processes: [
      { pid: 1, started_at: 0, gone: true },
      { pid: 2, started_at: 0, gone: false },
    ],
    unconfirmed: ["process 2 gave no answer"],
    ms: 1400,
  };
  expect(receiptLine(receipt)).toBe("by you · 1 of 2 gone · 1 unconfirmed");
});
