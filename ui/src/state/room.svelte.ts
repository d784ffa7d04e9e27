// How much room the window has. Media queries count em of the reader's own text size, so large text folds the panes
// just as a small window does.

export class Room {
  /** Under 48rem the tree folds to a rail. */
  narrow = $state(false);
  /** Under 66rem the inspector folds to a strip. */
  tight = $state(false);

  constructor() {
    this.#follow("(max-width: 47.99em)", (is) => (this.narrow = is));
    this.#follow("(max-width: 65.99em)", (is) => (this.tight = is));
  }

  #follow(query: string, set: (is: boolean) => void): void {
    const media = matchMedia(query);
    set(media.matches);
    media.addEventListener("change", (event) => set(event.matches));
  }
}
