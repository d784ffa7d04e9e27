import { describe, expect, it } from "vitest";
import { aSession, aTask } from "../test/views";
import type { Party, SessionView } from "../wire";
import { ageOf, commandLine, figureOf, lineOf, titleOf } from "./words";

const MIN = 60_000;
const NOW = new Date(2026, 10, 18, 12, 0).getTime();

function said(change: Partial<SessionView>, by: Party | null = null, expanded = false): string {
  const line = lineOf(aSession("s", change), by, expanded, NOW);
  const own = [line.word, line.rest].filter((part) => part !== "").join(" · ");
  const below = [line.below, line.needs].filter((part) => part !== "").join(", ");
  return [own, below].filter((part) => part !== "").join(" · ");
}

describe("the second line of a row", () => {
  const check = (change: Partial<SessionView>, words: string, by: Party | null = null, expanded = false) =>
    it(words, () => expect(said(change, by, expanded)).toBe(words));
  check({ state: "running", detail: "writing phase.rs" }, "writing phase.rs");
  check({ state: "running" }, "running");
  check({ state: "starting" }, "starting");
  check({ state: "waiting", detail: "run a command", needs_you: 1 }, "needs you · run a command");
  check({ state: "failed", detail: "exit 101" }, "failed · exit 101");
  check({ state: "killed" }, "stopped by you", "person");
  check({ state: "killed", detail: "stopped by its parent" }, "stopped by its parent");
  check({ state: "killed" }, "stopped by a limit", "limit");
  check({ state: "interrupted" }, "interrupted · can resume");
  check({ state: "unverified", last_sign_at: NOW - 4 * MIN }, "unverified · no sign for 4 min");
  check({ state: "idle", live_below: 5, needs_you: 1 }, "idle · 5 run below, 1 needs you", null, true);
  check({ state: "running", detail: "waiting", live_below: 2 }, "waiting · 2 run below");
  check({ state: "running", detail: "waits", live_below: 2 }, "waits", null, true);
  check({ state: "completed", detail: "completed" }, "completed");

  it("a command says how it ended once", () => {
    const of = (status: "completed" | "killed" | "failed", detail: string) =>
      commandLine(aTask("t", "s", { status, detail, killed_by: status === "killed" ? "person" : null }));
    expect(
      [of("completed", "exit 0"), of("killed", "stopped"), of("failed", "exit 1")].map((l) => [l.word, l.rest]),
    ).toEqual([
      ["completed", "exit 0"],
      ["stopped by you", ""],
      ["failed", "exit 1"],
    ]);
  });
});

describe("the figures of a row", () => {
  const check = (name: string, change: Partial<SessionView>, words: string) =>
    it(name, () => expect(ageOf(aSession("s", change), NOW)).toBe(words));
  check("a run is counted to the coarse clock", { state: "running", started_at: NOW - 6 * MIN }, "6 min");
  check("a settled run has its length", { state: "failed", started_at: NOW - 64 * MIN, ended_at: NOW }, "1 h 04");
  check("a root of another day has its day", { started_at: 5, ended_at: new Date(2026, 10, 12).getTime() }, "Thu");
  check("nothing before the first turn", { last_sign_at: NOW }, "");

  it("a closed parent shows its branch, and none is an empty cell", () => {
    const view = aSession("s", { tokens: { input: 90_000, output: 6_000, cached: 0, estimated: false, requests: 3 } });
    const sum = { input: 800_000, output: 58_000, requests: 9, estimated: 0, cost: 0, priced: 0, unpriced: 1 };
    expect([figureOf(view, sum, true), figureOf(view, sum, false), figureOf(aSession("e"), sum, false)]).toEqual([
      "Σ 858k",
      "96k",
      "",
    ]);
  });
});

it("what models wrote is shown as one line of plain words", () => {
  const view = aSession("s", { state: "running", title: "a\n\u202eb\u001b[31mc", detail: "one\ntwo\u2066" });
  expect([titleOf(view), lineOf(view, null, true, NOW).rest]).toEqual(["a bc", "one two"]);
});
