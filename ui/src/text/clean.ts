// Text of models, tools and commands is hostile: it may steer a terminal, hide words or turn their order around.
// What these functions return is safe to show as a text node.

/** Escape sequences. One that is not closed ends with its line. */
const ESCAPES = new RegExp(
  [
    // Commands to the system, such as titles, links and the clipboard; other strings; colours and movements; the rest.
    String.raw`(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?`,
    String.raw`(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)?`,
    String.raw`(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?`,
    String.raw`\x1b[ -/]*[0-~]?`,
  ].join("|"),
  "g",
);

/** A character that a backspace takes back, as in the overstruck text of manual pages. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const OVERSTRUCK = /[^\n\x08]\x08/g;

/** Controls without a form of their own, and the marks that turn the order of text around. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** Marks that turn the order of text around, and controls other than tab and line end. Nothing else is touched. */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(UNSEEN, "");
}

/** A piece of exact text. A mark stands for a character that would hide, move or imitate others. */
export type Piece = { text: string; mark: boolean };

/** Everything that has no ink of its own, but for the space, the tab and the line end. */
const INKLESS = /(?![\n\t ])(?:\p{C}|\p{Z}|\p{Variation_Selector}|\p{Default_Ignorable_Code_Point}|\u2800)/gu;

/** Text that the person decides about: nothing is taken away, and what cannot be seen is named. */
export function exact(text: string): Piece[] {
  const pieces: Piece[] = [];
  let from = 0;
  const push = (piece: Piece) => {
    const last = pieces.at(-1);
    if (last?.mark === piece.mark) last.text += piece.text;
    else if (piece.text !== "") pieces.push(piece);
  };
  for (const found of text.matchAll(INKLESS)) {
    push({ text: text.slice(from, found.index), mark: false });
    push({ text: nameOf(found[0]), mark: true });
    from = found.index + found[0].length;
  }
  push({ text: text.slice(from), mark: false });
  return pieces;
}

/** The same on one line, at most `max` characters long; a line end is named too, because a shell obeys it. */
export function exactLine(text: string, max = 400): string {
  const whole = exact(text.slice(0, max * 8))
    .map((piece) => piece.text)
    .join("")
    .trim()
    .replace(/\s*\n\s*/g, " ⏎ ")
    .replace(/\s+/g, " ");
  return whole.length > max || text.length > max * 8 ? `${cut(whole, max)}…` : whole;
}

function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Output of a command as a terminal would leave it: no colours, of a rewritten line only its last state. */
export function clean(text: string): string {
  let out = text.replace(ESCAPES, "");
  if (out.includes("\b")) out = out.replace(OVERSTRUCK, "");
  if (out.includes("\r")) {
    out = out
      .split("\n")
      .map((line) => lastState(line))
      .join("\n");
  }
  return out.replace(UNSEEN, "");
}

/** What is left of a line that was written over again and again. */
function lastState(line: string): string {
  let end = line.length;
  while (end > 0) {
    const start = line.lastIndexOf("\r", end - 1) + 1;
    if (start < end) return line.slice(start, end);
    end = start - 1;
  }
  return "";
}

/** A name or a target on one line, at most `max` characters long. */
export function oneLine(text: string, max = 400): string {
  // What is cut is far more than `max`, so that escapes and spaces cannot push all words out.
  const line = clean(text.slice(0, max * 8))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > max || text.length > max * 8 ? `${cut(line, max)}…` : line;
}

/** At most `max` UTF-16 units of `text`, never half a character. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}

/** The last `count` lines of `text`; an empty line at its end does not count. */
export function lastLines(text: string, count: number): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end--;
  let start = end;
  for (let i = 0; i < count; i++) {
    if (start === 0) return text.slice(0, end);
    start = text.lastIndexOf("\n", start - 1);
    if (start === -1) return text.slice(0, end);
  }
  return text.slice(start + 1, end);
}
