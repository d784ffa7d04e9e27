import { recall, remember } from "./memory";

export type Theme = "system" | "light" | "dark";
export type Density = "regular" | "compact";

/** Sizes of the text, in parts of a hundred of the system's own. */
export const TEXT_SIZES = [80, 90, 100, 110, 125, 150, 175, 200] as const;

export const TREE_WIDTH = { least: 240, usual: 312, most: 420 } as const;

/** How the window looks, as the person set it. */
export class Look {
  theme = $state<Theme>(recall<Theme>("theme", "system"));
  density = $state<Density>(recall<Density>("density", "regular"));
  /** In pixels at the usual text size. */
  treeWidth = $state<number>(recall<number>("treeWidth", TREE_WIDTH.usual));
  /** In parts of a hundred of the system's own. */
  textSize = $state<number>(recall<number>("textSize", 100));
  /** Letters in the tree jump by name instead of moving. */
  typeAhead = $state<boolean>(recall<boolean>("typeAhead", false));
  /** The panes that are folded though there is room for them. */
  treeFolded = $state<boolean>(recall<boolean>("treeFolded", false));
  inspectorFolded = $state<boolean>(recall<boolean>("inspectorFolded", false));

  setTheme(theme: Theme): void {
    this.theme = theme;
    remember("theme", theme);
    this.show();
  }

  setDensity(density: Density): void {
    this.density = density;
    remember("density", density);
  }

  setTextSize(size: number): void {
    this.textSize = size;
    remember("textSize", size);
    this.show();
  }

  /** The next size up or down. */
  stepTextSize(by: 1 | -1): void {
    const sizes = by === 1 ? TEXT_SIZES : TEXT_SIZES.toReversed();
    const next = sizes.find((size) => (size - this.textSize) * by > 0);
    if (next !== undefined) this.setTextSize(next);
  }

  setTypeAhead(on: boolean): void {
    this.typeAhead = on;
    remember("typeAhead", on);
  }

  setTreeWidth(width: number): void {
    this.treeWidth = Math.round(Math.min(TREE_WIDTH.most, Math.max(TREE_WIDTH.least, width)));
    remember("treeWidth", this.treeWidth);
  }

  foldTree(folded: boolean): void {
    this.treeFolded = folded;
    remember("treeFolded", folded);
  }

  foldInspector(folded: boolean): void {
    this.inspectorFolded = folded;
    remember("inspectorFolded", folded);
  }

  /** Pins the theme and the text size on the page, or leaves them to the system. */
  show(): void {
    const root = document.documentElement;
    root.style.fontSize = this.textSize === 100 ? "" : `${this.textSize}%`;
    if (this.theme === "system") delete root.dataset.theme;
    else root.dataset.theme = this.theme;
  }
}
