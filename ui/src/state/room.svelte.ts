// How much room the window has, counted in the reader's own text size: large text folds the panes just as a small
// window does.

/** Under this many rem the tree folds to a rail. */
const NARROW = 48;
/** Under this many rem the inspector folds to a strip. */
const TIGHT = 66;

export class Room {
  narrow = $state(false);
  tight = $state(false);

  constructor() {
    this.measure();
    addEventListener("resize", () => this.measure());
  }

  /** Looks again: the window or its text has another size. */
  measure(): void {
    const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
    this.narrow = innerWidth < NARROW * rem;
    this.tight = innerWidth < TIGHT * rem;
  }
}
