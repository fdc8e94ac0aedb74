#!/usr/bin/env node
import { setAssertions } from '../shim/assertions.ts';
import { FAILED, OK, run } from './program.ts';

if (process.env.ISOVERBS_ASSERT === '1') setAssertions(true);

// `isoverbs trace FILE | head`: who closes the pipe has read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(OK);
  process.stderr.write(`isoverbs: the output cannot be written: ${error.message}\n`);
  process.exit(FAILED);
});
// Nobody is left to tell.
process.stderr.on('error', () => process.exit(FAILED));

run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
