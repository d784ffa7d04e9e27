// Words can be read on every surface that they may stand on, and edges be seen, in both themes.

import { expect, it } from "vitest";
import tokensCss from "./tokens.css?raw";

const sheet = tokensCss.split("@media")[0] ?? "";
const tokens = new Map([...sheet.matchAll(/--([\w-]+):\s*([^;]+);/g)].map(([, name, value]) => [name, value]));

type Colour = { rgb: number[]; alpha: number };

function colour(name: string, theme: 0 | 1): Colour {
  const value = tokens.get(name) ?? "";
  const other = /^var\(--([\w-]+)\)/.exec(value);
  if (other?.[1] !== undefined) return colour(other[1], theme);
  const [, L = 0, C = 0, h = 0, alpha = 1] =
    [...value.matchAll(/oklch\(([\d.]+) ([\d.]+) ([\d.]+)(?: \/ ([\d.]+))?\)/g)][theme]?.map((part) =>
      Number(part ?? 1),
    ) ?? [];
  const a = C * Math.cos((h * Math.PI) / 180);
  const b = C * Math.sin((h * Math.PI) / 180);
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const rgb = linear.map((c) => Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)));
  return { rgb, alpha };
}

function luminance(rgb: number[]): number {
  const [r = 0, g = 0, b = 0] = rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function ratio(front: string, back: string, theme: 0 | 1): number {
  const under = colour(back, theme).rgb;
  const over = colour(front, theme);
  const seen = over.rgb.map((c, at) => c * over.alpha + (under[at] ?? 0) * (1 - over.alpha));
  const [light = 0, dark = 0] = [luminance(seen), luminance(under)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

const WORDS = [
  "ink",
  "ink-2",
  "ink-3",
  "accent",
  "st-running",
  "st-waiting",
  "st-failed",
  "st-interrupted",
  "st-stopping",
];
const SURFACES = ["bg-window", "bg-surface", "bg-raised", "bg-sunken", "bg-active"];
const PAIRS: Array<[string, string, number]> = [
  ...WORDS.flatMap((word) => SURFACES.map((on): [string, string, number] => [word, on, 4.5])),
  ["on-accent", "accent", 4.5],
  ["on-accent", "accent-hover", 4.5],
  ...["syn-key", "syn-str", "syn-fn", "syn-com", "diff-add", "diff-del"].map((word): [string, string, number] => [
    word,
    "bg-sunken",
    4.5,
  ]),
  ...["focus", "line-field", "stem-live"].flatMap((edge) =>
    ["bg-window", "bg-surface", "bg-raised"].map((on): [string, string, number] => [edge, on, 3]),
  ),
];

it.each([["light", 0] as const, ["dark", 1] as const])(
  "every pair of colours can be told apart in the %s theme",
  (_, theme) => {
    const low = PAIRS.filter(([front, back, least]) => !(ratio(front, back, theme) >= least));
    expect(low).toEqual([]);
    expect(ratio("ink", "bg-surface", theme)).toBeGreaterThan(12);
  },
);
