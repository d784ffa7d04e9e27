import { expect, it } from "vitest";
import { made } from "../test/made";
import type { SessionView, TaskView } from "../wire";
import { branchElapsed, ownElapsed } from "./figures";

const minutes = (n: number) => n * 60_000;

function ran(from: number, to: number, change: Partial<SessionView> = {}): SessionView {
  return made({ started_at: minutes(from), ended_at: minutes(to), ...change });
}

function command(from: number, status: TaskView["status"]): TaskView {
  return {
    id: "bash-1",
    kind: "bash",
    label: "l",
    owner: "s",
    child: null,
    status,
    detail: null,
    killed_by: null,
    started_at: minutes(from),
    settled_at: null,
  };
}

it("a branch worked as long as something of it did, never less than a part, and rests are not counted", () => {
  const now = minutes(60);
  const cases: [SessionView, SessionView[], TaskView[], string, string][] = [
    [made(), [], [], "", ""],
    [ran(10, 12), [], [], "2:00", "2:00"],
    // A child of an earlier turn ran longer than the last turn of its parent.
    [ran(30, 31), [ran(0, 20)], [], "1:00", "21:00"],
    [ran(10, 20), [ran(12, 15), ran(18, 25)], [], "10:00", "15:00"],
    [ran(10, 20), [ran(25, 0, { state: "running", ended_at: null })], [], "10:00", "45:00"],
    [ran(10, 20), [], [command(50, "running"), command(0, "completed")], "10:00", "20:00"],
    [made(), [ran(5, 6)], [], "", "1:00"],
  ];
  for (const [view, below, running, own, branch] of cases)
    expect([ownElapsed(view, now), branchElapsed(view, below, running, now)]).toEqual([own, branch]);
});
