/** Kinds of events. The comment says what a, b and c are. */

/** WQEs became visible to the NIC. a: qp number, b: one past the last, c: incarnation. */
export const EV_DOORBELL = 1;
/** The requester's processing unit is through with a WQE. a: qp number, b: token. */
export const EV_STEP = 2;
/** The same for a response. a: qp number, b: token. */
export const EV_RESPONSE_STEP = 3;
/** The head packet of an egress port fits now. a: port. */
export const EV_ROOM = 4;
/** The first packet that a port has on the way is at its destination. a: port. */
export const EV_ARRIVE = 5;
/** An acknowledgement is at the requester. a: qp number, b: psn | syndrome << 24, c: incarnation. */
export const EV_ACK = 6;
/** A completion becomes visible. a: cq. */
export const EV_COMPLETION = 7;
/** Retry timer. a: qp number. Stale ones do not move the clock. */
export const EV_TIMEOUT = 8;
/** The wait after an RNR NAK is over. a: qp number, c: incarnation. */
export const EV_RNR = 9;
/** A CQ overflowed: its queue pairs fail. a: cq. */
export const EV_CQ_OVERFLOW = 10;
/** Requests posted in ERR are flushed. a: qp number, c: incarnation. */
export const EV_FLUSH = 11;
/** For an application inside the simulation. a: actor, b: anything. */
export const EV_ACTOR = 12;
/** For whoever runs the simulation. a: token. */
export const EV_CALL = 13;
/** The period of a moderated CQ is over. a: cq, b: token. */
export const EV_MODERATION = 20;
/** The pace of a queue pair allows its next packet. a: qp number, b: ROLE_*, c: incarnation. */
export const EV_PACER = 21;
/** A processing unit is through with a step. a: host, b: unit, c: generation. */
export const EV_UNIT = 22;
/** WQEs are in the NIC. a: qp number, b: one past the last, c: incarnation. */
export const EV_FETCHED = 23;
/** The first payload of a request is in the NIC. a: qp number, b: token. */
export const EV_PAYLOAD = 24;
/** The same for a response. a: qp number, b: token. */
export const EV_RESPONSE_PAYLOAD = 25;
/** The last bit of what a stoppable port sends is out. a: port. */
export const EV_DEPART = 40;
/** Payload that a stoppable port waits for is here. a: port. */
export const EV_WIRE = 41;
/** A packet that waits in the receiver may be executed. a: qp number. */
export const EV_RECEIVE = 30;
/** A late packet is at its destination. a: packet. */
export const EV_LATE = 31;
/** The first packet on the cable of a switch's port is at its other end, and through the pipeline there. a: port. */
export const EV_HOP = 50;
/** A packet has left a port of a switch. a: port. */
export const EV_SWITCH_OUT = 51;
/** A pause frame of a switch's port is at the other end of its cable. a: port, b: 1 stop, 0 go on. */
export const EV_PAUSE = 52;
/** A congestion notification is at the sender's NIC. a: qp number, c: incarnation. */
export const EV_CNP = 53;
/** A copy of a packet for everybody is where it belongs. a: packet. */
export const EV_COPY = 54;
/** A rate limiter has its new rate. a: qp number, b: change, c: incarnation. */
export const EV_RATE = 42;

// Syndromes of acknowledgements.
export const ACK = 0;
export const NAK_SEQUENCE = 1;
export const NAK_INVALID_REQUEST = 2;
export const NAK_REMOTE_ACCESS = 3;
export const NAK_REMOTE_OPERATION = 4;
/** Plus the code of the timer, 0 .. 31. */
export const NAK_RNR = 32;
