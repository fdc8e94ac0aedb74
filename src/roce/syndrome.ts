/** Syndromes of acknowledgements: the first byte of an AETH (InfiniBand 9.7.5.2.1). */

// Kinds of syndromes: bits 6 and 5.
export const KIND_ACK = 0;
export const KIND_RNR_NAK = 1;
export const KIND_RESERVED = 2;
export const KIND_NAK = 3;

/** Credits of an ACK whose responder does no flow control, as with a shared receive queue. */
export const NO_CREDITS = 31;

// Codes of NAKs.
export const NAK_PSN_SEQUENCE = 0;
export const NAK_INVALID_REQUEST = 1;
export const NAK_REMOTE_ACCESS = 2;
export const NAK_REMOTE_OPERATION = 3;
export const NAK_INVALID_RD_REQUEST = 4;

/** The syndrome of an ACK with this credit code (0 .. 31; InfiniBand table 46). */
export const ackSyndrome = (credits: number): number => credits & 31;

/** The syndrome of an RNR NAK with this timer code, 0 .. 31 (IBV_QP_MIN_RNR_TIMER). */
export const rnrSyndrome = (timer: number): number => (KIND_RNR_NAK << 5) | (timer & 31);

/** The syndrome of a NAK with this code (NAK_*). */
export const nakSyndrome = (code: number): number => (KIND_NAK << 5) | (code & 31);

/** KIND_* of a syndrome. */
export const kindOfSyndrome = (syndrome: number): number => (syndrome >>> 5) & 3;

/** The credit code, timer code or NAK code in a syndrome. */
export const codeOfSyndrome = (syndrome: number): number => syndrome & 31;
