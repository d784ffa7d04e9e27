import { describe, expect, it } from "vitest";
import { anAsk, aSession, aTask } from "../test/views";
import type { SessionView } from "../wire";
import { ageOf, commandLine, figureOf, lineOf, markOf, titleOf } from "./words";

const MIN = 60_000;
const NOW = new Date(2026, 10, 18, 12, 0).getTime();

function said(change: Partial<SessionView>, expanded = false): string {
  const line = lineOf(aSession("s", change), expanded, NOW);
  const own = [line.word, line.rest].filter((part) => part !== "").join(" · ");
  const below = [line.below, line.needs].filter((part) => part !== "").join(", ");
  return [own, below].filter((part) => part !== "").join(" · ");
}

describe("the second line of a row", () => {
  const check = (change: Partial<SessionView>, words: string, expanded = false) =>
    it(words, () => expect(said(change, expanded)).toBe(words));
  check({ state: "running", detail: "writing phase.rs" }, "writing phase.rs");
  check({ state: "running" }, "running");
  check({ state: "starting" }, "starting");
  check({ state: "waiting", detail: "run a command", needs_you: 1 }, "needs you · run a command");
  check({ state: "failed", detail: "exit 101" }, "failed · exit 101");
  check({ state: "killed", stopped_by: "person" }, "stopped by you");
  check({ state: "killed", detail: "in its own words", stopped_by: "parent" }, "stopped by its parent");
  check(
    { state: "killed", detail: "its time limit of 5 s is over", stopped_by: "limit", task: "subagent-1" },
    "stopped by a limit · its time limit of 5 s is over",
  );
  check({ state: "killed" }, "stopped");
  check({ state: "interrupted" }, "interrupted · can resume");
  check({ state: "unverified", last_sign_at: NOW - 4 * MIN }, "unverified · no sign for 4 min");
  check({ state: "idle", live_below: 5, needs_you: 1 }, "idle · 5 run below, 1 needs you", true);
  check({ state: "running", detail: "waiting", live_below: 2 }, "waiting · 2 run below");
  check({ state: "running", detail: "waiting", live_below: 1 }, "waiting · 1 runs below");
  check({ state: "running", detail: "waits", live_below: 2 }, "waits", true);
  check({ state: "completed", detail: "completed" }, "completed");

  it("a command says how it ended once", () => {
    const of = (status: "completed" | "killed" | "failed", detail: string) =>
      commandLine(aTask("t", "s", { status, detail, killed_by: status === "killed" ? "person" : null }));
    expect(
      [of("completed", "exit 0"), of("killed", "its time limit is over"), of("failed", "exit 1")].map((l) => [
        l.word,
        l.rest,
      ]),
    ).toEqual([
      ["completed", "exit 0"],
      ["stopped by you", "its time limit is over"],
      ["failed", "exit 1"],
    ]);
  });
});

describe("a session that asks", () => {
  const line = (change: Partial<SessionView>, asks: number) => {
    const view = aSession("s", change);
    const own = Array.from({ length: asks }, (_, at) => anAsk(`a${at}`, "s"));
    const { word, tone, rest, needs } = lineOf(view, false, NOW, own);
    return [markOf(view, own), [word, rest].filter((part) => part !== "").join(" · "), tone, needs];
  };
  it("says how many more it asks, and those further down apart from its own", () => {
    expect(line({ state: "waiting", detail: "run a command", needs_you: 5 }, 3)).toEqual([
      "waiting",
      "needs you · run a command, 2 more",
      "waiting",
      "2 need you",
    ]);
  });
  it("has the diamond also when its call does not wait any more", () => {
    expect(line({ state: "interrupted", needs_you: 1 }, 1)).toEqual([
      "waiting",
      "needs you · run a command",
      "waiting",
      "",
    ]);
  });
  it("and works again is drawn as at work, and says that something needs the person", () => {
    expect(line({ state: "running", detail: "writing", needs_you: 2 }, 1)).toEqual([
      "running",
      "writing",
      null,
      "1 needs you",
    ]);
  });
});

describe("the figures of a row", () => {
  const check = (name: string, change: Partial<SessionView>, words: string) =>
    it(name, () => expect(ageOf(aSession("s", change), NOW)).toBe(words));
  const long = { asked_at: NOW - 64 * MIN, started_at: NOW - MIN };
  check("a run is counted to the coarse clock", { state: "running", asked_at: NOW - 6 * MIN }, "6 min");
  check("a rested branch has the length of all it did", { ...long, ended_at: NOW, rested_at: NOW }, "1 h 04");
  check("what runs below goes on with it", { ...long, ended_at: NOW - MIN, live_below: 1 }, "1 h 04");
  check("a root of another day has its day", { asked_at: 5, rested_at: new Date(2026, 10, 12).getTime() }, "Thu");
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
  expect([titleOf(view), lineOf(view, true, NOW).rest]).toEqual(["a bc", "one two"]);
});
