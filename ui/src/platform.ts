/** Whether Cmd stands for Ctrl. */
export const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
