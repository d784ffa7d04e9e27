import { describe, expect, it } from "vitest";
import { aSession, aTask } from "../test/views";
import { Branches, NOTHING } from "./branch.svelte";

const used = (input: number, cost: number | null) => ({
  tokens: { input, output: 1, cached: 0, estimated: false, requests: 1 },
  cost,
});

describe("branches", () => {
  it("what was removed does not come back with what was read before", () => {
    const branches = new Branches();
    branches.put(aSession("root"));
    branches.put(aSession("child", { parent: "root" }));
    branches.remove("root");
    branches.put(aSession("root", { last_n: 9 }));
    branches.put(aSession("child", { parent: "root", last_n: 9 }));
    branches.putTask(aTask("t", "child"));
    expect([branches.sessions.size, branches.tasks.size, branches.roots()]).toEqual([0, 0, []]);
  });

  it("sums are those of the sessions, in whatever order these come and change", () => {
    const branches = new Branches();
    branches.put(aSession("grandchild", { parent: "child", root: "root", depth: 2, ...used(100, null) }));
    branches.put(aSession("child", { parent: "root", ...used(10, 0.5) }));
    branches.put(aSession("root", used(1, 0.25)));
    branches.put(aSession("child", { parent: "root", ...used(20, 0.75), last_n: 2 }));
    expect(branches.sums.get("root")).toEqual({
      input: 121,
      output: 3,
      requests: 3,
      estimated: 0,
      cost: 1,
      priced: 2,
      unpriced: 1,
    });
    branches.remove("child");
    expect(branches.sums.get("root")).toEqual({ ...NOTHING, input: 1, output: 1, requests: 1, cost: 0.25, priced: 1 });
    expect([...branches.sessions.keys()]).toEqual(["root"]);
  });

  it("an older view never replaces a newer one, and a settled task never lives again", () => {
    const branches = new Branches();
    branches.put(aSession("root", { title: "new", last_n: 9 }));
    branches.put(aSession("root", { title: "old", last_n: 8 }));
    branches.putTask(aTask("t", "root", { status: "completed", settled_at: 5 }));
    branches.putTask(aTask("t", "root"));
    expect(branches.sessions.get("root")?.title).toBe("new");
    expect(branches.tasks.get("t")?.status).toBe("completed");
  });

  it("siblings stand in the order in which they began, whatever order they come in", () => {
    const branches = new Branches();
    branches.put(aSession("b", { parent: "root", created_at: 2 }));
    branches.put(aSession("c", { parent: "root", created_at: 3 }));
    branches.put(aSession("a", { parent: "root", created_at: 1 }));
    expect(branches.childrenOf("root")).toEqual(["a", "b", "c"]);
  });

  it("a cycle of parents ends", () => {
    const branches = new Branches();
    branches.put(aSession("a", { parent: "b", ...used(1, null) }));
    branches.put(aSession("b", { parent: "a", ...used(1, null) }));
    expect(branches.lineage("a").length).toBeLessThan(3);
  });
});
