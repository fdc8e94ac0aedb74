/** Ledgers of shims are checked in all tests, and by ISOVERBS_ASSERT in the threads and processes that tests start. */
import { setAssertions } from '../../src/shim/assertions.ts';

process.env.ISOVERBS_ASSERT ??= '1';
setAssertions(process.env.ISOVERBS_ASSERT === '1');
