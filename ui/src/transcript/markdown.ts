import MarkdownIt from "markdown-it";
import { visible } from "../text/clean";
import { highlight } from "./highlight";

/** A part of a message that is rendered on its own: a top-level block of its markdown. */
export type Block = {
  /** HTML that is still to be sanitised. */
  html: string;
};

/** A message: its blocks, or, where rendering it could hang or break the page, its plain words. */
export type Rendered = { blocks: Block[]; plain: null } | { blocks: null; plain: string };

/** Longer messages are shown as plain text. */
export const MOST_TEXT = 400_000;
/** Longer lines are, too: inline rules look ahead to the end of their line. */
const LONGEST_LINE = 20_000;
/** The most text of one paragraph, and the most characters in it that may open or close something. */
const LONGEST_INLINE = 40_000;
const MOST_MARKS = 4_000;
/** The deepest nesting of quotes and lists, and of emphasis within a paragraph. */
const DEEPEST = 24;
/** A longer row of one mark is no emphasis that a person wrote. */
const MARK_RUN = /([*_~`[\]!<(])\1{255}/;

class TooMuch extends Error {}

const md = new MarkdownIt({ html: false, linkify: false, breaks: false, maxNesting: DEEPEST * 4 });

/** Web links, and paths without a scheme; what anything else would lead to stays readable as it was written. */
md.validateLink = (url) => isWeb(url) || !/^[\s]*[a-z][a-z0-9+.-]*:/i.test(url);

/** Whether a link leads to the web. */
export function isWeb(url: string): boolean {
  return /^https?:\/\/[^\s]/i.test(url);
}

// After the blocks are known and before their words are read: refuses what the words could be made to cost.
md.core.ruler.after("block", "bounds", (state) => {
  for (const token of state.tokens) {
    if (token.level > DEEPEST) throw new TooMuch();
    if (token.type !== "inline") continue;
    if (token.content.length > LONGEST_INLINE) throw new TooMuch();
    if ((token.content.match(/[*_~`[\]!<&\\]/g)?.length ?? 0) > MOST_MARKS) throw new TooMuch();
  }
});
md.core.ruler.push("depth", (state) => {
  for (const token of state.tokens) {
    for (const child of token.children ?? []) if (child.level > DEEPEST) throw new TooMuch();
  }
});

const escapeHtml = md.utils.escapeHtml;
const rules = md.renderer.rules;

// A picture is never fetched: its words and its address stand for it.
rules.image = (tokens, at) => {
  const token = tokens[at];
  const words = token?.content ?? "";
  const source = String(token?.attrGet("src") ?? "");
  return `<span class="picture">${escapeHtml(words === "" ? "picture" : words)} (${escapeHtml(source)})</span>`;
};

rules.link_open = (tokens, at) => {
  const href = String(tokens[at]?.attrGet("href") ?? "");
  return isWeb(href) ? `<a href="${escapeHtml(href)}" title="${escapeHtml(href)}">` : "<span>";
};

// What a link is called may be a lie: where it is not its address, the place that it leads to stands behind it.
rules.link_close = (tokens, at) => {
  const { href, words } = linkBefore(tokens, at);
  if (!isWeb(href)) return words === href ? "</span>" : `</span> <span class="aim">(${escapeHtml(href)})</span>`;
  const host = hostOf(href);
  return names(words, href) ? `</a> <span class="aim">(${escapeHtml(host)})</span>` : "</a>";
};

/** Words that look like the name of a host. */
const HOST_LIKE = /[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*\.\p{L}{2,}/gu;

/** Whether the words of a link name another host than the one that it leads to. */
function names(words: string, href: string): boolean {
  const said = words
    .trim()
    .normalize("NFKC")
    .replace(/\u3002/g, ".")
    .toLowerCase();
  if (said === href.toLowerCase()) return false;
  const bare = (host: string) => host.replace(/^www\./, "").replace(/:\d+$/, "");
  const host = bare(hostOf(href));
  return (said.match(HOST_LIKE) ?? []).some((word) => bare(word) !== host);
}

function linkBefore(tokens: { type: string; content: string; attrGet(name: string): unknown }[], close: number) {
  let words = "";
  for (let at = close - 1; at >= 0; at--) {
    const token = tokens[at];
    if (token?.type === "link_open") return { href: String(token.attrGet("href") ?? ""), words };
    words = (token?.content ?? "") + words;
  }
  return { href: "", words };
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

// The window has an h1 for the session and an h2 for each message.
rules.heading_open = (tokens, at) => `<${below(tokens[at]?.tag)}>`;
rules.heading_close = (tokens, at) => `</${below(tokens[at]?.tag)}>\n`;

function below(tag: string | undefined): string {
  return `h${Math.min(6, Number(tag?.slice(1) ?? 1) + 2)}`;
}

rules.fence = (tokens, at) => {
  const token = tokens[at];
  const code = token?.content ?? "";
  return `<pre class="code" tabindex="0"><code>${highlight(code, token?.info ?? "") ?? escapeHtml(code)}</code></pre>\n`;
};
rules.code_block = (tokens, at) =>
  `<pre class="code" tabindex="0"><code>${escapeHtml(tokens[at]?.content ?? "")}</code></pre>\n`;
rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
rules.table_close = () => "</table></div>\n";
rules.th_open = (tokens, at) => cell("th", String(tokens[at]?.attrGet("style") ?? ""));
rules.td_open = (tokens, at) => cell("td", String(tokens[at]?.attrGet("style") ?? ""));

function cell(tag: string, style: string): string {
  const side = /(right|center)/.exec(style)?.[1];
  return side === undefined ? `<${tag}>` : `<${tag} class="${side}">`;
}

/** What was rendered before, by its source, so that scrolling back and streaming on cost nothing. */
const memory = new Map<string, string>();
const MOST_MEMORY = 2_000_000;
let remembered = 0;

function memorised(source: string, make: () => string): string {
  const known = memory.get(source);
  if (known !== undefined) return known;
  const html = make();
  if (remembered > MOST_MEMORY) {
    memory.clear();
    remembered = 0;
  }
  memory.set(source, html);
  remembered += source.length + html.length;
  return html;
}

/**
 * Renders one message that may still grow. Keep one of these for each message on the screen: while text is only
 * added, the blocks before the last one are final and are not read again.
 */
export class Message {
  #text = "";
  #final: Block[] = [];
  /** Where the first block that is not final begins. */
  #tail = 0;
  #env: Record<string, unknown> = {};
  #plain = false;

  /** `growing` says that more is to come: the last block's code is not coloured before it is closed. */
  render(raw: string, growing: boolean): Rendered {
    const text = visible(raw);
    if (!text.startsWith(this.#text) || !growing) this.#restart();
    this.#text = text;
    if (this.#plain || this.#tooMuch()) return this.#giveUp();
    try {
      const rest = this.#rest(growing);
      return { blocks: [...this.#final, ...rest], plain: null };
    } catch (error) {
      // Whatever a parser makes of hostile text, the words are there.
      if (!(error instanceof TooMuch)) console.error("A message is shown as plain text:", error);
      return this.#giveUp();
    }
  }

  #restart() {
    this.#final = [];
    this.#tail = 0;
    this.#env = {};
    this.#plain = false;
  }

  #giveUp(): Rendered {
    this.#plain = true;
    this.#final = [];
    return { blocks: null, plain: this.#text };
  }

  /** Looks only at what was not looked at before, but for a row of marks that began there. */
  #tooMuch(): boolean {
    if (this.#text.length > MOST_TEXT) return true;
    const rest = this.#text.slice(this.#tail);
    return MARK_RUN.test(rest) || rest.split("\n").some((line) => line.length > LONGEST_LINE);
  }

  #rest(growing: boolean): Block[] {
    const source = this.#text.slice(this.#tail);
    const tokens = md.parse(source, this.#env);
    const lines = lineStarts(source);
    const groups: { tokens: typeof tokens; from: number; to: number }[] = [];
    for (let at = 0; at < tokens.length; ) {
      let end = at;
      let depth = 0;
      do depth += tokens[end++]?.nesting ?? 0;
      while (depth > 0 && end < tokens.length);
      const map = tokens[at]?.map;
      groups.push({
        tokens: tokens.slice(at, end),
        from: lines[map?.[0] ?? 0] ?? 0,
        to: lines[map?.[1] ?? 0] ?? source.length,
      });
      at = end;
    }
    const last = groups.at(-1);
    const blocks = groups.map((group) => {
      const open = growing && group === last;
      const words = source.slice(group.from, group.to);
      if (open && group.tokens[0]?.type === "fence") return { html: openFence(group.tokens[0].content) };
      const html = () => md.renderer.render(group.tokens, md.options, this.#env);
      // Words with brackets may mean what another block defines, so only the others are the same everywhere.
      return { html: open || words.includes("[") ? html() : memorised(words, html) };
    });
    if (growing && last !== undefined && groups.length > 1) {
      this.#final.push(...blocks.slice(0, -1));
      this.#tail += last.from;
      return blocks.slice(-1);
    }
    return blocks;
  }
}

function openFence(code: string): string {
  return `<pre class="code" tabindex="0"><code>${escapeHtml(code)}</code></pre>\n`;
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return starts;
}
