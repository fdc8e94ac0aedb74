/** Parts of error messages: what was probably meant by a name that does not exist, and what to do instead. */

/** The most typing errors in a name: of a short one, and of a longer one. */
const SHORT_NAME = 4;
const SHORT_TYPOS = 1;
const LONG_TYPOS = 2;

/** Whether a name is another one in other case, or with up to two typing errors. */
export function isMisspelt(name: string, known: string): boolean {
  const [one, other] = [name.toLowerCase(), known.toLowerCase()];
  const most = Math.min(one.length, other.length) <= SHORT_NAME ? SHORT_TYPOS : LONG_TYPOS;
  return typosBetween(one, other) <= most;
}

/** Asks for the names that may have been meant by one that does not exist: see `questionFor`. */
export function didYouMean(name: string, known: readonly string[]): string {
  return questionFor(known.filter((one) => isMisspelt(name, one)));
}

/** The same as the end of a sentence: `; did you mean 'x'?`. */
export function meantBy(name: string, known: readonly string[]): string {
  const question = didYouMean(name, known).trim();
  return question === '' ? '' : `; ${question}`;
}

/** Asks for the names with the fewest typing errors alone, for names that resemble each other. */
export function didYouMeanNearest(name: string, known: readonly string[]): string {
  const similar = known.filter((one) => isMisspelt(name, one));
  const typos = similar.map((one) => typosBetween(name.toLowerCase(), one.toLowerCase()));
  return questionFor(similar.filter((_one, i) => typos[i] === Math.min(...typos)));
}

/** Asks whether these names were meant, with a space behind the question; empty if there are none. */
export function questionFor(meant: readonly string[]): string {
  return meant.length === 0 ? '' : `did you mean '${meant.join("', '")}'? `;
}

/**
 * The fewest letters to insert, delete, replace, or swap with the next one, that turn one name into another (Damerau's
 * distance, with no letter changed twice).
 */
function typosBetween(one: string, other: string): number {
  // By length of the part of `one`: the distances from each part of `other`.
  const rows = [Array.from({ length: other.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = rows[i - 1][j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1);
      row[j] = Math.min(replaced, rows[i - 1][j] + 1, row[j - 1] + 1);
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1])
        row[j] = Math.min(row[j], rows[i - 2][j - 2] + 1);
    }
    rows.push(row);
  }
  return rows[one.length][other.length];
}

/** What to do if an end of a simulated connection is in another process. */
export const OTHER_PROCESS =
  "simulated devices connect within one process only: for several, set ISOVERBS_PROVIDER=soft (UDP sockets, docs/soft.md), run them under 'isoverbs rxe -- COMMAND' (a virtual machine with soft-RoCE), or put both ends into one process";
