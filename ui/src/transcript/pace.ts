/** The least and the most time between two renderings of what streams, in milliseconds. */
const LEAST = 33;
const MOST = 100;

/** Spaces out renderings: at most one per frame and per 33 ms, further apart the more each costs. */
export class Pace {
  #due: number | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #last = 0;
  #cost = 0;

  /** Renders in the next frame that is due; asked again before that, only once. */
  ask(render: () => void): void {
    if (this.#due !== null || this.#timer !== null) return;
    const wait = this.#last + Math.min(MOST, Math.max(LEAST, this.#cost * 4)) - performance.now();
    const frame = () => {
      this.#timer = null;
      this.#due = requestAnimationFrame(() => {
        this.#due = null;
        this.#last = performance.now();
        render();
        this.#cost = performance.now() - this.#last;
      });
    };
    // A timer that ends a little early still finds its frame in time.
    if (wait <= 8) frame();
    else this.#timer = setTimeout(frame, wait - 8);
  }

  cancel(): void {
    if (this.#due !== null) cancelAnimationFrame(this.#due);
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#due = null;
    this.#timer = null;
  }
}
