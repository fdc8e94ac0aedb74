/** Shows the progress of many runs on stderr, if it is a terminal. */
import { performance } from 'node:perf_hooks';

const MINUTE_S = 60;

function timeText(seconds: number): string {
  return seconds < 2 * MINUTE_S ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / MINUTE_S)} min`;
}

/** Returns a function to call after each run. Runs differ in length, so the time left is an estimate. */
export function progressLine(): (done: number, of: number) => void {
  if (!process.stderr.isTTY) return () => {};
  const startMs = performance.now();
  let ran = 0;
  // After Ctrl-C the shell's prompt starts on a new line.
  const ignore = onInterrupt(() => process.stderr.write('\n'));
  return (done, of) => {
    ran++;
    if (done === of) ignore();
    const leftS = (((performance.now() - startMs) / ran) * (of - done)) / 1e3;
    const end = done === of ? '\n' : `, about ${timeText(leftS)} left`;
    process.stderr.write(`\r\u001b[K${done} of ${of} runs${end}`);
  };
}

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
