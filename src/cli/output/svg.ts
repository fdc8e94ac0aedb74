/** Draws pictures with vega-lite, an optional dependency. */
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { TopLevelSpec } from 'vega-lite';
import { makeFolders } from '../../interceptors/folders.ts';
import { ConfigError } from '../../verbs/errors.ts';

/** Returns SVG text; null when vega is not installed. */
export async function drawSvg(spec: TopLevelSpec): Promise<string | null> {
  const modules = await Promise.all([import('vega'), import('vega-lite')]).catch(() => null);
  if (modules === null) return null;
  const [vega, vegaLite] = modules;
  textMetricsOf(vega).width = textWidth;
  const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: 'none' });
  return view.toSVG();
}

/** The object with which vega measures text; it is missing from vega's types. */
function textMetricsOf(vega: object): { width: typeof textWidth } {
  return (vega as { textMetrics: { width: typeof textWidth } }).textMetrics;
}

/** Letter widths in Helvetica and Arial, in em; all other letters are 0.56. */
const WIDTHS: readonly (readonly [letters: RegExp, em: number])[] = [
  [/[ijltf.,:;'|!()[\] ]/, 0.28],
  [/[mwMW@%]/, 0.87],
  [/[A-Z]/, 0.69],
];

/** Estimates a text's width. Without a canvas vega assumes 0.8 em per letter, which leaves wide margins. */
function textWidth(
  item: { fontSize?: number; fontWeight?: string | number; text?: unknown },
  line?: unknown,
): number {
  const em = [...String(line ?? item.text ?? '')]
    .map((letter) => WIDTHS.find(([letters]) => letters.test(letter))?.[1] ?? 0.56)
    .reduce((sum, width) => sum + width, 0);
  return em * (item.fontSize ?? 11) * (item.fontWeight === 'bold' ? 1.1 : 1);
}

/** Writes a file, and creates its folder: a fresh clone has no out/. */
export function writeInto(path: string, text: string): void {
  makeFolders(dirname(path));
  writeFileSync(path, text);
}

/**
 * Checks before a long run that its result can be written, into a folder that exists. An existing file keeps its contents.
 * @throws ConfigError
 */
export function requireWritable(option: string, path: string): void {
  try {
    closeSync(openSync(path, 'a'));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const hint = code === 'ENOENT' ? `; create the folder ${dirname(path)}, or choose another` : '';
    throw new ConfigError(`${option}: ${path} cannot be written: ${message}${hint}`);
  }
}

/** Writes a picture, or reports why there is none. */
export function writeSvg(path: string, svg: string | null): void {
  if (svg !== null) writeFileSync(path, svg);
  else console.error('No picture was drawn: install the optional packages vega and vega-lite.');
}
