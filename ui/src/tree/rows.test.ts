import { describe, expect, it } from "vitest";
import { Branches } from "../state/branch.svelte";
import { aSession, aTask } from "../test/views";
import type { SessionView } from "../wire";
import { buildRows, type Choices, type TreeRow } from "./rows";

const all: Choices = { expanded: () => true, unfolded: () => false, keep: () => false, shown: () => true };

function draw(rows: readonly TreeRow[]): string[] {
  return rows.map((row) => {
    const rails = row.rails.map((rail) => ({ none: " ", still: "|", live: "‖" })[rail]).join("");
    const bow =
      row.depth === 0 ? "" : `${row.above === "live" ? "=" : "-"}${{ none: ".", still: "|", live: "‖" }[row.below]}`;
    return `${rails}${bow}${row.key} ${row.posinset}/${row.setsize}`;
  });
}

function tree(...views: SessionView[]): Branches {
  const branches = new Branches();
  for (const view of views) branches.put(view);
  return branches;
}

describe("the rows of the tree", () => {
  it("a stem is green as far as something lives below it, and grey after that", () => {
    const branches = tree(
      aSession("root", { live_below: 3 }),
      aSession("a", { parent: "root", created_at: 1, live_below: 1 }),
      aSession("a1", { parent: "a", root: "root", depth: 2, created_at: 2, state: "running" }),
      aSession("b", { parent: "root", created_at: 3, state: "running" }),
      aSession("c", { parent: "root", created_at: 4, state: "completed" }),
    );
    branches.putTask(aTask("cmd", "root", { started_at: 9, status: "completed", settled_at: 10 }));
    expect(draw(buildRows(branches, all))).toEqual([
      "s:root 1/1",
      "=‖s:a 1/4",
      "‖=.s:a1 1/1",
      "=|s:b 2/4",
      "-|s:c 3/4",
      "-.t:cmd 4/4",
    ]);
  });

  it("what is closed hides its rows and draws no stem", () => {
    const branches = tree(aSession("root"), aSession("a", { parent: "root", state: "running" }));
    const rows = buildRows(branches, { ...all, expanded: () => false });
    expect(rows.map((row) => row.is === "session" && [row.key, row.parted, row.expanded, row.stem])).toEqual([
      ["s:root", true, false, "none"],
    ]);
  });

  it("more than seven settled siblings fold into one row, save those that are kept", () => {
    const done = Array.from({ length: 9 }, (_, index) =>
      aSession(`d${index}`, { parent: "root", created_at: index, state: "completed" }),
    );
    const branches = tree(
      aSession("root"),
      ...done,
      aSession("live", { parent: "root", created_at: 20, state: "running" }),
    );
    const keep = (view: SessionView) => view.id === "d3";
    expect(draw(buildRows(branches, { ...all, keep }))).toEqual([
      "s:root 1/1",
      "=‖f:s:root 1/3",
      "=‖s:d3 2/3",
      "=.s:live 3/3",
    ]);
    const open = buildRows(branches, { ...all, keep, unfolded: () => true });
    expect(open.map((row) => row.key)).toEqual(["s:root", "f:s:root", ...done.map((view) => `s:${view.id}`), "s:live"]);
    expect(buildRows(tree(aSession("root"), ...done.slice(0, 7)), all)).toHaveLength(8);
  });

  it("what is in the archive folds behind all its siblings, at the top as below", () => {
    const branches = tree(
      aSession("old", { created_at: 1, archived: true }),
      aSession("root", { created_at: 2, live_below: 1 }),
      aSession("a", { parent: "root", created_at: 3, state: "completed", archived: true }),
      aSession("b", { parent: "root", created_at: 4, state: "running" }),
      aSession("new", { created_at: 5 }),
    );
    expect(draw(buildRows(branches, all))).toEqual([
      "s:root 1/3",
      "=|s:b 1/2",
      "-.x:s:root 2/2",
      "s:new 2/3",
      "x: 3/3",
    ]);
    const open = buildRows(branches, { ...all, unfolded: () => true });
    expect(open.map((row) => row.key)).toEqual(["s:root", "s:b", "x:s:root", "s:a", "s:new", "x:", "s:old"]);
    expect(open.flatMap((row) => (row.is === "fold" ? [[row.of, row.count]] : []))).toEqual([
      ["archived", 1],
      ["archived", 1],
    ]);
  });
});
