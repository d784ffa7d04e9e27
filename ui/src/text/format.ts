// Figures that only the transcript and the composer show. Durations are in milliseconds.

/** How long ago, in the largest unit that says something: "now", "2 s ago", "4 min ago", "2 h ago", "3 days ago". */
export function ago(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 1) return "now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
}

/** A size: "512 B", "32 KB", "1.2 MB". */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  if (n < 999_500) return `${Math.round(n / 1000)} KB`;
  return `${(n / 1_000_000).toFixed(1)} MB`;
}

/** How often: "once", "twice", "5 times". */
export function times(n: number): string {
  return n === 1 ? "once" : n === 2 ? "twice" : `${n} times`;
}
