/** The figures of the papers' folders. To add one is to add a file. */
import { readdirSync } from 'node:fs';
import { ConfigError } from '../../verbs/errors.ts';
import type { Figure, NamedFigure } from './figure.ts';
import { shows } from './figure-numbers.ts';
import { FIGURES_NOT_SHOWN } from './figures-not-shown.ts';

const HERE = new URL('../figures/', import.meta.url);

/** All figures, by paper and number. */
export async function loadFigures(): Promise<NamedFigure[]> {
  const papers = readdirSync(HERE, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  const figures = await Promise.all(papers.map(ofPaper));
  return figures.flat().sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

function ofPaper(paper: string): Promise<NamedFigure[]> {
  const folder = new URL(`${paper}/`, HERE);
  const files = readdirSync(folder).filter((name) => /(?<!\.d)\.[jt]s$/.test(name));
  return Promise.all(
    files.map(async (file) => {
      const module: { default: Figure } = await import(new URL(file, folder).href);
      const number = file.slice(0, -'.ts'.length);
      return { ...module.default, name: `${paper}-${number}`, paper, number };
    }),
  );
}

/** Those that show these numbers, with the name of their paper; `all` is all. @throws ConfigError for one that is not there */
export function selectFigures(figures: readonly NamedFigure[], names: readonly string[]): NamedFigure[] {
  for (const name of names) {
    if (name === 'all' || figures.some((figure) => shows(figure, name))) continue;
    const not = FIGURES_NOT_SHOWN.find(({ ids }) => ids.includes(name));
    if (not !== undefined) throw new ConfigError(`figure '${name}' is not drawn: ${not.reason}`);
    const there = figures.map((figure) => figure.name).join(', ');
    throw new ConfigError(`there is no figure '${name}'; there is all, ${there}`);
  }
  return figures.filter((figure) => names.some((name) => name === 'all' || shows(figure, name)));
}
