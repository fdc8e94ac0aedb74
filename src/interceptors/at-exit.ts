/** What is to be done when the process or the worker ends: one listener for all. */

const endings = new Set<() => void>();

function end(): void {
  for (const action of [...endings]) action();
}

/** Calls `action` at the end; the function that it returns takes it back. */
export function atExit(action: () => void): () => void {
  if (endings.size === 0) process.on('exit', end);
  endings.add(action);
  return () => {
    endings.delete(action);
    if (endings.size === 0) process.off('exit', end);
  };
}
