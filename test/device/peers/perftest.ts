/** Runs perftest's C programs against ours and returns the final report of each. */

import { MAIN as CLI } from '../../support/main.ts';
import { listening, type Outcome, start } from './program.ts';

/** The numbers of the last row of a table. */
export type Row = number[];

export interface Ends {
  ours: Row;
  theirs: Row;
}

/** Tests whose server prints no result, as the target of READs and atomics is passive. */
const CLIENT_ONLY = ['read_lat', 'atomic_lat'];

/** Runs a test between our end on the first device and theirs on the second. */
export async function againstPerftest(
  test: string,
  we: 'client' | 'server',
  port: number,
  flags: readonly string[],
): Promise<Ends> {
  const common = ['-F', '-p', `${port}`, ...flags];
  const startOurs = (...more: string[]) =>
    start(process.execPath, CLI, 'bench', test, '-d', process.env.RXE_DEV ?? '', ...common, ...more);
  const startTheirs = (...more: string[]) =>
    start(`ib_${test}`, '-d', process.env.RXE_DEV2 ?? '', ...common, ...more);
  const [server, client] = we === 'client' ? [startTheirs, startOurs] : [startOurs, startTheirs];
  const serving = server();
  await listening(port);
  const outcomes = await Promise.all([client('127.0.0.1').done, serving.done]);
  const [ours, theirs] = we === 'client' ? outcomes : outcomes.reverse();
  if (!CLIENT_ONLY.includes(test)) return { ours: rowOf('ours', ours), theirs: rowOf('theirs', theirs) };
  const row = we === 'client' ? rowOf('ours', ours) : rowOf('theirs', theirs);
  if (ours.code !== 0 || theirs.code !== 0) throw new Error(`${ours.output}\n${theirs.output}`);
  return { ours: row, theirs: row };
}

function rowOf(whose: string, { code, output }: Outcome): Row {
  const row = output
    .split('\n')
    .filter((line) => /^ \d+ +\d/.test(line))
    .at(-1);
  if (code !== 0 || row === undefined) throw new Error(`${whose} ended with ${code}:\n${output}`);
  return row.trim().split(/\s+/).map(Number);
}
