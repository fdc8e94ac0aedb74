// Adds up the steps of .ci/run and the tests inside them; the last line is the result.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [stepsFile, out] = process.argv.slice(2);
const totals = { passed: 0, failed: 0, skipped: 0 };

for (const line of readFileSync(stepsFile, 'utf8').trim().split('\n')) {
  totals[line.startsWith('passed ') ? 'passed' : 'failed']++;
  if (!line.startsWith('passed ')) console.log(line);
}
const reports = readdirSync(out, { recursive: true, encoding: 'utf8' })
  .filter((name) => /^(unit|node\d+|package-[\w-]+|rxe\/\w+)\.json$/.test(name))
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
  for (const suite of report.testResults) {
    for (const test of suite.assertionResults) {
      if (test.status === 'failed') console.log(`  failed: ${test.fullName}`);
    }
  }
}
console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exitCode = totals.failed > 0 ? 1 : 0;
