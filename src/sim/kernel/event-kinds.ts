/** Kinds of events. Each comment explains a, b and c. */

/** WQEs became visible to the NIC. a: qp number, b: one past the last, c: epoch. */
export const EV_DOORBELL = 1;
/** The requester's processing unit finished a WQE. a: qp number, b: token. */
export const EV_STEP = 2;
/** A processing unit finished a response. a: qp number, b: token. */
export const EV_RESPONSE_STEP = 3;
/** The head packet of an egress port fits now. a: port. */
export const EV_ROOM = 4;
/** The first packet in flight from a port reached its destination. a: port. */
export const EV_ARRIVE = 5;
/** An acknowledgement reached the requester. a: qp number, b: psn | syndrome << 24, c: epoch. */
export const EV_ACK = 6;
/** A completion becomes visible. a: cq. */
export const EV_COMPLETION = 7;
/** A retry timer fires. a: qp number. Stale timers do not move the clock. */
export const EV_TIMEOUT = 8;
/** The wait after an RNR NAK is over. a: qp number, c: epoch. */
export const EV_RNR = 9;
/** A CQ overflowed and its queue pairs fail. a: cq, b: number of the qp that lost a completion, c: its epoch. */
export const EV_CQ_OVERFLOW = 10;
/** Requests posted in ERR are flushed. a: qp number, c: epoch. */
export const EV_FLUSH = 11;
/** An application inside the simulation is due. a: actor, b: its own value. */
export const EV_ACTOR = 12;
/** The delay of a call is over. a: token. */
export const EV_CALL = 13;
/** A deadline of an alarm has passed. a: number of the alarm. */
export const EV_ALARM = 14;
/** The period of a moderated CQ is over. a: cq, b: token. */
export const EV_MODERATION = 20;
/** The rate limit of a queue pair allows its next packet. a: qp number, b: ROLE_*, c: epoch. */
export const EV_PACER = 21;
/** A processing unit finished a step. a: host, b: unit, c: generation. */
export const EV_UNIT = 22;
/** WQEs arrived in the NIC. a: qp number, b: one past the last, c: epoch. */
export const EV_FETCHED = 23;
/** The first payload of a request arrived in the NIC. a: qp number, b: token. */
export const EV_PAYLOAD = 24;
/** The first payload of a response arrived in the NIC. a: qp number, b: token. */
export const EV_RESPONSE_PAYLOAD = 25;
/** The last bit of a stoppable port's packet has left. a: port. */
export const EV_DEPART = 40;
/** Payload that a stoppable port waits for has arrived. a: port. */
export const EV_WIRE = 41;
/** A packet waiting in the receiver may be executed. a: qp number. */
export const EV_RECEIVE = 30;
/** A late packet reached its destination. a: packet. */
export const EV_LATE = 31;
/**
 * The first packet on the cable of a switch port reached its far end and passed the pipeline there. a: port.
 */
export const EV_HOP = 50;
/** A packet left a port of a switch. a: port. */
export const EV_SWITCH_OUT = 51;
/** A pause frame of a switch port reached the far end of its cable. a: port, b: 1 pause, 0 resume. */
export const EV_PAUSE = 52;
/** A congestion notification reached the sender's NIC. a: qp number, c: epoch. */
export const EV_CNP = 53;
/** A copy of a multicast packet reached its destination. a: packet. */
export const EV_COPY = 54;
/** A new rate takes effect in a rate limiter. a: qp number, b: change, c: epoch. */
export const EV_RATE = 42;
/** The first packet that a port's tags hold back may go. a: port. */
export const EV_TAGS = 43;

// Syndromes of acknowledgements.
export const ACK = 0;
export const NAK_SEQUENCE = 1;
export const NAK_INVALID_REQUEST = 2;
export const NAK_REMOTE_ACCESS = 3;
export const NAK_REMOTE_OPERATION = 4;
/** The timer code, 0 .. 31, is added. */
export const NAK_RNR = 32;
