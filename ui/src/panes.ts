// The panes of the window, in the order of the focus.

const ORDER = ["tree", "transcript", "composer", "inspector"] as const;
type Pane = (typeof ORDER)[number];

/** Where the focus goes in a pane, the best first. */
const FIRST: Readonly<Record<Pane, string>> = {
  tree: '[role="treeitem"][tabindex="0"], button',
  transcript: '[role="log"], [role="option"][tabindex="0"], [tabindex="0"], button',
  composer: "textarea, form input, button, [tabindex]",
  inspector: '[role="tab"][tabindex="0"], button',
};

/** The pane that holds an element. */
export function paneOf(element: Element | null): Pane | null {
  const name = element?.closest<HTMLElement>("[data-pane]")?.dataset.pane;
  return ORDER.find((pane) => pane === name) ?? null;
}

/** Moves the focus into a pane. Answers whether it is there and took it. */
export function focusPane(pane: Pane): boolean {
  const place = document.querySelector(`[data-pane="${pane}"]`);
  for (const selector of FIRST[pane].split(", ")) {
    const element = place?.querySelector<HTMLElement>(selector);
    if (element == null) continue;
    element.focus();
    if (document.activeElement === element) return true;
  }
  return false;
}

/** Moves the focus to the next or previous pane that is shown. */
export function focusNext(step: 1 | -1): void {
  const pane = paneOf(document.activeElement);
  const from = pane === null ? (step === 1 ? -1 : 0) : ORDER.indexOf(pane);
  for (let tried = 1; tried <= ORDER.length; tried += 1) {
    const next = ORDER[(from + step * tried + ORDER.length * 2) % ORDER.length];
    if (next !== undefined && focusPane(next)) return;
  }
}
