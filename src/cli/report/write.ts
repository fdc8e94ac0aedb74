/** Writes the files of a report. */
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders } from '../../interceptors/folders.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { jsonText } from '../output/json.ts';
import { canDraw, drawSvg, writeInto } from '../output/svg.ts';
import { chartOf, FONT, type Layout } from './chart.ts';
import { type Charts, htmlOf } from './html.ts';
import { markdownOf } from './markdown.ts';
import { jsonOf, type Report } from './report.ts';

/** The folder of report.md's pictures, next to it. */
const PICTURES = 'figures';

/** What a browser shows when a reader points at a mark. */
const withTips = (svg: string) =>
  svg.replace(/<path aria-label="([^"]*)"([^>]*)\/>/g, '<path$2><title>$1</title></path>');

/** Removes the redundant half of vega's output, and rounds coordinates to a tenth of a pixel. */
export function slim(svg: string): string {
  return withTips(svg)
    .replace(/<path class="(?:back|fore)ground"[^>]* d="(?:M0,0h0v0h0Z)?"[^>]*\/>/g, '')
    .replace(/<g class="mark-text[^"]*"/g, '<g fill="#000"')
    .replace(/<g class="mark-rule role-axis-grid[^"]*"/g, '<g stroke="#ddd"')
    .replace(/ (?:class|font-family)="[^"]*"/g, '')
    .replace(/ (?:aria-hidden="true"|pointer-events="none"|opacity="1"|stroke-width="1")/g, '')
    .replace(/ role="graphics-\w+" aria-roledescription="[\w ]+"/g, '')
    .replace(/(<path (?![^>]* stroke=)[^>]*) stroke-width="[^"]*"/g, '$1')
    .replace(/(<text[^>]*) fill="#000"/g, '$1')
    .replace(/(<line[^>]*) stroke="#ddd"/g, '$1')
    .replace(/ (?:font-size="11px"|text-anchor="start"|[xy]2="0"|transform="translate\(0,0\)")/g, '')
    .replace(/(?<=\.\d)\d+(?=[^<>]*>)/g, '')
    .replace('<svg ', `<svg font-family="${FONT}" font-size="11px" `);
}

async function drawn(figure: FigureResult, layout: Layout): Promise<string> {
  return slim(await drawSvg(chartOf(figure, layout)));
}

/** For a picture that is an `<img>`: its marks show no values when the pointer is over them. */
const withoutTips = (svg: string) => svg.replace(/<path([^>]*)><title>[^<]*<\/title><\/path>/g, '<path$1/>');

/** Draws each figure for wide and for narrow pages. Null if vega is not installed. */
async function draw(figures: readonly FigureResult[]): Promise<Charts | null> {
  if (!(await canDraw())) return null;
  const charts = new Map<string, { wide: string; narrow: string }>();
  for (const figure of figures) {
    const wide = await drawn(figure, 'wide');
    const narrow = await drawn(figure, 'narrow');
    charts.set(figure.name, { wide, narrow });
  }
  return charts;
}

/** Checks the folder before the runs, whose results would be lost otherwise. Keeps an existing report. @throws ConfigError */
export function requireFolder(folder: string): void {
  try {
    makeFolders(join(folder, 'runs'));
    closeSync(openSync(join(folder, 'report.json'), 'a'));
  } catch (error) {
    throw new ConfigError(`out: ${folder} cannot be written: ${(error as Error).message}`);
  }
}

/** Writes report.json, report.md with its pictures, and report.html into the folder. */
export async function writeReport(report: Report, folder: string): Promise<void> {
  const charts = await draw(report.figures);
  for (const [name, { wide }] of charts ?? []) {
    writeInto(join(folder, PICTURES, `${name}.svg`), withoutTips(wide));
  }
  const picture = ({ name }: FigureResult) => (charts === null ? undefined : `${PICTURES}/${name}.svg`);
  const { isoverbs, node } = report.versions;
  const seeds = `seed${report.seeds.length === 1 ? '' : 's'} ${report.seeds.join(', ')}`;
  const profiles = report.profiles.slice(0, 12);
  const intro = [
    `\`${report.command}\` (${seeds}); ${report.date}, isoverbs ${isoverbs}, Node.js ${node}, profiles ${profiles}.`,
  ];
  writeInto(join(folder, 'report.json'), jsonText(jsonOf(report)));
  writeInto(join(folder, 'report.md'), markdownOf(report, intro, picture));
  writeInto(join(folder, 'report.html'), htmlOf(report, charts));
}
