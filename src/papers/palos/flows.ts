/** The flows of Palos: small ones, and large ones of 2 MB, on ConnectX-5. */
import { type Mix, mix } from '../engine/claim.ts';

const PROFILE = 'cx5-100g';
export const large = (count = 1) => `B:name=large,size=2MB,count=${count}`;
/** 16 of them. */
export const small = (bytes: number) => `M:name=small,size=${bytes},qps=16`;
/** One, which waits for each answer. */
export const single = (bytes: number) => `D:name=small,size=${bytes},think=1us`;
export const flows = (apps: readonly string[], more: Partial<Mix> = {}): Mix => mix(PROFILE, apps, more);
