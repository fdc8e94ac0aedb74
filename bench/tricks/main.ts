/**
 * Measures what tricks of a tenant gain over its fair share, and what they cost an honest tenant, under one daemon. Prints
 * JSON, medians over rounds. Requires root.
 *   node bench/tricks/main.js [--docs]
 * --docs: also updates the table of docs/daemon.md. ISOVERBS_ROUNDS: rounds (3). ISOVERBS_SECONDS: of each run (4).
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { ROOT } from '../root.ts';
import { p50, rounded } from '../timing.ts';
import { type Rates, ratesOf, type Setting } from './ground.ts';
import { CHEAT, NONE, TRICKS } from './tricks.ts';

const ROUNDS = Number(process.env.ISOVERBS_ROUNDS ?? 3);
const SECONDS = Number(process.env.ISOVERBS_SECONDS ?? 4);
const LINK_GBPS = 0.4;
const PER_S = 500;
const PAGE = `${ROOT}docs/daemon.md`;
const TABLE = /(<!-- table of tricks -->\n)[\s\S]*?(<!-- end of the table -->)/;

const SHARES: Setting = {
  config: { devices: { null0: { linkGbps: LINK_GBPS } } },
  policy: `token-bucket:linkGbps=${LINK_GBPS}`,
};
const LIMIT: Setting = {
  config: { rules: [{ match: { uid: CHEAT }, tenant: 'limited', maxRequestsPerS: PER_S }] },
  policy: '',
};

interface Row {
  readonly trick: string;
  readonly gainOverSharePercent: number;
  readonly harmToOthersPercent: number;
  readonly gainOverLimitPercent: number;
}

const percent = (of: number, fair: number) => rounded((of / fair - 1) * 100);

/** All rates of one round, for each trick and at first without one. */
async function round(setting: Setting): Promise<Rates[]> {
  const rates: Rates[] = [];
  for (const trick of [NONE, ...TRICKS]) rates.push(await ratesOf(trick, setting, SECONDS));
  return rates;
}

function rowsOf(shares: readonly Rates[][], limits: readonly Rates[][]): Row[] {
  return TRICKS.map(({ name }, i) => {
    const median = (rounds: readonly Rates[][], of: (round: Rates[]) => number) =>
      rounded(p50(rounds.map(of)));
    return {
      trick: name,
      gainOverSharePercent: median(shares, (one) => percent(one[i + 1].cheat, one[0].cheat)),
      harmToOthersPercent: median(shares, (one) => -percent(one[i + 1].honest, one[0].honest)),
      gainOverLimitPercent: median(limits, (one) => percent(one[i + 1].cheat, PER_S)),
    };
  });
}

function writeTable(rows: readonly Row[]): void {
  const page = readFileSync(PAGE, 'utf8');
  if (!TABLE.test(page)) throw new Error(`${PAGE} lacks the comments that mark the table`);
  const shown = (value: number) => `${Math.round(value) || 0} %`.replace('-', '−');
  const lines = rows.map((row) =>
    [
      row.trick,
      shown(row.gainOverSharePercent),
      shown(row.harmToOthersPercent),
      shown(row.gainOverLimitPercent),
    ].join(' | '),
  );
  const head = ['a program of the tenant', 'gain over its share', 'harm to the other', 'gain over its limit'];
  const table = [head.join(' | '), '--- | ---: | ---: | ---:', ...lines]
    .map((line) => `| ${line} |`)
    .join('\n');
  writeFileSync(
    PAGE,
    page.replace(TABLE, (_all, begin, end) => `${begin}\n${table}\n\n${end}`),
  );
}

const [shares, limits]: Rates[][][] = [[], []];
for (let i = 0; i < ROUNDS; i++) {
  shares.push(await round(SHARES));
  limits.push(await round(LIMIT));
}
const rows = rowsOf(shares, limits);
console.log(
  JSON.stringify(
    { benchmark: 'tricks', node: process.version, rounds: ROUNDS, rows, shares, limits },
    null,
    2,
  ),
);
if (process.argv.includes('--docs')) writeTable(rows);
