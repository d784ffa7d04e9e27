import DOMPurify from "dompurify";

const TAGS = "p h3 h4 h5 h6 ul ol li blockquote pre code em strong s a table thead tbody tr th td hr br span div".split(
  " ",
);
const CLASSES: ReadonlySet<string> = new Set("k str f c add del code table right center picture aim".split(" "));

/**
 * The parts of `html` that a message may have, as nodes: no second parse can read them in another way. Nothing in
 * them runs, loads or opens by itself.
 */
export function sanitize(html: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "class", "start", "tabindex"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^https?:\/\//i,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const element of fragment.querySelectorAll("[class]")) {
    if (!CLASSES.has(element.className)) element.removeAttribute("class");
  }
  return fragment;
}
