/** How long after the end of a composition an Enter still belongs to it, in milliseconds. */
const AFTER_COMPOSITION = 50;
/** The code of a key that an input method has taken. */
const TAKEN = 229;

/** Knows whether an input method composes, in the order of events of every engine. */
export class Composition {
  #on = false;
  #ended = Number.NEGATIVE_INFINITY;

  start(): void {
    this.#on = true;
  }

  end(at: number): void {
    this.#on = false;
    this.#ended = at;
  }

  /**
   * Whether a key belongs to the input method. WebKit ends the composition before it tells of the Enter that ended
   * it, and that Enter says neither that it composes nor always that it was taken.
   */
  takes(event: KeyboardEvent): boolean {
    if (event.isComposing || this.#on || event.keyCode === TAKEN) return true;
    const just = event.timeStamp - this.#ended;
    return just >= 0 && just < AFTER_COMPOSITION;
  }
}

/** The most lines that the box shows before it scrolls. */
const MOST_REM = 14;

/** Makes a text area as high as its words, without the help of the engine. */
export function grow(area: HTMLTextAreaElement): void {
  const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
  area.style.height = "auto";
  const height = Math.min(area.scrollHeight, MOST_REM * rem);
  area.style.height = `${height}px`;
  area.style.overflowY = area.scrollHeight > height + 1 ? "auto" : "hidden";
}

/** Keeps a text area as high as its words while its width changes. */
export function growing(area: HTMLTextAreaElement): () => void {
  let width = area.clientWidth;
  const sizes = new ResizeObserver(() => {
    if (area.clientWidth === width) return;
    width = area.clientWidth;
    grow(area);
  });
  sizes.observe(area);
  return () => sizes.disconnect();
}

/** A click anywhere in the box around a text area goes to its text, unless it meets a control or marks words. */
export function intoText(box: HTMLElement): () => void {
  const click = (event: MouseEvent) => {
    const on = event.target instanceof Element ? event.target.closest("button, label, select, textarea") : null;
    if (on === null && document.getSelection()?.type !== "Range") box.querySelector("textarea")?.focus();
  };
  box.addEventListener("click", click);
  return () => box.removeEventListener("click", click);
}
