/** The table of `isoverbs compare --random`, and the commands that repeat the worst cases. */
import Table from 'cli-table3';
import {
  type Case,
  isWorse,
  MEASURES,
  type Measure,
  type PolicyHarm,
  type RateCase,
  type WorseOff,
} from '../../compare/worse-off.ts';
import { brief } from './compare-table.ts';
import { foldedCommand, outWidth, withFittingPolicies, wrapped } from './table.ts';

export const MEASURE_NAMES = Object.keys(MEASURES) as Measure[];

/** Cases listed for each policy and measure. `--json` lists all of them. */
const LISTED = 3;
const NOTHING = 'none';

const ratioText = (ratio: number) =>
  Number.isNaN(ratio) ? '-' : Number.isFinite(ratio) ? ratio.toFixed(2) : NOTHING;

function table({ policies }: WorseOff, policyOf: (policy: string) => string): string {
  const out = new Table({
    head: ['policy', 'relative to bare', 'of', 'worse', 'median', 'worst'],
    style: { head: [], border: [] },
    colAligns: ['left', 'left', 'right', 'right', 'right', 'right'],
  });
  for (const { policy, summary } of policies) {
    const lines = MEASURE_NAMES.map((measure) => {
      const { of, worse, belowShare, median, worst } = summary[measure];
      const both = belowShare === undefined ? worse : `${worse} (${belowShare})`;
      return [MEASURES[measure].title, of, both, ratioText(median), ratioText(worst)];
    });
    out.push([
      policyOf(policy),
      ...lines[0].map((_, column) => lines.map((line) => line[column]).join('\n')),
    ]);
  }
  return out.toString();
}

const fitting = (line: string) => wrapped(line, outWidth());

function amount(value: number, measure: Measure): string {
  return Number.isFinite(value) ? `${brief(value)} ${MEASURES[measure].unit}` : 'no completion';
}

function caseText({ mixture, app, measure, bare, under, ratio, command }: Case): string {
  const what = app === undefined ? MEASURES[measure].title : `${app}, ${MEASURES[measure].title.slice(3)}`;
  const change = `${amount(under, measure)} instead of ${amount(bare, measure)} (${ratioText(ratio)})`;
  return `${fitting(`mixture ${mixture}, ${what}: ${change}`)}\n${foldedCommand(command, '  ')}`;
}

function rateText({ mixture, app, gbps, rateGbps, dueGbps, command }: RateCase): string {
  const rate = Number.isFinite(rateGbps) ? `rate ${brief(rateGbps)}` : 'no rate';
  const due = Number.isNaN(dueGbps) ? '' : `, due ${brief(dueGbps)}`;
  const line = fitting(`mixture ${mixture}, ${app}: ${brief(gbps)} Gbit/s on the wire (${rate}${due})`);
  return `${line}\n${foldedCommand(command, '  ')}`;
}

/** How a policy keeps random rates, and every exception. */
function rateLines({ policy, rates }: PolicyHarm): string[] {
  if (rates === undefined) return [];
  const { rated, due, above, below } = rates;
  return [
    '',
    fitting(`The same mixtures with random rates under ${policy}:`),
    fitting(`above their rates by more than 1 %: ${above.length} of ${rated} applications`),
    ...above.map(rateText),
    fitting(`below their shares by more than 3 %: ${below.length} of ${due} applications that ask for more`),
    ...below.map(rateText),
  ];
}

const NOTES = [
  'of: number of applications or mixtures; worse: how many are worse by more than 10 %;',
  'in brackets: how many of those also send more than 10 % less than an equal share of their link',
];

/** The table for a terminal. */
export function worseOffText(result: WorseOff): string {
  const { seed, mixtures, policies, runs } = result;
  const lines = [withFittingPolicies((policyOf) => table(result, policyOf)), ...NOTES.map(fitting)];
  for (const { policy, cases } of policies) {
    const worst = MEASURE_NAMES.flatMap((measure) => cases[measure].filter(isWorse).slice(0, LISTED));
    if (worst.length === 0) continue;
    lines.push(
      '',
      fitting(`The worst cases under ${policy} (for the bare run, use --policy none):`),
      ...worst.map(caseText),
    );
  }
  lines.push(...policies.flatMap(rateLines));
  const { duration, warmup } = mixtures[0];
  const many = mixtures.length === 1 ? '1 random mixture' : `${mixtures.length} random mixtures`;
  const ran = `${many} of seed ${seed}, ${runs} runs of ${duration}, including ${warmup} of warm-up`;
  lines.push('', fitting(ran));
  return `${lines.join('\n')}\n`;
}
