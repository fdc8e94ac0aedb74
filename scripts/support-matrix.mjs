// Writes docs/support.md, the table of features by provider, from the results of the verbs suite.
//   node scripts/support-matrix.mjs [--check] REPORT.json...     (vitest's JSON reports, of any number of runs)
import { readFileSync, writeFileSync } from 'node:fs';

const FILE = new URL('../docs/support.md', import.meta.url);
const GROUNDS = ['sim', 'soft', 'rxe'];

const files = process.argv.slice(2).filter((arg) => arg !== '--check');
const check = process.argv.includes('--check');
if (files.length === 0) {
  console.error(
    'support-matrix: give the JSON reports of the verbs suite as arguments; npm run docs:support creates them',
  );
  process.exit(2);
}

/**
 * @typedef {{ passed: number, failed: number, refused: boolean }} Result
 * @typedef {{ group: string, name: string, others: string, by: Record<string, Result> }} Feature
 */

/** @type {Record<string, Feature>} */
const features = {};
for (const file of files) {
  /** @type {{ testResults: { assertionResults: { status: string, meta: any }[] }[] }} */
  const report = JSON.parse(readFileSync(file, 'utf8'));
  for (const { meta, status } of report.testResults.flatMap((suite) => suite.assertionResults)) {
    const feature = meta?.feature;
    if (feature === undefined || (status !== 'passed' && status !== 'failed')) continue;
    const { group, name, others, ground, refused } = feature;
    features[`${group}: ${name}`] ??= { group, name, others, by: {} };
    const { by } = features[`${group}: ${name}`];
    by[ground] ??= { passed: 0, failed: 0, refused };
    by[ground][status]++;
  }
}

/**
 * The text of a cell. Throws when a case failed, because the table must not claim support that is broken.
 * @param {string} key
 * @param {Result | undefined} result
 */
function cell(key, result) {
  if (result === undefined) throw new Error(`${key}: no result; run the suite on ${GROUNDS.join(' and ')}`);
  if (result.failed > 0) throw new Error(`${key}: ${result.failed} cases failed`);
  return result.refused ? 'refused' : `yes (${result.passed})`;
}

/**
 * Cases (test methods) in rdma-core's tests/test_*.py, as of August 2026 (commit 691953d), of the groups that soft-RoCE
 * can run at least in part. Our suite must have at least as many on each provider.
 * @type {Record<string, number>}
 */
const RDMA_CORE_CASES = {
  addr: 3,
  atomic: 9,
  cq: 4,
  cq_events: 2,
  cqex: 5,
  device: 24,
  mr: 38,
  pd: 4,
  qp: 29,
  qpex: 22,
  rdmacm: 11,
  relaxed_ordering: 4,
  shared_pd: 1,
  srq: 3,
};

/**
 * The number of our cases of a group that pass on a provider, without refusals.
 * @param {string} group
 * @param {string} ground
 */
function casesOf(group, ground) {
  const results = Object.values(features).filter((feature) => feature.group === group);
  return results.reduce((sum, { by }) => sum + (by[ground]?.refused === false ? by[ground].passed : 0), 0);
}

const counterparts = Object.entries(RDMA_CORE_CASES).map(([group, theirs]) => {
  const ours = GROUNDS.map((ground) => casesOf(group, ground));
  if (Math.min(...ours) < theirs) throw new Error(`${group}: ${ours} cases, rdma-core has ${theirs}`);
  return [group, theirs, ...ours].join(' | ');
});

const rows = Object.entries(features)
  .sort(([a], [b]) => (a < b ? -1 : 1))
  .map(([key, { group, name, others, by }]) =>
    [group, name, ...GROUNDS.map((ground) => cell(key, by[ground])), others].join(' | '),
  );

const text = `# What works where

\`npm run docs:support\` generates this page from the results of the verbs suite (\`test/verbs\`), which runs every case
on simulated devices, on [RoCE in user space](soft.md) and on soft-RoCE of Linux 6.1. *yes (n)*: n cases pass.
*refused*: the device does not support the feature, and each case ends in an \`UnsupportedError\`
(\`ISO_ERR_UNSUPPORTED\`). The first column is the group of rdma-core's own tests that covers the same feature.

| group | feature | simulated | user space | soft-RoCE (6.1) | other devices need |
|---|---|---|---|---|---|
${rows.map((row) => `| ${row} |`).join('\n')}

## Counterparts of rdma-core's tests

The number of cases in rdma-core's own Python tests (\`tests/test_*.py\`: the whole group, including device memory and
GPUs), and of our cases that pass, without refusals. Tests of a single vendor (\`efa*\`, \`mlx5*\`), of GPUs
(\`cuda_dmabuf\`) and of a NIC's hardware clock (\`phc_timestamp\`; cqex and device cover the clock itself) have no
counterpart.

| group | rdma-core | simulated | user space | soft-RoCE (6.1) |
|---|---|---|---|---|
${counterparts.map((row) => `| ${row} |`).join('\n')}

These tests do not run on a ConnectX. The last column, about other devices, follows from the interfaces of rdma-core,
not from a run.
`;

if (check) {
  // The number of cases may change without changing the table's statements.
  const said = (/** @type {string} */ page) => page.replace(/\d+/g, 'n');
  if (said(readFileSync(FILE, 'utf8')) !== said(text)) {
    console.error('docs/support.md does not match the tests: run npm run docs:support');
    process.exit(1);
  }
} else {
  writeFileSync(FILE, text);
}
