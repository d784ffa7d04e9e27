import { expect, it } from "vitest";
import { made } from "../test/made";
import type { SessionView } from "../wire";
import { elapsedOf, ownElapsed } from "./figures";

const minutes = (n: number) => n * 60_000;

it("a branch takes from when it was asked until all of it rests, and its own turns are a part of that", () => {
  const now = minutes(60);
  const asked = { asked_at: minutes(10), started_at: minutes(30), worked_ms: minutes(5) };
  const cases: [string, Partial<SessionView>, string, string][] = [
    ["before the first", {}, "", ""],
    ["asked, no turn yet", { asked_at: minutes(59), state: "starting" }, "", "1:00"],
    ["its turn runs", { ...asked, state: "running" }, "35:00", "50:00"],
    ["its children run", { ...asked, ended_at: minutes(31), live_below: 2 }, "5:00", "50:00"],
    ["all of it rests", { ...asked, ended_at: minutes(31), rested_at: minutes(32) }, "5:00", "22:00"],
    ["asked, and never begun", { asked_at: minutes(10) }, "", ""],
  ];
  for (const [name, change, own, branch] of cases) {
    const view = made(change);
    expect([ownElapsed(view, now), elapsedOf(view, now)], name).toEqual([own, branch]);
  }
});
