// Sums up the steps of .ci/run and their tests, and lists the slowest test files. The last line is the result.
//   node scripts/ci-report.mjs STEPS FOLDER     (STEPS: "passed NAME" or "failed NAME" a line; FOLDER: JSON reports)
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

const SLOWEST = 10;
const [stepsFile, out] = process.argv.slice(2);
const totals = { passed: 0, failed: 0, skipped: 0 };
/** @type {{ seconds: number, name: string, report: string }[]} */
const files = [];

for (const line of readFileSync(stepsFile, 'utf8').trim().split('\n')) {
  totals[line.startsWith('passed ') ? 'passed' : 'failed']++;
  if (!line.startsWith('passed ')) console.log(line);
}
const reports = readdirSync(out, { recursive: true, encoding: 'utf8' })
  .filter((name) => /^(unit|wide|long|node\d+|package-[\w-]+|rxe\/\w+)\.json$/.test(name))
  .map((name) => join(out, name));
for (const file of reports) {
  const report = JSON.parse(readFileSync(file, 'utf8'));
  if (typeof report.numPassedTests !== 'number') continue;
  totals.passed += report.numPassedTests;
  totals.failed += report.numFailedTests;
  totals.skipped += report.numPendingTests + report.numTodoTests;
  console.log(
    `${file}: ${report.numPassedTests} passed, ${report.numFailedTests} failed, ${report.numPendingTests} skipped`,
  );
  for (const { name, startTime, endTime, assertionResults } of report.testResults) {
    files.push({ seconds: (endTime - startTime) / 1000, name: relative('.', name), report: file });
    for (const test of assertionResults) {
      if (test.status === 'failed') console.log(`  failed: ${test.fullName}`);
    }
  }
}
const slowest = files.sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST);
if (slowest.length > 0) console.log(`the ${slowest.length} slowest test files:`);
for (const { seconds, name, report } of slowest) {
  console.log(`${seconds.toFixed(1).padStart(7)} s  ${name} (${relative(out, report)})`);
}
console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exitCode = totals.failed > 0 ? 1 : 0;
