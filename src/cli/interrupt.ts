/**
 * Runs `clean` on Ctrl-C, then lets the signal end the process: shells see status 130, and stop their loops. Returns a
 * function that stops listening.
 */
export function onInterrupt(clean: () => void): () => void {
  const listener = () => {
    clean();
    process.kill(process.pid, 'SIGINT');
  };
  process.once('SIGINT', listener);
  return () => {
    process.off('SIGINT', listener);
  };
}
