/** Lists and selects figures. */
import { ConfigError } from '../../verbs/errors.ts';
import type { NamedFigure } from './figure.ts';
import { shows } from './figure-numbers.ts';
import { FIGURES_NOT_SHOWN } from './figures-not-shown.ts';
import { PAPERS } from './papers.ts';

/** All figures, by paper and number. */
export function allFigures(): NamedFigure[] {
  const named = PAPERS.flatMap(({ key: paper, figures }) =>
    figures.map((figure) => ({ ...figure, name: `${paper}-${figure.number}`, paper })),
  );
  return named.sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

/** Figures that show these numbers, given as names such as `perf-2b`; `all` selects every figure. @throws ConfigError for an unknown name */
export function selectFigures(figures: readonly NamedFigure[], names: readonly string[]): NamedFigure[] {
  for (const name of names) {
    if (name === 'all' || figures.some((figure) => shows(figure, name))) continue;
    const missing = FIGURES_NOT_SHOWN.find(({ ids }) => ids.includes(name));
    if (missing !== undefined) throw new ConfigError(`figure '${name}' is not drawn: ${missing.reason}`);
    const known = figures.map((figure) => figure.name).join(', ');
    throw new ConfigError(`unknown figure '${name}'; choose from: all, ${known}`);
  }
  return figures.filter((figure) => names.some((name) => name === 'all' || shows(figure, name)));
}
