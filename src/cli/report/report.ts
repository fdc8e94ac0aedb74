/** All that `isoverbs reproduce` found out. */

import { commandOf } from '../../mix/jobs.ts';
import type { Row } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import type { Drift } from '../../papers/engine/frozen.ts';
import type { NamedClaim } from '../../papers/engine/load-claims.ts';
import type { NotShown } from '../../papers/engine/paper.ts';
import type { PaperClaim } from '../../papers/engine/papers.ts';

export interface Report {
  /** `code` is a hash of all code that a run depends on. */
  /** What gives a report the same content. */
  command: string;
  versions: { isoverbs: string; node: string; code: string };
  /** Hash of the parameters of all devices. */
  profiles: string;
  systems: readonly string[];
  seeds: readonly number[];
  runs: number;
  broken: readonly string[];
  drift: readonly Drift[];
  notShown: readonly NotShown[];
  paper: readonly PaperClaim[];
  claims: readonly NamedClaim[];
  rows: readonly Row[];
  figures: readonly FigureResult[];
}

/** For programs: each mix of a claim is the command that runs it with the first seed. */
export function jsonOf(report: Report): object {
  const claims = report.claims.map(({ system, id, part, title, source, note, mixes }) => {
    const commands = Object.entries(mixes).map(([name, mix]) => [name, commandOf(mix, report.seeds[0])]);
    return { system, id, part, title, source, note, mixes: Object.fromEntries(commands) };
  });
  return { ...report, claims };
}
