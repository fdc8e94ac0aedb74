/** Actions at the end of the process or worker, behind a single 'exit' listener. */

const exitActions = new Set<() => void>();

function runExitActions(): void {
  for (const action of [...exitActions]) action();
}

/** Registers `action` for the exit. The returned function cancels it. */
export function atExit(action: () => void): () => void {
  if (exitActions.size === 0) process.on('exit', runExitActions);
  exitActions.add(action);
  return () => {
    exitActions.delete(action);
    if (exitActions.size === 0) process.off('exit', runExitActions);
  };
}
