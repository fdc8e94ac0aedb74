/** Enables the checks of shim ledgers in all tests, and with ISOVERBS_ASSERT in their threads and child processes. */
import { setAssertions } from '../../src/shim/assertions.ts';

process.env.ISOVERBS_ASSERT ??= '1';
setAssertions(process.env.ISOVERBS_ASSERT === '1');
