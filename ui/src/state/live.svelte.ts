// What the one polite live region of the window says: at most one sentence in three seconds, the newest first.

const PAUSE_MS = 3000;

export class Live {
  sentence = $state("");

  #waiting: string[] = [];
  #timer: ReturnType<typeof setTimeout> | null = null;

  /** Says a sentence now, or when the pause is over. Of those that wait, the last three are kept. */
  say(sentence: string): void {
    if (this.#timer === null) {
      this.#speak(sentence);
    } else if (this.#waiting.at(-1) !== sentence) {
      this.#waiting = [...this.#waiting, sentence].slice(-3);
    }
  }

  #speak(sentence: string): void {
    // The same words twice are spoken twice only when the region changes.
    this.sentence = this.sentence === sentence ? `${sentence}\u00a0` : sentence;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      const next = this.#waiting.shift();
      if (next !== undefined) this.#speak(next);
    }, PAUSE_MS);
  }
}
