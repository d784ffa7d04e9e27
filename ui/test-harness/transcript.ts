// Shows the transcript and the composer with made-up sessions, to be looked at in a browser. Not part of the window.
// ?theme=light|dark &show=main|stopped|composers|long

import { mount } from "svelte";
import Page from "./TranscriptPage.svelte";
import { answers, frameOf, scene } from "./transcript-scene";

const query = new URLSearchParams(location.search);
const show = query.get("show") ?? "main";
localStorage.clear();

Object.assign(globalThis, {
  __TAURI_INTERNALS__: {
    transformCallback: () => 0,
    unregisterCallback: () => {},
    invoke: (command: string, args: { cmd?: string; args?: unknown }) => answers(show, command, args),
  },
});

const { AppState } = await import("../src/state/app.svelte");
const app = new AppState();
const theme = query.get("theme");
if (theme === "light" || theme === "dark") app.look.setTheme(theme);
if (query.get("font")) document.documentElement.style.setProperty("--font-ui", query.get("font"));
const { open, draft } = scene(show);
app.apply({ ...frameOf(show), rows: [], live: null });
app.ready = true;
await app.open(open);
app.apply(frameOf(show));
if (draft !== "") app.setDraft(open, draft);
Object.assign(globalThis, { app });
mount(Page, { target: document.body, props: { app, show } });
