// @ts-nocheck
/** Shapes nothing. */
export default () => ({
  name: 'pass-through',
  needs: { wait: 'none' },
  slots: 0,
  onload: (_qp, _words, _start, count) => count,
  feed: () => {},
});
