import { describe, expect, it } from "vitest";
import { clean, cut, exact, exactLine, lastLines, oneLine, visible } from "./clean";

describe("output of a command", () => {
  const cases: [string, string, string][] = [
    ["loses its colours", "\x1b[1;32mok\x1b[0m done", "ok done"],
    [
      "loses links, titles and clipboard codes",
      "\x1b]8;;https://x.test\x07name\x1b]8;;\x07\x1b]0;owned\x1b\\\x1b]52;c;YQ==\x07!",
      "name!",
    ],
    ["loses eight-bit escapes", "\x9b31mred\x9b0m", "red"],
    ["keeps what follows an escape that is never closed", "a\x1b]0;title\nnext\x1b[", "a\nnext"],
    ["keeps of a rewritten line its last state", "1%\r2%\r100%\nend", "100%\nend"],
    ["keeps a line that only returned", "50%\r\r\nend", "50%\nend"],
    ["keeps Windows line ends as line ends", "a\r\nb\r\n", "a\nb\n"],
    ["takes back what was overstruck", "N\bNA\bA", "NA"],
    ["loses controls but keeps tabs", "a\0\x07\tb\x7f", "a\tb"],
    ["loses marks that turn the order around", "abc\u202etxt.exe\u2066!", "abctxt.exe!"],
    ["keeps other scripts whole", "ש‎לום 日本語 é", "ש‎לום 日本語 é"],
  ];
  it.each(cases)("%s", (_, given, wanted) => expect(clean(given)).toBe(wanted));

  it("is cleaned to its end however much of one kind comes", () => {
    expect(clean(Array.from({ length: 20000 }, (_, i) => `\r${i}%`).join(""))).toBe("19999%");
    expect(clean("x".repeat(5_000_000)).length).toBe(5_000_000);
    expect(clean("\x1b]".repeat(200_000))).toBe("");
    expect(clean("\r".repeat(500_000))).toBe("");
    expect(clean("a\b".repeat(200_000)).length).toBeLessThan(2);
  });
});

it("prose keeps its words and loses only what cannot be seen", () => {
  expect(visible("a\r\nb\u202e\x1b[31m")).toBe("a\nb[31m");
});

it("a name fits on one line whatever was given", () => {
  expect(oneLine("  a\n b\t c ")).toBe("a b c");
  expect(oneLine("x".repeat(1_000_000), 10)).toBe(`${"x".repeat(10)}…`);
});

it("a cut never leaves half a character", () => {
  expect(cut("ab😀", 3)).toBe("ab");
  expect(cut("ab😀", 4)).toBe("ab😀");
});

it("the last lines do not count an empty one at the end", () => {
  expect(lastLines("1\n2\n3\n", 2)).toBe("2\n3");
  expect(lastLines("1\n2", 12)).toBe("1\n2");
  expect(lastLines("", 12)).toBe("");
});

describe("text that the person decides about", () => {
  const shown = (text: string) =>
    exact(text)
      .map((piece) => (piece.mark ? `[${piece.text}]` : piece.text))
      .join("");
  const cases: [string, string, string][] = [
    ["loses nothing", "make -j4\n\tend  x", "make -j4\n\tend  x"],
    ["names controls and escapes", "a\x1b[2K\0\rb\x7f", "a[⟨U+001B⟩][2K[⟨U+0000⟩⟨U+000D⟩]b[⟨U+007F⟩]"],
    ["names what turns the order around", "txt\u202eexe\u2066\u200f", "txt[⟨U+202E⟩]exe[⟨U+2066⟩⟨U+200F⟩]"],
    [
      "names what has no width",
      "r\u200bm\u2060\ufeff\u00ad\u{e0041}",
      "r[⟨U+200B⟩]m[⟨U+2060⟩⟨U+FEFF⟩⟨U+00AD⟩⟨U+E0041⟩]",
    ],
    ["names spaces that are none", "rm\u00a0-rf\u3000x\u2028y", "rm[⟨U+00A0⟩]-rf[⟨U+3000⟩]x[⟨U+2028⟩]y"],
    ["names letters without ink", "a\u3164b\u2800c\u115f", "a[⟨U+3164⟩]b[⟨U+2800⟩]c[⟨U+115F⟩]"],
    ["takes a name that the text has itself for no mark", "⟨U+202E⟩", "⟨U+202E⟩"],
    ["keeps other scripts whole", "שלום 日本語 é 🌲", "שלום 日本語 é 🌲"],
  ];
  it.each(cases)("%s", (_, given, wanted) => expect(shown(given)).toBe(wanted));

  it("on one line still shows where a line ends, because a shell obeys it", () => {
    expect([exactLine("ls\n  rm x\u202e"), exactLine("x".repeat(500), 10), exactLine(" ".repeat(9000), 10)]).toEqual([
      "ls ⏎ rm x⟨U+202E⟩",
      "xxxxxxxxxx…",
      "…",
    ]);
  });

  it("is ready however much of it has no ink", () => {
    expect(exact("\u202e".repeat(100_000))).toHaveLength(1);
  });
});
