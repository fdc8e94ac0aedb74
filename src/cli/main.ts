#!/usr/bin/env node
import { setAssertions } from '../shim/assertions.ts';
import { FAILED, OK, run } from './program.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);

// A reader that closes the pipe has read enough, as in `isoverbs trace FILE | head`.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(OK);
  process.stderr.write(`isoverbs: cannot write the output: ${error.message}\n`);
  process.exit(FAILED);
});
// The error cannot be reported anywhere.
process.stderr.on('error', () => process.exit(FAILED));

run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
