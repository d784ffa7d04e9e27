import { describe, expect, it } from "vitest";
import { anAsk } from "../test/views";
import type { AskView } from "../wire";
import { diffOf } from "./diff";
import { allowedOf, becameOf, beforeOf, deedOf, exactOf, followedOf, pausedOf, questionOf, waitedFor } from "./words";

const NOW = new Date(2026, 10, 18, 12, 0).getTime();
const write: AskView["action"] = { kind: "write", path: "a.rs", diff: "" };
const read: AskView["action"] = { kind: "read", path: "/etc" };
const run: AskView["action"] = { kind: "command", text: "make", background: false };
const child = [
  { id: "r", title: "Release" },
  { id: "s", title: "Dry run" },
];

it("says what it would do, and asks whether it may", () => {
  expect([run, write, read].map((action) => [deedOf(action), questionOf(action), exactOf(action)])).toEqual([
    ["Run a command", "May it run this command?", "make"],
    ["Write a file", "May it write this file?", "a.rs"],
    ["Read a file or folder", "May it read this?", "/etc"],
  ]);
});

describe("how long it waits, and what stands still", () => {
  const check = (change: Partial<AskView>, words: string) =>
    it(words, () => expect(pausedOf(anAsk("a", "s", { asked_at: NOW - 80_000, ...change }), NOW, NOW)).toBe(words));
  check({ lineage: child }, "Asked 1:20 ago. Only this child is paused.");
  check({}, "Asked 1:20 ago. Only this session is paused.");
  check({ state: "later", lineage: child }, "Asked 1:20 ago. You put it off, and this child stays paused.");
  check(
    { waits: false },
    "Asked 11:58. Coppice was closed since, so its call does not wait any more; your answer wakes it.",
  );

  it("counts seconds in the first hour only", () => {
    const of = (ms: number) => waitedFor(anAsk("a", "s", { asked_at: NOW - ms }), NOW);
    expect([of(34_000), of(9_000_000), of(3 * 86_400_000)]).toEqual(["0:34", "2 h 30", "3 days"]);
  });
});

it("spells out what an answer for more than one call allows, by where a path really leads", () => {
  expect([
    allowedOf({ kind: "command", text: "make" }, "/w"),
    allowedOf({ kind: "write", path: "/etc/real\u202e" }, "/home/me/x"),
    allowedOf({ kind: "read", path: "/etc" }, "/w"),
  ]).toEqual([
    "exactly this command in this folder",
    "writing /etc/real⟨U+202E⟩, whatever the change, from ~/x",
    "reading /etc from /w",
  ]);
});

it("says what became of it, and what followed", () => {
  const of = (change: Partial<AskView>) => {
    const ask = anAsk("a", "s", change);
    return [becameOf(ask.state).words, followedOf(ask)];
  };
  expect([
    of({ state: "once" }),
    of({ state: "once", owed: true }),
    of({ state: "branch", used: 4 }),
    of({ state: "always" }),
    of({ state: "denied", note: "no" }),
    of({ state: "withdrawn", note: "its call was stopped" }),
  ]).toEqual([
    ["Allowed once", ""],
    ["Allowed once", "not used yet"],
    ["Allowed for the branch", "used 4 times since"],
    ["Always allowed", ""],
    ["Denied", ""],
    ["Taken back", "its call was stopped"],
  ]);
});

it("tells what was decided before about the same", () => {
  const before = anAsk("b", "s", { state: "branch", decided_at: NOW - 60_000, used: 2 });
  expect(beforeOf(before, NOW)).toBe("The same, allowed for the branch by you, 11:59, used twice since");
});

describe("a change", () => {
  it("has its lines numbered by the file as it would be, and those that go by the file as it is", () => {
    const diff = diffOf("@@ -3,3 +3,3 @@\n a\n-b\n+c\n d\n@@ -20 +20 @@\n-x\n\\ No newline at end of file\n+y\n");
    expect(diff.lines.map((line) => `${line.is} ${line.number ?? ""} ${line.text}`.trim())).toEqual([
      "same 3 a",
      "del 4 b",
      "add 4 c",
      "same 5 d",
      "gap",
      "del 20 x",
      "note  No newline at end of file",
      "add 20 y",
    ]);
    expect([diff.added, diff.removed, diff.more]).toEqual([2, 2, false]);
  });

  it("that was cut says so, and no line of a file can say it", () => {
    const cut = "... (the diff goes on)";
    expect([diffOf(`@@ -1 +1 @@\n+a\n${cut}\n`).more, diffOf(`@@ -1 +1 @@\n+${cut}\n+@@ -9 +9 @@\n`)]).toEqual([
      true,
      {
        lines: [
          { is: "add", number: 1, text: cut },
          { is: "add", number: 2, text: "@@ -9 +9 @@" },
        ],
        added: 2,
        removed: 0,
        more: false,
      },
    ]);
  });
});
