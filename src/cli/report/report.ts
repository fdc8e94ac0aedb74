/** Everything that `isoverbs reproduce` reports. */
import { commandOf } from '../../mix/mixture.ts';
import type { Claim } from '../../papers/engine/claim.ts';
import type { Row } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import type { Drift } from '../../papers/engine/frozen.ts';
import type { NotShown } from '../../papers/engine/paper.ts';
import { heldInForms, type PaperClaim } from '../../papers/engine/report.ts';

export interface Report {
  /** The command that produces the same report. */
  command: string;
  /** `code` is a hash of all code on which a run depends. */
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
  claims: readonly Claim[];
  rows: readonly Row[];
  figures: readonly FigureResult[];
}

/** The report for programs. Each mixture of a claim is printed as the command that runs it with the first seed. */
export function jsonOf(report: Report): object {
  const claims = report.claims.map(({ system, id, part, title, source, shows, note, mixes }) => {
    const commands = Object.entries(mixes).map(([name, mix]) => [name, commandOf(mix, report.seeds[0])]);
    return { system, id, part, title, source, shows, note, mixes: Object.fromEntries(commands) };
  });
  return { ...report, claims, forms: heldInForms(report.claims, report.rows) };
}
