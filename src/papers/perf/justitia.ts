/** Justitia as PeRF configures it: rules as printed, 1,100 messages in a token of 1 MB, a target of 2 us or 15 us. */

const CONFIGURED = 'justitia:paper,tokenMessages=1100';
export const JUSTITIA_2US = `${CONFIGURED},targetUs=2`;
/** Justitia_R: PeRF 5.1, footnote 3. */
export const JUSTITIA_15US = `${CONFIGURED},targetUs=15`;

/** SafeUtil rises by 8 Gbps in 20 ms, so it needs 120 ms from half of 100 Gbps to MaxRate. */
export const RISEN = { duration: '200ms', warmup: '150ms' };

export const RELAXED = 'Justitia, 15 us';

/** Series of figures. */
export const JUSTITIA = {
  'Justitia, 2 us': () => ({ policy: JUSTITIA_2US }),
  [RELAXED]: () => ({ policy: JUSTITIA_15US, ...RISEN }),
};
