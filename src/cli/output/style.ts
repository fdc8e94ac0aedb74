/** Colours on a terminal. Texts mean the same without them. */
import { styleText } from 'node:util';

/** What a text is, which decides how it looks. */
export type Style = 'head' | 'good' | 'bad' | 'dim' | 'warn' | 'selected' | 'bar';

const FORMATS: Readonly<Record<Style, Parameters<typeof styleText>[0]>> = {
  head: 'bold',
  good: 'green',
  bad: 'red',
  dim: 'dim',
  warn: 'yellow',
  selected: 'inverse',
  bar: 'cyan',
};

/** Whether the stream shows colours: FORCE_COLOR decides, then NO_COLOR, then whether it is a terminal with colours. */
export function hasColours(stream: NodeJS.WriteStream = process.stdout): boolean {
  const { FORCE_COLOR, NO_COLOR } = process.env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  if (NO_COLOR !== undefined && NO_COLOR !== '') return false;
  return stream.isTTY === true && stream.hasColors();
}

type Styling = (format: Parameters<typeof styleText>[0], text: string, how: object) => string;

/** The text as it looks on stdout. */
export function painted(style: Style | undefined, text: string): string {
  if (style === undefined || text === '' || !hasColours()) return text;
  // The stream was judged above; Node.js would only look at a terminal.
  const plainly = { validateStream: false } as const;
  return (styleText as Styling)(FORMATS[style], text, plainly);
}
