// The keys of a menu.

/** Moves the focus among the items of an open menu. Answers which one is chosen, whether it closes, or none of both. */
export function menuKey(event: KeyboardEvent, role: string): number | "close" | null {
  const items = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(`[role=${role}]`)];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  let does: number | "close" | null = null;
  if (step !== 0) items[(at + step + items.length) % items.length]?.focus();
  else if (event.key === "Home") items[0]?.focus();
  else if (event.key === "End") items.at(-1)?.focus();
  else if (event.key === "Escape" || event.key === "Tab") does = "close";
  else if (event.key === "Enter" || event.key === " ") does = at;
  else return null;
  event.preventDefault();
  event.stopPropagation();
  return does;
}
