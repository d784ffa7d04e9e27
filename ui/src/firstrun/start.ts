// Starting a session: open it, then give it its job. Two commands, one action of the person.

import { call } from "../host";
import type { Mode, ModelView, SessionId } from "../wire";

export type Job = {
  cwd: string;
  model: string;
  /** What it may do without asking. */
  mode: Mode;
  text: string;
  /** Keys of the two commands, kept for a second try after a failure, so that it does nothing twice. */
  open: string;
  prompt: string;
};

/** Opens the session and prompts it. Answers its id. */
export async function startSession(job: Job): Promise<SessionId> {
  const { session } = await call("open", { cwd: job.cwd, model: job.model, mode: job.mode, key: job.open });
  await call("prompt", { session, text: job.text, key: job.prompt });
  return session;
}

/** The model that is offered first: the last one used, else the default, else any that works. */
export function firstChoice(models: readonly ModelView[], last: string | null): string {
  const works = models.filter((model) => model.problem === null);
  const usual = works.find((model) => model.name === last) ?? works.find((model) => model.default) ?? works[0];
  return (usual ?? models[0])?.name ?? "";
}

/** A model as it is offered: its own name, and where it is. */
export function modelWords(model: ModelView): string {
  if (model.protocol === "rehearsal") return "Rehearsal, a built-in script";
  const name = model.model ?? model.name;
  return model.model !== null && model.name !== model.model ? `${name} (${model.name})` : name;
}
