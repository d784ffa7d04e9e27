import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

// The real window over an invented host, to look at it in a browser: `npx vite --config vite.harness.config.ts`.
// Nothing of it is part of the product.
const invented = fileURLToPath(new URL("test-harness/host.ts", import.meta.url));
const host: Plugin = {
  name: "invented-host",
  enforce: "pre",
  resolveId: (source, importer) =>
    /^\.{1,2}\/host$/.test(source) && importer?.includes("/src/") ? invented : undefined,
};

export default defineConfig({
  plugins: [host, svelte()],
  base: "./",
  build: { outDir: "test-harness/dist", target: "safari17", modulePreload: false },
});
