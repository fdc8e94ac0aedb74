/** The files of a report. */
import { join } from 'node:path';
import type { FigureResult } from '../../bench/figures/evaluate.ts';
import { drawSvg, writeInto } from '../svg.ts';
import { chartOf } from './chart.ts';
import { type Charts, htmlOf } from './html.ts';
import { markdownOf } from './markdown.ts';
import { jsonOf, type Report } from './report.ts';
import { commandOfReport } from './sections.ts';

/** Each figure for wide and for narrow pages; null when vega is not installed. */
async function draw(figures: readonly FigureResult[]): Promise<Charts | null> {
  const charts = new Map<string, { wide: string; narrow: string }>();
  for (const figure of figures) {
    const wide = await drawSvg(chartOf(figure, 'wide'));
    const narrow = await drawSvg(chartOf(figure, 'narrow'));
    if (wide === null || narrow === null) return null;
    charts.set(figure.name, { wide, narrow });
  }
  return charts;
}

/** Writes report.json, report.md and report.html into the folder. */
export async function writeReport(report: Report, folder: string): Promise<void> {
  const charts = await draw(report.figures);
  const { isoverbs, node } = report.versions;
  const intro = [
    `\`${commandOfReport(report)}\`; isoverbs ${isoverbs}, Node.js ${node}, profiles ${report.profiles.slice(0, 12)}.`,
  ];
  writeInto(join(folder, 'report.json'), `${JSON.stringify(jsonOf(report), null, 2)}\n`);
  writeInto(join(folder, 'report.md'), markdownOf(report, intro));
  writeInto(join(folder, 'report.html'), htmlOf(report, charts));
}
