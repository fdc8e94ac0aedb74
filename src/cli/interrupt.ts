/**
 * Runs `clean` when somebody presses Ctrl-C, then lets the signal end the process as if nobody had listened: shells
 * see 130, and stop their loops. Returns what ends it.
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
