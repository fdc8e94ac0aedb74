// @ts-nocheck
/** Never returns from the first request that it holds. */
export default () => ({
  name: 'spins',
  needs: { wait: 'none' },
  slots: 0,
  onload: () => 0,
  feed: () => {
    for (;;);
  },
});
