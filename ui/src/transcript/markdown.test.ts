import { cleanup, fireEvent, render } from "@testing-library/svelte";
import MarkdownIt from "markdown-it";
import { flushSync } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import Markdown from "./Markdown.svelte";
import { Message, MOST_TEXT } from "./markdown";
import { sanitize } from "./sanitize";

const openLink = vi.hoisted(() => vi.fn<(url: string) => Promise<void>>());
vi.mock("../host", async (original) => ({ ...(await original<object>()), openLink }));

beforeEach(() => {
  openLink.mockReset();
  openLink.mockResolvedValue();
});
afterEach(cleanup);

const shownOf = (text: string) => render(Markdown, { text }).container;
const html = (text: string) =>
  new Message()
    .render(text, false)
    .blocks?.map((block) => block.html)
    .join("") ?? "plain";

const PAYLOADS = [
  "<script>globalThis.owned = 1</script>",
  "<img src=x onerror=globalThis.owned=1>",
  "![x](https://tracker.test/pixel.png)",
  '![x](x"onerror="globalThis.owned=1)',
  "[x](javascript:globalThis.owned=1)",
  "[x](JaVaScRiPt&colon;globalThis.owned=1)",
  "[x](java\tscript:alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD4=)",
  "[x](vbscript:x) [y](file:///etc/passwd) [z](blob:x)",
  '[x](https://a.test/"onmouseover="globalThis.owned=1)',
  "<https://a.test/><javascript:alert(1)>",
  "[ref]\n\n[ref]: javascript:globalThis.owned=1",
  "<svg><script>globalThis.owned=1</script></svg><svg/onload=globalThis.owned=1>",
  "<iframe src=javascript:globalThis.owned=1></iframe><object data=x></object><embed src=x>",
  "<style>*{background:url(https://tracker.test)}</style><link rel=stylesheet href=https://tracker.test>",
  '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=globalThis.owned=1&gt;">',
  '<noscript><p title="</noscript><img src=x onerror=globalThis.owned=1>">',
  "<form action=https://x.test><input name=a><button>go</button></form>",
  "```html\n<img src=x onerror=globalThis.owned=1>\n```",
  '```"><img src=x onerror=globalThis.owned=1>\ncode\n```',
  "`<img src=x onerror=globalThis.owned=1>`",
  '| <img src=x> | b |\n|:-:|--:|\n| <b onclick="x">1</b> | 2 |',
  "<base href=https://x.test><meta http-equiv=refresh content=0>",
  "&lt;img src=x onerror=1&gt; &#x3C;script&#x3E;",
  "<details open ontoggle=globalThis.owned=1><template><slot>",
  "\u202e<img src=x>\u2066",
];

const ALLOWED = new Set(
  "div p h3 h4 h5 h6 ul ol li blockquote pre code em strong s a table thead tbody tr th td hr br span".split(" "),
);

describe("nothing that a model writes runs, loads or opens", () => {
  it.each(PAYLOADS)("%s", (payload) => {
    const container = shownOf(payload);
    for (const element of container.querySelectorAll("*")) {
      expect(ALLOWED).toContain(element.localName);
      for (const { name, value } of element.attributes) {
        expect(["class", "href", "title", "start", "tabindex"]).toContain(name);
        if (name === "href") expect(value).toMatch(/^https?:\/\//);
      }
    }
    expect(container.textContent).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
    expect("owned" in globalThis).toBe(false);
  });

  it.each([...PAYLOADS, '<p class="composer k" style="position:fixed" id="x" data-x="1">words</p>'])(
    "not even if the parser failed: %s",
    (payload) => {
      const host = document.createElement("div");
      host.append(sanitize(payload));
      for (const element of host.querySelectorAll("*")) {
        expect(ALLOWED).toContain(element.localName);
        expect(["", "code"]).toContain(element.className);
        const names = element.getAttributeNames();
        expect(names.filter((name) => !["class", "href", "title", "start", "tabindex"].includes(name))).toEqual([]);
      }
    },
  );
});

describe("markdown", () => {
  it("shows a picture as words and never fetches it", () => {
    expect(shownOf("See ![the map](https://a.test/map.png).").textContent).toContain(
      "the map (https://a.test/map.png)",
    );
  });

  it("opens a web link in the browser, never here", async () => {
    const link = shownOf("[docs](https://a.test/x)").querySelector("a");
    expect(link?.title).toBe("https://a.test/x");
    expect(link === null ? true : await fireEvent.click(link)).toBe(false);
    expect(openLink.mock.calls).toEqual([["https://a.test/x"]]);
  });

  it("says why a link was not opened", async () => {
    openLink.mockRejectedValue(new Error("no browser"));
    const container = shownOf("[docs](https://a.test/x)");
    await fireEvent.click(container.querySelector("a") as Element);
    await vi.waitFor(() => expect(container.textContent).toContain("Not opened: no browser"));
  });

  it("names the real place of a link that is called after another", () => {
    expect(shownOf("[bank.com](https://evil.test/x)").textContent?.trim()).toBe("bank.com (evil.test)");
    expect(shownOf("[bank.com](https://bank.com/x)").textContent?.trim()).toBe("bank.com");
    expect(shownOf("[bank.com](https://k.com/x)").textContent?.trim()).toBe("bank.com (k.com)");
    expect(shownOf("[k.com, of bank.com](https://k.com/x)").textContent?.trim()).toBe("k.com, of bank.com (k.com)");
    expect(shownOf("[bank。com](https://evil.test)").textContent?.trim()).toBe("bank。com (evil.test)");
    expect(shownOf("[Bank.com](https://www.bank.com:8080/x)").textContent?.trim()).toBe("Bank.com");
    expect(shownOf("[https://a.test/x.html](https://a.test/x.html)").textContent?.trim()).toBe("https://a.test/x.html");
  });

  it("shows where a path leads instead of linking it", () => {
    const container = shownOf("[the solver](src/lib.rs)");
    expect(container.querySelector("a")).toBe(null);
    expect(container.textContent?.trim()).toBe("the solver (src/lib.rs)");
  });

  it("puts its headings below the message's own", () => {
    expect(html("# a\n\n###### b")).toBe("<h3>a</h3>\n<h6>b</h6>\n");
  });

  it("gives code four voices", () => {
    expect(html("```rust\n/// x\npub fn f() {}\n```")).toMatchInlineSnapshot(`
      "<pre class="code" tabindex="0"><code><span class="c">/// x</span>
      <span class="k">pub</span> <span class="k">fn</span> <span class="f">f</span>() {}
      </code></pre>
      "
    `);
  });

  it("shows raw HTML as the words that it is", () => {
    expect(shownOf("a <b>c</b> <!-- d -->").textContent?.trim()).toBe("a <b>c</b> <!-- d -->");
  });

  it("reads the same words anew where another block gives them another meaning", () => {
    expect(html("[same] words\n\nx")).not.toContain("href");
    expect(html("[same] words\n\n[same]: https://a.test")).toContain("href");
  });

  it("resolves a reference that is defined later", () => {
    expect(html("[a] b\n\nc\n\n[a]: https://a.test")).toContain('href="https://a.test"');
  });
});

describe("what could hang or break the page is shown as plain text", () => {
  const hostile: [string, string][] = [
    ["deep quotes", `${"> ".repeat(3000)}x`],
    ["a row of stars", "*".repeat(20000)],
    ["stars around words", `${"*".repeat(20000)}a${"*".repeat(20000)}`],
    ["stars between words", "*a ".repeat(20000)],
    ["deep lists", Array.from({ length: 2000 }, (_, i) => `${"  ".repeat(i)}- x`).join("\n")],
    ["lists on one line", `${"- ".repeat(2000)}x`],
    ["a line of a megabyte", "x".repeat(1_000_000)],
    ["a paragraph without an end", "plain words\n".repeat(8000).trim()],
    ["many brackets", "[".repeat(20000)],
    ["many brackets in lines", "[a\n".repeat(100_000)],
    ["nested links", `${"[a](".repeat(5000)}`],
    ["many words", "word ".repeat(MOST_TEXT)],
    ["backticks of every length", Array.from({ length: 300 }, (_, i) => `${"`".repeat(i)}a`).join(" ")],
    ["nested json", "[".repeat(10_000) + "]".repeat(10_000)],
    ["nested emphasis", `${"*a _b ".repeat(600)}x${" b_ a*".repeat(600)}`],
  ];
  it.each(hostile)("%s", async (_, text) => {
    const container = shownOf(text);
    expect(container.querySelector(".plain")?.textContent).toBe(text.slice(0, 50_000));
    const more = container.querySelector("button");
    expect(more !== null).toBe(text.length > 50_000);
    if (more === null) return;
    await fireEvent.click(more);
    expect(container.querySelector(".plain")?.textContent).toBe(text);
  });

  it("many small blocks are still rendered", () => {
    const text = "A paragraph with `code` and **words**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n".repeat(700);
    expect(new Message().render(text, false).blocks?.length).toBe(1400);
  });
});

describe("a message that grows", () => {
  const text = `# Title\n\nFirst *paragraph*.\n\n\`\`\`rust\nfn main() {}\n\`\`\`\n\n- one\n- two\n\n1. a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nLast [x](https://a.test) words.\n`;

  it("ends as if it had come at once, wherever it was cut", () => {
    const grown = new Message();
    for (let at = 1; at < text.length; at++) grown.render(text.slice(0, at), true);
    expect(grown.render(text, false)).toEqual(new Message().render(text, false));
    for (let at = 1; at < text.length; at++) {
      const fresh = new Message().render(text.slice(0, at), true);
      const steady = new Message();
      steady.render(text.slice(0, Math.floor(at / 2)), true);
      expect(steady.render(text.slice(0, at), true)).toEqual(fresh);
    }
  });

  it("keeps the blocks before the last one as they are", () => {
    const message = new Message();
    const before = message.render("One.\n\nTwo.\n\nThr", true).blocks;
    const after = message.render("One.\n\nTwo.\n\nThree is longer", true).blocks;
    expect(after?.slice(0, 2).map((block, at) => block === before?.[at])).toEqual([true, true]);
  });

  it("reads the same for each token, however long it is", () => {
    const parse = vi.spyOn(MarkdownIt.prototype, "parse");
    const message = new Message();
    let words = "";
    for (let at = 0; at < 4000; at++) {
      words += at % 20 === 19 ? "\n\n```rust\nlet a = 1;\n```\n\n" : "a few words ";
      message.render(words, true);
    }
    expect(words.length).toBeGreaterThan(45_000);
    const read = parse.mock.calls.reduce((sum, [source]) => sum + source.length, 0);
    parse.mockRestore();
    expect(read / 4000).toBeLessThan(500);
  });

  it("changes only the last element on the screen", async () => {
    const { container, rerender } = render(Markdown, { text: "One.\n\nTwo", growing: true });
    const first = container.querySelector(".block p");
    await rerender({ text: "One.\n\nTwo and three.", growing: true });
    await vi.waitFor(() => expect(container.textContent).toContain("three"));
    expect(container.querySelector(".block p")).toBe(first);
    await rerender({ text: "One.\n\nTwo and three. End", growing: false });
    expect(container.textContent).toContain("End");
    expect(container.querySelector(".block p")).toBe(first);
  });

  it("renders at most once per frame, whatever comes", async () => {
    vi.useFakeTimers();
    const frames = vi.spyOn(globalThis, "requestAnimationFrame");
    const { container, rerender } = render(Markdown, { text: "a", growing: true });
    for (let at = 0; at < 200; at++) {
      await rerender({ text: "a".repeat(at + 2), growing: true });
      flushSync();
    }
    expect(frames.mock.calls.length).toBeLessThan(2);
    await vi.advanceTimersByTimeAsync(100);
    expect([frames.mock.calls.length, container.textContent?.trim()]).toEqual([1, "a".repeat(201)]);
    vi.useRealTimers();
  });
});
