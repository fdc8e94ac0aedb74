/** Lists and selects figures. */
import { ConfigError } from '../../verbs/errors.ts';
import { didYouMeanNearest } from '../../verbs/suggestions.ts';
import type { NamedFigure } from './figure.ts';
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
    const known = figures.map((figure) => figure.name);
    const question = didYouMeanNearest(name, ['all', ...known]);
    throw new ConfigError(`unknown figure '${name}'; ${question}choose from: all, ${known.join(', ')}`);
  }
  return figures.filter((figure) => names.some((name) => name === 'all' || shows(figure, name)));
}

/** By paper. Parts are listed where the text or the captions distinguish them. */
const NUMBERS: Readonly<Record<string, string>> = {
  perf: `1a 1b 1c 2a 2b 3a 3b 3c 4 5a 5b 6a 6b 7a 7b 8a 8b 9a 9b 9c 9d 9e 9f 10a 10b 10c 10d 10e 10f 11 12a 12b 13a 13b
    14a 14b 15a 15b 15c 15d 16a 16b 17a 17b 18a 18b 19a 19b 19c 19d table-1 table-2`,
  justitia: `1 2 3a 3b 4 5 6 7 8 9 10 11a 11b 12 13a 13b 14a 14b 15a 15b 16a 16b 17a 17b 18 19 20 21 22 23 24 25a 25b 26
    27 28a 28b 28c 29a 29b 30 31 32 33a 33b 34a 34b 34c 34d 35 36 37 38 39 table-1`,
  palos: '1 2 3 4 5 6 7 8 9a 9b 10 11',
  drum: '1 2a 2b 2c 3 4a 4b 5a 5b 6a 6b 7 8 9 10 11 12a 12b 13 14 15a 15b 15c 15d 16a 16b 16c 16d 17a 17b 17c',
  tassel: '1 2 3 4 5 6 7 8a 8b 9',
};

/** The name of a figure, such as `perf-2b`. */
export const ALL_NUMBERS: readonly string[] = Object.entries(NUMBERS).flatMap(([paper, numbers]) =>
  numbers.split(/\s+/).map((number) => `${paper}-${number}`),
);

/** Whether a figure shows `wanted`: its own number, a part of it, or a number in `also`. */
export function shows(
  { name, paper, also = [] }: Pick<NamedFigure, 'name' | 'paper' | 'also'>,
  wanted: string,
): boolean {
  return [name, ...also.map((number) => `${paper}-${number}`)].some(
    (one) => wanted === one || (wanted.startsWith(one) && /^[a-z]$/.test(wanted.slice(one.length))),
  );
}
