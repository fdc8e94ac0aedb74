/** One failing program is enough, so it is not shrunk. */
import fc from 'fast-check';

fc.configureGlobal({ endOnFailure: true });
