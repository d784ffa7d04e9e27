// What a message would do now, in words. The button repeats the verb, and what it says is what happens.

import { elapsed } from "../format";
import type { IconName } from "../icons/names";
import { lives, settled } from "../state/branch.svelte";
import type { SessionView } from "../wire";

/** What would happen to a message. A change of `way` between reading and pressing refuses the message. */
export type Route = {
  way: "starts" | "joins" | "waits" | "wakes" | "closed" | "read-only";
  icon: IconName;
  words: string;
  /** The verb of the button. */
  verb: "Send" | "Wake and send";
  /** Whether there is a turn that can be stopped. */
  stops: boolean;
};

const joins = (words: string): Route => ({ way: "joins", icon: "join", words, verb: "Send", stops: true });
const closed = (words: string, stops: boolean): Route => ({ way: "closed", icon: "clock", words, verb: "Send", stops });

/** What a message to `session` would do. `parent` is the session that delegated it; none for a root. */
export function routeOf(session: SessionView, parent: SessionView | null, now: number): Route {
  const child = session.parent !== null;
  // A child that its parent waits for is no task of its own.
  if (child && session.task === null && (lives(session.state) || session.state === "unverified")) {
    return closed("Its parent waits for it; it takes no messages", session.state !== "stopping");
  }
  switch (session.state) {
    case "running":
      if (child && !session.steerable) return closed("Its turn is ending. You can send when it has ended", true);
      return joins("Joins the running turn at its next step");
    case "starting":
      if (child && !session.steerable) return closed("Starting. You can send at its first step", true);
      return { ...joins("Waits for its first step, then joins"), way: "waits" };
    case "waiting":
      return { ...joins("Joins after you decide"), way: "waits" };
    case "stopping":
      return closed("Stopping. You can send when it has stopped", false);
    case "unverified": {
      const silence = elapsed(now - session.last_sign_at);
      return { ...joins(`No sign for ${silence}. Joins when it answers`), way: "waits", icon: "clock" };
    }
    case "idle":
    case "completed":
    case "failed":
    case "killed":
    case "interrupted":
      return child
        ? wakes(session, parent)
        : { way: "starts", icon: "send", words: starts(session), verb: "Send", stops: false };
  }
}

function starts(session: SessionView): string {
  return session.step === 0 ? "Starts the session" : "Starts a turn";
}

function wakes(session: SessionView, parent: SessionView | null): Route {
  const step = session.step > 0 ? `, which goes on after step ${session.step}` : "";
  // A child whose own run is over has no agent; a root's lives on between its turns, or is brought back as silently.
  const opens = parent !== null && parent.parent !== null && !lives(parent.state) && settled(parent.state);
  return {
    way: "wakes",
    icon: opens ? "fork" : "wake",
    words: opens ? `Opens its parent, then wakes this child${step}` : `Wakes this child${step}`,
    verb: "Wake and send",
    stops: false,
  };
}

/** What a message would do now that it did not do what was promised: "Now it would wake". */
export function insteadOf(route: Route): string {
  switch (route.way) {
    case "starts":
      return "Now it would start a turn";
    case "joins":
      return "Now it would join the running turn";
    case "waits":
      return "Now it would wait for the next step";
    case "wakes":
      return "Now it would wake";
    case "closed":
    case "read-only":
      return route.words;
  }
}

/** What a press would bring about: two routes with the same effect differ in their words only. */
export function effectOf(route: Route): Route["way"] {
  return route.way === "waits" ? "joins" : route.way;
}

/** What an empty box invites to. */
export function inviteOf(route: Route, session: SessionView): string {
  if (route.way === "wakes") return "What should it do next?";
  if (route.way === "starts") return session.step === 0 ? "What should be done?" : "What should be done next?";
  return route.way === "joins" || route.way === "waits" ? "Add or correct something" : "";
}
