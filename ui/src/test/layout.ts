// A transcript in a page without layout.

import { fireEvent, render } from "@testing-library/svelte";
import { tick } from "svelte";
import { type Mock, vi } from "vitest";
import type { AppState } from "../state/app.svelte";
import { SessionStore } from "../state/session.svelte";
import Transcript from "../transcript/Transcript.svelte";
import type { Frame, LiveView, Row, SessionView } from "../wire";
import { answer, made, row } from "./made";

export const HEIGHT = 600;
export const ITEM = 50;

/** A page without layout: every item is as high as any other, and elements are measured when they are observed. */
class Observer {
  static all = new Set<Observer>();
  #seen = new Set<Element>();
  #tell: ResizeObserverCallback;
  constructor(tell: ResizeObserverCallback) {
    this.#tell = tell;
    Observer.all.add(this);
  }
  observe(element: Element) {
    this.#seen.add(element);
    queueMicrotask(() => this.#measure([element]));
  }
  unobserve(element: Element) {
    this.#seen.delete(element);
  }
  disconnect() {
    this.#seen.clear();
  }
  #measure(elements: Element[]) {
    const entries = elements
      .filter((element) => this.#seen.has(element))
      .map((target) => {
        const height = target.classList.contains("scroll") || target.getAttribute("role") === "log" ? HEIGHT : ITEM;
        return { target, contentRect: { width: 600, height } } as unknown as ResizeObserverEntry;
      });
    if (entries.length > 0) this.#tell(entries, this as unknown as ResizeObserver);
  }
}

/** Gives every element its height, and time by hand: `settle` lets it pass. */
export function layOut(): void {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "requestAnimationFrame", "cancelAnimationFrame", "performance"],
  });
  vi.stubGlobal("ResizeObserver", Observer);
  for (const [name, value] of [
    ["offsetParent", document.body],
    ["offsetHeight", HEIGHT],
    ["clientHeight", HEIGHT],
  ] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => value });
  }
  Object.defineProperty(HTMLElement.prototype, "scrollHeight", {
    configurable: true,
    get(this: HTMLElement) {
      const inner = this.firstElementChild?.firstElementChild;
      return inner instanceof HTMLElement ? Number.parseFloat(inner.style.height) || 0 : 0;
    },
  });
  const tops = new WeakMap<HTMLElement, number>();
  Object.defineProperty(HTMLElement.prototype, "scrollTop", {
    configurable: true,
    get(this: HTMLElement) {
      return Math.min(tops.get(this) ?? 0, Math.max(0, this.scrollHeight - HEIGHT));
    },
    set(this: HTMLElement, top: number) {
      tops.set(this, Math.max(0, Math.min(top, this.scrollHeight - HEIGHT)));
      // As in a browser, the event comes later than the change.
      setTimeout(() => this.dispatchEvent(new Event("scroll")));
    },
  });
  HTMLElement.prototype.scrollTo = function (this: HTMLElement, to?: ScrollToOptions | number) {
    if (typeof to === "object" && to.top !== undefined) this.scrollTop = to.top;
  } as typeof HTMLElement.prototype.scrollTo;
  HTMLElement.prototype.scrollBy = function (this: HTMLElement, by?: ScrollToOptions | number) {
    if (typeof by === "object" && by.top !== undefined) this.scrollTop += by.top;
  } as typeof HTMLElement.prototype.scrollBy;
}

/** Lets everything that is due happen. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 12; i++) {
    await tick();
    await vi.advanceTimersByTimeAsync(16);
  }
}

/** Answers the pages of a log that holds `rows`. */
export function serve(call: Mock, rows: Row[]): void {
  call.mockImplementation(async (cmd: string, args: { before?: number; after?: number }) => {
    if (cmd !== "page") return {};
    const some =
      args.after !== undefined
        ? rows.filter((each) => each.n > (args.after ?? 0)).slice(0, 100)
        : rows.filter((each) => each.n < (args.before ?? Number.POSITIVE_INFINITY)).slice(-100);
    return { rows: some, first: rows[0]?.n ?? 0, last: rows.at(-1)?.n ?? 0 };
  });
}

/** Shows the transcript of a session. */
export async function shown(app: AppState, session: SessionView = made(), live: LiveView | null = null) {
  app.branches.put(session);
  const store = new SessionStore(session.id);
  const view = render(Transcript, { session, store, app });
  await store.load();
  if (live !== null) store.apply(frame([], live));
  await settle();
  return { store, session, ...view };
}

export const frame = (rows: Row[], live: LiveView | null = null): Frame => ({
  seq: 2,
  sessions: [],
  removed: [],
  tasks: [],
  asks: [],
  rows,
  live,
  status: null,
});
// By its attribute: a search by role walks the whole page.
export const log = () => document.querySelector<HTMLElement>("[role=log]") as HTMLElement;
export const words = () => log().textContent?.replace(/\s+/g, " ").trim() ?? "";
export const many = (count: number) => Array.from({ length: count }, (_, i) => row(i + 1, answer(`words ${i + 1}`)));

export async function scrollTo(top: number) {
  await fireEvent.wheel(log());
  log().scrollTop = top;
  await settle();
}
