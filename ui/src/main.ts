import { mount } from "svelte";
import App from "./App.svelte";
import "./styles/tokens.css";
import "./styles/base.css";
import { AppState } from "./state/app.svelte";

mount(App, { target: document.body, props: { app: new AppState() } });
