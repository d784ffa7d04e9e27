// The lines of a unified diff, numbered. Pure.

export type DiffLine = {
  is: "same" | "add" | "del" | "gap" | "note";
  /** Its number in the file as it would be; of a line that goes, in the file as it is. */
  number: number | null;
  text: string;
};

export type Diff = { lines: DiffLine[]; added: number; removed: number; more: boolean };

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const MORE = "... (the diff goes on";

export function diffOf(text: string): Diff {
  const diff: Diff = { lines: [], added: 0, removed: 0, more: false };
  let [old, now] = [1, 1];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const hunk = HUNK.exec(line);
    if (hunk !== null) {
      [old, now] = [Number(hunk[1]), Number(hunk[2])];
      if (diff.lines.length > 0) diff.lines.push({ is: "gap", number: null, text: "" });
    } else if (line.startsWith("+")) {
      diff.lines.push({ is: "add", number: now++, text: line.slice(1) });
      diff.added += 1;
    } else if (line.startsWith("-")) {
      diff.lines.push({ is: "del", number: old++, text: line.slice(1) });
      diff.removed += 1;
    } else if (line.startsWith(" ")) {
      diff.lines.push({ is: "same", number: now++, text: line.slice(1) });
      old += 1;
    } else if (line.startsWith(MORE)) {
      diff.more = true;
    } else if (line !== "") {
      diff.lines.push({ is: "note", number: null, text: line.replace(/^\\ /, "") });
    }
  }
  return diff;
}
