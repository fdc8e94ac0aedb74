/**
 * Setup of all tests: does not report contexts that were never closed, as those of fakes. Files share processes, so that the
 * report would be in the output of whichever test runs when the context is collected. Children of tests report theirs.
 */
const { emitWarning } = process;

// A process that runs several files runs this for each of them.
if (emitWarning.name !== 'exceptLeaks') {
  const exceptLeaks = (...args: Parameters<typeof emitWarning>): void => {
    if ((args[1] as { code?: string } | undefined)?.code !== 'ISO_LEAK') emitWarning.apply(process, args);
  };
  process.emitWarning = exceptLeaks as typeof emitWarning;
}
