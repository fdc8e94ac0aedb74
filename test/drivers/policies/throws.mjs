// @ts-nocheck
/** Throws at the first request that it holds. */
export default () => ({
  name: 'throws',
  needs: { wait: 'none' },
  slots: 0,
  onload: () => 0,
  feed: () => {
    throw new Error('the policy is broken');
  },
});
