import { createEvent, fireEvent } from "@testing-library/svelte";

/** Tells of an event that happened at `timeStamp`, in milliseconds. */
async function at(event: Event, target: Element, timeStamp: number): Promise<void> {
  Object.defineProperty(event, "timeStamp", { value: timeStamp });
  await fireEvent(target, event);
}

export async function pressAt(target: Element, key: string, timeStamp: number, init = {}): Promise<void> {
  await at(createEvent.keyDown(target, { key, ...init }), target, timeStamp);
}

/** A composition that ends at `timeStamp`, told before the Enter that ended it, which says nothing of it. */
export async function composeWithEnter(target: Element, timeStamp: number): Promise<void> {
  await fireEvent.compositionStart(target);
  await at(createEvent.compositionEnd(target), target, timeStamp);
  await pressAt(target, "Enter", timeStamp + 1);
}
