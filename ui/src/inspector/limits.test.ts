import { expect, test } from "vitest";
import type { Limits } from "../wire";
import { changed } from "./limits";

const now = { tokens: 150_000, wall_clock_s: 0, children: 200, live_children: 16 } as Limits;
const fields = { tokens: "150000", wall_clock_s: "0", children: "200", live_children: "16" };

test("only what differs is sent, in the units of the wire", () => {
  expect(changed(fields, now)).toEqual({});
  expect(changed({ ...fields, tokens: "300,000", wall_clock_s: "1.5" }, now)).toEqual({
    tokens: 300_000,
    wall_clock_s: 90,
  });
  expect(changed({ ...fields, children: "" }, now)).toEqual({ children: 0 });
});

test("what is no number is not sent", () => {
  for (const text of ["many", "-1", "1e99", "NaN"]) expect(changed({ ...fields, tokens: text }, now)).toBe(null);
});
