import { expect, it } from "vitest";
import { ago, bytes, clock, cost, day, elapsed, folder, moment, times, tokens, took } from "./format";

const NOW = new Date(2026, 10, 18, 12, 0).getTime();

it("spans, figures and sums read as the design writes them", () => {
  expect([48_000, 359_000, 3_840_000, -5].map(elapsed)).toEqual(["48 s", "5 min", "1 h 04", "0 s"]);
  expect([6_000, 372_000, 3_849_000].map(clock)).toEqual(["0:06", "6:12", "1:04:09"]);
  expect([380, 9_960, 41_000, 75_000].map(took)).toEqual(["0.4 s", "10 s", "41 s", "1:15"]);
  expect([0, 840, 1_000, 9_940, 184_000, 999_600, 2_400_000].map(tokens)).toEqual([
    "",
    "840",
    "1k",
    "9.9k",
    "184k",
    "1M",
    "2.4M",
  ]);
  expect([cost(null), cost(0.61), cost(2.41, true), cost(0.004), cost(0)]).toEqual([
    "",
    "$0.61",
    "at least $2.41",
    "under $0.01",
    "$0.00",
  ]);
});

it("days and moments name the day only when it is another", () => {
  const at = (...date: [number, number, number, number]) => new Date(...date).getTime();
  const moments = [
    at(2026, 10, 18, 9),
    at(2026, 10, 17, 18),
    at(2026, 10, 15, 9),
    at(2026, 9, 2, 9),
    at(2025, 9, 2, 9),
  ];
  expect(moments.map((time) => day(time, NOW))).toEqual(["", "yesterday", "Sun", "2 Oct", "2 Oct 2025"]);
  expect(moment(moments[1] ?? 0, NOW)).toBe("yesterday 18:00");
});

it("the home folder reads as a tilde, and nothing else does", () => {
  expect(["/home/me/src", "/Users/me", "/home", "/srv/home/me"].map(folder)).toEqual([
    "~/src",
    "~",
    "/home",
    "/srv/home/me",
  ]);
});

it("figures read as people say them", () => {
  expect([300, 2000, 240_000, 7_200_000, 259_200_000].map(ago)).toEqual([
    "now",
    "2 s ago",
    "4 min ago",
    "2 h ago",
    "3 days ago",
  ]);
  expect([512, 32_000, 1_200_000].map(bytes)).toEqual(["512 B", "32 KB", "1.2 MB"]);
  expect([1, 2, 5].map(times)).toEqual(["once", "twice", "5 times"]);
});
