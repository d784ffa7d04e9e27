import { render, screen, waitFor } from "@testing-library/svelte";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, it, vi } from "vitest";
import { AppState } from "../state/app.svelte";
import { expectAccessible } from "../test/axe";
import { aSession } from "../test/views";
import type { Mode } from "../wire";
import ModeMenu from "./ModeMenu.svelte";

const host = vi.hoisted(() => ({ call: vi.fn(), watch: vi.fn(async () => 1), quit: vi.fn() }));
vi.mock("../host", () => ({ ...host, HostError: Error, isRace: () => false, mintKey: () => "key" }));

let app: AppState;
beforeEach(() => {
  localStorage.clear();
  host.call.mockReset();
  host.call.mockResolvedValue({});
  app = new AppState();
});

function show(mode: Mode, parent: Mode | null = null): void {
  if (parent !== null) app.branches.put(aSession("p", { mode: parent }));
  const session = aSession("s", { mode, parent: parent === null ? null : "p", title: "Dry run" });
  app.branches.put(session);
  render(ModeMenu, { session, app });
}

const marker = () => screen.getByRole("button", { name: /Permissions/ });
const items = () => screen.getAllByRole("menuitemradio");

it("is always in view, and full access stands out", async () => {
  show("full");
  expect([marker().textContent?.trim(), marker().classList.contains("full")]).toEqual(["full access", true]);
  show("ask", null);
  await expectAccessible();
});

it("is changed by the keyboard, and only by a choice", async () => {
  show("ask");
  await userEvent.click(marker());
  expect(document.activeElement?.textContent).toContain("asks first");
  await expectAccessible();
  await userEvent.keyboard("{ArrowDown}{ArrowDown}");
  expect(host.call).not.toHaveBeenCalled();
  await userEvent.keyboard("{Escape}");
  expect([screen.queryByRole("menu"), document.activeElement]).toEqual([null, marker()]);
  await userEvent.click(marker());
  await userEvent.keyboard("{ArrowDown}{Enter}");
  await waitFor(() => expect(app.live.sentence).toBe("Dry run: edits freely."));
  expect(host.call.mock.calls).toEqual([["set_mode", { session: "s", mode: "accept-edits", key: "key" }]]);
});

it("of a child goes as far as its parent's, whatever it is set to", async () => {
  show("full", "ask");
  expect(marker().textContent?.trim()).toBe("asks first");
  await userEvent.click(marker());
  expect(items().map((item) => [item.getAttribute("aria-checked"), item.getAttribute("aria-disabled")])).toEqual([
    ["false", "false"],
    ["true", "false"],
    ["false", "true"],
    ["false", "true"],
  ]);
  expect(items()[3]?.textContent).toContain("More than its parent may do.");
  await userEvent.click(items()[2] as HTMLElement);
  await userEvent.keyboard("{End}{Enter}");
  expect([host.call.mock.calls, items().length]).toEqual([[], 4]);
});

it("that was refused is told", async () => {
  show("ask");
  host.call.mockRejectedValue(new Error("A child may not do more than its parent. Nothing was changed."));
  await app.setMode("s", "full");
  expect([app.line, app.live.sentence]).toEqual([
    expect.stringContaining("A child may not do more than its parent. Nothing was changed."),
    expect.stringContaining("A child may not do more than its parent. Nothing was changed."),
  ]);
});
