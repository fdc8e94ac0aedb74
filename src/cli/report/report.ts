/** Everything that `isoverbs reproduce` reports. */
import { commandOf } from '../../mix/mixture.ts';
import type { Claim } from '../../papers/engine/claim.ts';
import { computationJob } from '../../papers/engine/computation-jobs.ts';
import type { Row } from '../../papers/engine/evaluate-claim.ts';
import type { FigureResult } from '../../papers/engine/evaluate-figure.ts';
import type { Drift } from '../../papers/engine/frozen.ts';
import type { NotShown } from '../../papers/engine/paper.ts';
import { heldInForms, type PaperClaim } from '../../papers/engine/report.ts';

/** What differs between two reports. */
export interface Comparison {
  /** File, version, date and seeds of the older report. */
  with: string;
  /** Whether the seeds differ, which changes measurements by itself. */
  otherSeeds: boolean;
  /** Claims of papers and lines with another verdict. */
  verdicts: readonly { what: string; was: string; is: string }[];
  /** Lines whose measurement changed by more than 1 %, with their unit. */
  measured: readonly { what: string; was: number | null; is: number | null; unit: string }[];
  /** Points of figures that changed by more than 1 %, and all points that both reports have. */
  figures: readonly { name: string; changed: number; points: number }[];
  /** Lines that only one of the reports has. */
  added: readonly string[];
  gone: readonly string[];
}

export interface Report {
  /** The command that produces the same report. */
  command: string;
  /** The day, in UTC: `2026-01-31`. */
  date: string;
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
  /** The comparison with an older report, if one was named. */
  against?: Comparison;
}

/** The commands of a claim's runs and computations with the first seed, by name. */
export function commandsOf(
  { mixes, computations = {} }: Claim,
  [seed]: readonly number[],
): Record<string, string> {
  return Object.fromEntries([
    ...Object.entries(mixes).map(([name, mix]) => [name, commandOf(mix, seed)]),
    ...Object.entries(computations).map(([name, one]) => [name, computationJob(one, seed).command]),
  ]);
}

/** The command that checks this claim alone. */
export function claimCommand({ system, id }: Claim, seeds: readonly number[]): string {
  return `isoverbs reproduce --system ${system} --id ${id} --seeds ${seeds.join(',')}`;
}

/** The report for programs. Each mixture of a claim is printed as the command that runs it with the first seed. */
export function jsonOf(report: Report): object {
  const claims = report.claims.map((claim) => {
    const { system, id, part, title, source, shows, note } = claim;
    const command = claimCommand(claim, report.seeds);
    return { system, id, part, title, source, shows, note, command, mixes: commandsOf(claim, report.seeds) };
  });
  return { ...report, claims, forms: heldInForms(report.claims, report.rows) };
}
