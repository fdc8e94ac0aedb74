/** Pictures, by vega-lite: an optional dependency. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { TopLevelSpec } from 'vega-lite';

/** SVG text; null when vega is not installed. */
export async function drawSvg(spec: TopLevelSpec): Promise<string | null> {
  const modules = await Promise.all([import('vega'), import('vega-lite')]).catch(() => null);
  if (modules === null) return null;
  const [vega, vegaLite] = modules;
  const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: 'none' });
  return view.toSVG();
}

/** Makes the folder too: out/, which a fresh clone does not have. */
export function writeInto(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
