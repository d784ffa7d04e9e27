import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The page is loaded from inside the app: relative paths, no preload shim, and a target that WebKitGTK 2.44 runs.
export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: { target: "safari17", modulePreload: false, assetsInlineLimit: 0 },
  resolve: process.env.VITEST ? { conditions: ["browser"] } : {},
  test: {
    environment: "jsdom",
    // The colours are read as words.
    css: { include: /tokens\.css/ },
    testTimeout: 20_000,
    include: ["src/**/*.test.ts"],
    setupFiles: ["src/test/setup.ts"],
  },
});
