/** The terminal's alternate screen, for output that is redrawn. The previous content returns at the end. */

import { escaped } from '../escape.ts';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const TO_LINE_END = '\x1b[K';
const TO_SCREEN_END = '\x1b[J';
const CTRL_C = '\x03';
/** Signals that would end the process at once; the screen is restored first. */
const SIGNALS = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const;

export class Screen {
  private isOpen = true;
  private readonly typed: (typed: string) => void;
  private readonly resized: () => void;
  private readonly restore = () => this.close();
  private readonly interrupted = (signal: NodeJS.Signals) => {
    this.close();
    process.kill(process.pid, signal);
  };

  /** `key` receives single keys if the input is a terminal. Ctrl-C interrupts as usual. */
  constructor(on: { key(key: string): void; resized(): void }) {
    this.typed = (typed) => {
      for (const key of typed) {
        if (key === CTRL_C) this.interrupted('SIGINT');
        else on.key(key);
      }
    };
    this.resized = on.resized;
    process.on('exit', this.restore);
    for (const signal of SIGNALS) process.once(signal, this.interrupted);
    process.stdout.write(ENTER);
    process.stdout.on('resize', this.resized);
    const { stdin } = process;
    if (!stdin.isTTY) return;
    stdin.setRawMode(true);
    stdin.setEncoding('utf8');
    stdin.on('data', this.typed);
  }

  /** Draws as many lines as fit, each cut to the width of the screen. */
  draw(lines: readonly string[]): void {
    if (!this.isOpen) return;
    // Some terminals report no size.
    const [rows, columns] = [process.stdout.rows || 24, process.stdout.columns || 80];
    const shown = lines.length <= rows ? lines : [...lines.slice(0, rows - 1), '...'];
    const text = shown.map((line) => `${escaped(line).slice(0, columns)}${TO_LINE_END}`).join('\r\n');
    process.stdout.write(`${HOME}${text}${TO_SCREEN_END}`);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    process.off('exit', this.restore);
    for (const signal of SIGNALS) process.off(signal, this.interrupted);
    process.stdout.off('resize', this.resized);
    const { stdin } = process;
    if (stdin.isTTY) {
      stdin.off('data', this.typed);
      stdin.setRawMode(false);
      stdin.pause();
    }
    process.stdout.write(LEAVE);
  }
}
