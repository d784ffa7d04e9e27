// What jsdom lacks and the window needs: sizes, media queries and modal dialogs.

import { cleanup, configure } from "@testing-library/svelte";
import { afterEach } from "vitest";

afterEach(() => cleanup());
configure({ getElementError: (message) => new Error(message ?? "not found") });

// The room that the window opens with.
globalThis.innerWidth = 1280;

const ROW = 40;
const VIEW = 800;

class Sizes implements ResizeObserver {
  #told: ResizeObserverCallback;
  constructor(told: ResizeObserverCallback) {
    this.#told = told;
  }
  observe(target: Element): void {
    const height = target.querySelector("[data-row]") !== null && target.children.length === 1 ? ROW : VIEW;
    const contentRect = { width: 300, height } as DOMRectReadOnly;
    const entry = { target, contentRect } as unknown as ResizeObserverEntry;
    queueMicrotask(() => this.#told([entry], this));
  }
  unobserve(): void {}
  disconnect(): void {}
}
globalThis.ResizeObserver = Sizes;

Object.defineProperty(HTMLElement.prototype, "offsetParent", { get: () => document.body });

globalThis.matchMedia = (media) =>
  ({ media, matches: false, addEventListener: () => {}, removeEventListener: () => {} }) as unknown as MediaQueryList;

globalThis.CSS ??= {} as typeof CSS;
CSS.escape ??= (text) => text.replace(/["\\]/g, "\\$&");

HTMLDialogElement.prototype.showModal = function showModal() {
  this.open = true;
  this.querySelector<HTMLElement>("[autofocus]")?.focus();
};
HTMLDialogElement.prototype.close = function close() {
  this.open = false;
};
HTMLCanvasElement.prototype.getContext = () => null;
Element.prototype.scrollTo = () => {};
Element.prototype.scrollIntoView = () => {};
