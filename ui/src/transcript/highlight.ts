import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  python,
  ruby,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** Longer code stays plain: the grammars are regular expressions, and their worst case is not ours to bound. */
const MOST_CODE = 40_000;
const LONGEST_LINE = 2_000;

/** The four voices of code; what has none of them stays ink. */
const VOICES: Readonly<Record<string, string>> = {
  keyword: "k",
  literal: "k",
  "selector-tag": "k",
  meta: "k",
  section: "k",
  name: "k",
  string: "str",
  regexp: "str",
  number: "str",
  symbol: "str",
  link: "str",
  title: "f",
  built_in: "f",
  type: "f",
  attr: "f",
  attribute: "f",
  property: "f",
  "selector-class": "f",
  "selector-id": "f",
  comment: "c",
  quote: "c",
  doctag: "c",
  addition: "add",
  deletion: "del",
};

/** Code as HTML with one class per voice, or none when its language is unknown or it is too long. */
export function highlight(code: string, language: string): string | null {
  const name = language.trim().split(/[\s,{:]/, 1)[0] ?? "";
  if (name === "" || code.length > MOST_CODE || hljs.getLanguage(name) === undefined) return null;
  if (code.split("\n").some((line) => line.length > LONGEST_LINE)) return null;
  const html = hljs.highlight(code, { language: name, ignoreIllegals: true }).value;
  return html.replace(/<span class="hljs-([a-z_-]+)[^"]*">/g, (_, kind: string) => {
    const voice = VOICES[kind];
    return voice === undefined ? "<span>" : `<span class="${voice}">`;
  });
}
