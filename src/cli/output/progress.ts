/** How far many runs are, on stderr, where somebody watches. */
import { performance } from 'node:perf_hooks';
import { onInterrupt } from '../interrupt.ts';

const MINUTE_S = 60;

function timeText(seconds: number): string {
  return seconds < 2 * MINUTE_S ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / MINUTE_S)} min`;
}

/** To be called after each run with how many are done of how many; runs differ, so the time left is a guess. */
export function progressLine(): (done: number, of: number) => void {
  if (!process.stderr.isTTY) return () => {};
  const startMs = performance.now();
  let ran = 0;
  // Ctrl-C leaves a line of its own.
  const ignore = onInterrupt(() => process.stderr.write('\n'));
  return (done, of) => {
    ran++;
    if (done === of) ignore();
    const leftS = (((performance.now() - startMs) / ran) * (of - done)) / 1e3;
    const end = done === of ? '\n' : `, about ${timeText(leftS)} left`;
    process.stderr.write(`\r\u001b[K${done} of ${of} runs${end}`);
  };
}
