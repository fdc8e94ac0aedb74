/** One program that fails is enough to know. */
import fc from 'fast-check';

fc.configureGlobal({ endOnFailure: true });
