/** The paths of the command `isoverbs`, as it was built, and as a copy that starts faster. */
export { COMMAND as BUILT, QUICK_COMMAND as MAIN } from '../../bench/root.ts';
