#!/usr/bin/env node
import { OK, run } from './run.ts';

// `isoverbs trace FILE | head`: who closes the pipe has read enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(OK);
});

run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
