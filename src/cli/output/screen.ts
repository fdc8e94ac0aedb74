/** The terminal's alternate screen, for output that is redrawn. The previous content returns at the end. */

import { emitKeypressEvents } from 'node:readline';
import { escaped } from '../escape.ts';
import { painted, type Style } from './style.ts';

/** A part of a line that looks the same throughout. */
export interface Span {
  readonly text: string;
  readonly style?: Style;
}
export type Line = readonly Span[];

/** A key: its name (`up`, `escape`, `return`), or else the character that it types. */
export interface Key {
  readonly name: string;
  /** The character; '' if it types none. */
  readonly text: string;
}

// Characters that are wider than one column end at the edge, because lines do not wrap meanwhile.
const ENTER = '\x1b[?1049h\x1b[?7l\x1b[?25l';
const LEAVE = '\x1b[?7h\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const TO_LINE_END = '\x1b[K';
const TO_SCREEN_END = '\x1b[J';
/** Signals that would end the process at once; the screen is restored first. */
const SIGNALS = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const;

export class Screen {
  private isOpen = true;
  private readonly typed: (text: string | undefined, key: TypedKey) => void;
  private readonly resized: () => void;
  private readonly restore = () => this.close();
  private readonly interrupted = (signal: NodeJS.Signals) => {
    this.close();
    process.kill(process.pid, signal);
  };

  /** `key` receives single keys if the input is a terminal. Ctrl-C interrupts as usual. */
  constructor(on: { key(key: Key): void; resized(): void }) {
    this.typed = (text, { name, ctrl }) => {
      if (ctrl === true) {
        if (name === 'c') this.interrupted('SIGINT');
        return;
      }
      const typed = text !== undefined && /^\P{C}$/u.test(text) ? text : '';
      on.key({ name: name ?? typed, text: typed });
    };
    this.resized = on.resized;
    process.on('exit', this.restore);
    for (const signal of SIGNALS) process.once(signal, this.interrupted);
    process.stdout.write(ENTER);
    process.stdout.on('resize', this.resized);
    const { stdin } = process;
    if (!stdin.isTTY) return;
    emitKeypressEvents(stdin);
    stdin.setRawMode(true);
    stdin.on('keypress', this.typed);
    stdin.resume();
  }

  /** Columns and rows of the terminal. Some terminals report no size. */
  get size(): { readonly columns: number; readonly rows: number } {
    return { columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 };
  }

  /** Draws as many lines as fit, each cut to the width of the screen. */
  draw(lines: readonly Line[]): void {
    if (!this.isOpen) return;
    const { columns, rows } = this.size;
    const text = lines.slice(0, rows).map((line) => `${paintedLine(line, columns)}${TO_LINE_END}`);
    process.stdout.write(`${HOME}${text.join('\r\n')}${TO_SCREEN_END}`);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    process.off('exit', this.restore);
    for (const signal of SIGNALS) process.off(signal, this.interrupted);
    process.stdout.off('resize', this.resized);
    const { stdin } = process;
    if (stdin.isTTY) {
      stdin.off('keypress', this.typed);
      stdin.setRawMode(false);
      stdin.pause();
    }
    process.stdout.write(LEAVE);
  }
}

/** What Node.js reports of a key. */
interface TypedKey {
  readonly name?: string;
  readonly ctrl?: boolean;
}

function paintedLine(line: Line, columns: number): string {
  let left = columns;
  let text = '';
  for (const span of line) {
    const shown = [...escaped(span.text)].slice(0, left);
    left -= shown.length;
    text += painted(span.style, shown.join(''));
  }
  return text;
}
