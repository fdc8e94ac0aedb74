/** Draws pictures with vega-lite, an optional dependency. */
import { closeSync, existsSync, openSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { TopLevelSpec } from 'vega-lite';
import { makeFolders } from '../../interceptors/folders.ts';
import { ConfigError, FileError, UnsupportedError } from '../../verbs/errors.ts';

/** What is missing when no picture can be drawn, and the way out. */
export const INSTALL_VEGA =
  'the optional packages vega and vega-lite are not installed; install them with: npm install vega vega-lite';

const loadVega = () => Promise.all([import('vega'), import('vega-lite')]);

/** Whether vega and vega-lite are installed. */
export async function canDraw(): Promise<boolean> {
  return await loadVega().then(
    () => true,
    () => false,
  );
}

/** Fonts by width: Helvetica and Arial, or all that replace them, of which DejaVu Sans and Verdana are the widest. */
export type Fonts = 'usual' | 'any';

/**
 * Returns SVG text.
 * @param fonts for which texts have room
 * @throws UnsupportedError when vega is not installed
 */
export async function drawSvg(spec: TopLevelSpec, fonts: Fonts = 'usual'): Promise<string> {
  const [vega, vegaLite] = await loadVega().catch((cause) => {
    throw notInstalled('no picture can be drawn', cause);
  });
  textMetricsOf(vega).width = (item, line) => textWidth(fonts, item, line);
  const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: 'none' });
  return view.toSVG();
}

function notInstalled(what: string, cause: unknown): UnsupportedError {
  return new UnsupportedError(`${what}: ${INSTALL_VEGA}`, { cause });
}

/** The object with which vega measures text; it is missing from vega's types. */
function textMetricsOf(vega: object): { width: (item: TextItem, line?: unknown) => number } {
  return (vega as { textMetrics: { width: (item: TextItem, line?: unknown) => number } }).textMetrics;
}

interface TextItem {
  fontSize?: number;
  fontWeight?: string | number;
  text?: unknown;
}

/** Letter widths in em, of all other letters, and of bold letters relative to these. */
const WIDTHS: Readonly<
  Record<Fonts, { letters: readonly (readonly [RegExp, number])[]; em: number; bold: number }>
> = {
  usual: {
    letters: [
      [/[ijltf.,:;'|!()[\] ]/, 0.28],
      [/[mwMW@%]/, 0.87],
      [/[A-Z]/, 0.69],
    ],
    em: 0.56,
    bold: 1.1,
  },
  any: {
    letters: [
      [/[ijltfr.,:;'|!()[\] ]/, 0.41],
      [/[mwMW@%]/, 1],
      [/[A-Z=+<>]/, 0.84],
    ],
    em: 0.64,
    bold: 1.15,
  },
};

/** Estimates a text's width. Without a canvas vega assumes 0.8 em per letter, which leaves wide margins. */
function textWidth(fonts: Fonts, item: TextItem, line: unknown = item.text ?? ''): number {
  const { letters, em, bold } = WIDTHS[fonts];
  const sumEm = [...String(line)]
    .map((letter) => letters.find(([some]) => some.test(letter))?.[1] ?? em)
    .reduce((sum, width) => sum + width, 0);
  return sumEm * (item.fontSize ?? 11) * (item.fontWeight === 'bold' ? bold : 1);
}

/** Writes a file, and creates its folder: a fresh clone has no out/. @throws FileError */
export function writeInto(path: string, text: string): void {
  makeFolders(dirname(path));
  writeOutput(path, text);
}

/**
 * Checks before a long run that its result can be written, into a folder that exists. An existing file keeps its contents,
 * and a new one is removed again: a run that fails leaves no empty file.
 * @throws ConfigError
 */
export function requireWritable(option: string, path: string): void {
  try {
    const isNew = !existsSync(path);
    closeSync(openSync(path, 'a'));
    if (isNew) rmSync(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const hint = code === 'ENOENT' ? `; create the folder ${dirname(path)}, or choose another` : '';
    throw new ConfigError(`${option}: ${path} cannot be written: ${message}${hint}`);
  }
}

/** Whether the path is a terminal, a pipe or /dev/null, which take any output. */
const isSpecial = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === false;

/**
 * Requires that no file is named twice: the later output would replace the earlier one.
 * @param files each option with its file, if it is given
 * @throws ConfigError
 */
export function requireDistinct(
  files: readonly (readonly [option: string, path: string | undefined])[],
): void {
  const options = new Map<string, string>();
  for (const [option, path] of files) {
    if (path === undefined || isSpecial(path)) continue;
    const earlier = options.get(resolve(path));
    if (earlier !== undefined)
      throw new ConfigError(`${option}: ${path} is already the file of ${earlier}; choose another file`);
    options.set(resolve(path), option);
  }
}

/**
 * Checks before a long run that a picture of its result can be drawn and written, into a folder that exists.
 * @throws UnsupportedError when vega is not installed; ConfigError for a file that cannot be written, or whose name
 *   does not end in .svg
 */
export async function requirePicture(option: string, path: string): Promise<void> {
  if (!/\.svg$/i.test(path) && !isSpecial(path))
    throw new ConfigError(`${option}: ${path} must end in .svg, because the picture is drawn as SVG`);
  await loadVega().catch((cause) => {
    throw notInstalled(option, cause);
  });
  requireWritable(option, path);
}

/** Writes a file into a folder that exists. @throws FileError */
export function writeOutput(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (cause) {
    throw new FileError(`${path} cannot be written: ${(cause as Error).message}`, { cause });
  }
}
