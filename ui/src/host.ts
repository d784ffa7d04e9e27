// The only way out of the page. Everything the window learns or does goes through these functions.

import { Channel, invoke } from "@tauri-apps/api/core";
import type { Code, Commands, Failed, Push, Quit, SessionId } from "./wire";

/** A command that failed, with words for people. */
export class HostError extends Error {
  readonly code: Code;

  constructor(code: Code, message: string) {
    super(message);
    this.name = "HostError";
    this.code = code;
  }
}

/** Makes a key for one action of the person: the same key twice does the action once. */
export function mintKey(): string {
  return crypto.randomUUID();
}

/** Whether a code says that the state had changed, and nothing is wrong. Such a refusal stands under its key. */
export function isRace(code: HostError["code"]): boolean {
  return code === "not_delivered" || code === "conflict" || code === "busy";
}

/** Runs a command of the wire. Rejects with a `HostError`. */
export async function call<C extends keyof Commands>(cmd: C, args: Commands[C]["args"]): Promise<Commands[C]["ok"]> {
  return await ask<Commands[C]["ok"]>("call", { cmd, args });
}

/**
 * Follows everything, and the rows and live text of `session` too. A later call replaces this subscription.
 * Pushes tell everything after `after`, or only what is new. With `inbox` the asks of all trees are looked at, so that no
 * notification tells of them. Answers the position where it starts.
 */
export async function watch(
  session: SessionId | null,
  after: number | null,
  onPush: (push: Push) => void,
  inbox = false,
): Promise<number> {
  const channel = new Channel<Push>();
  channel.onmessage = onPush;
  return await ask<number>("watch", { session, after, inbox, channel });
}

/** Lets the person choose a folder, beginning at `from`; none when they cancel. */
export async function pickFolder(from: string): Promise<string | null> {
  return await ask<string | null>("pick_folder", { from });
}

/** Opens a link in the system's browser. */
export async function openLink(url: string): Promise<void> {
  await ask<null>("open_link", { url });
}

/** Quits, or answers what becomes of running work when Coppice quits; `ask` asks that where something runs. */
export async function quit(choice: Quit): Promise<void> {
  await ask<null>("quit", { choice });
}

async function ask<T>(command: string, args: Record<string, unknown>): Promise<T> {
  try {
    return await invoke<T>(command, args);
  } catch (error) {
    throw toHostError(error);
  }
}

function toHostError(error: unknown): HostError {
  if (isFailed(error)) return new HostError(error.code, error.message);
  return new HostError("internal", error instanceof Error ? error.message : String(error));
}

function isFailed(error: unknown): error is Failed {
  return typeof error === "object" && error !== null && "code" in error && "message" in error;
}
