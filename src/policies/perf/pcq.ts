/**
 * Who may go, of the queue pairs of one context: tickets (WAITs on PCC) that are let through in the order in which they
 * were taken, one for each ENABLE of PCQ, a managed queue pair connected to itself that holds signaled 0_WRs (PeRF,
 * section 3.3). All in the device: no software between one turn and the next.
 */
import { type Actions, type ContextView, NO_TOKEN, type QpView } from '../../shim/policy.ts';
import type { ResourceRequest, Resources, ResourceView } from '../../shim/resources.ts';
import { IBV_WC_SUCCESS, IBV_WR_RDMA_WRITE, ISO_WR_ENABLE } from '../../verbs/constants.ts';

/** 0_WRs that PCQ holds: an ENABLE of more than are posted would be refused. */
const DEPTH = 256;
/** ENABLEs from software that may be on their way. */
const SOFTWARE_DEPTH = 64;
/** 0_WRs that only software may spend: for those whose ENABLE died with their queue pair. */
const RESERVE = 32;

/** What the ends of its requests are told with. */
export interface PcqTokens {
  /** A 0_WR was executed. */
  zeroWr: number;
  /** An ENABLE from software was. */
  software: number;
}

/** The tickets of one context: WAITs on its PCC, released one by one through its PCQ. */
export class Pcq {
  private readonly pcq: ResourceView;
  /** Takes the ENABLEs that no queue pair of the application can. */
  private readonly ordinary: ResourceView;
  private readonly request: ResourceRequest;
  private readonly tokens: PcqTokens;
  /** Running numbers: 0_WRs posted and executed, ENABLEs that are or will be executed, tickets taken. */
  private posted = 0;
  private executed = 0;
  private enables = 0;
  private tickets = 0;
  /** Turns that did not end in time: their own ENABLEs are still to come, on top of those that were given for them. */
  private lent = 0;
  /** Turns begun whose ENABLE is not posted. */
  private open = 0;
  /** How many turns go on at once. */
  private concurrentTurns = 0;
  hasFailed = false;

  /** @throws NoResourcesError, UnsupportedError */
  constructor(resources: Resources, tokens: PcqTokens, out: Actions) {
    this.tokens = tokens;
    this.pcq = resources.loopback({ depth: DEPTH, managed: true });
    this.ordinary = resources.loopback({ depth: SOFTWARE_DEPTH });
    this.request = {
      opcode: IBV_WR_RDMA_WRITE,
      signaled: true,
      offsetBytes: 0,
      bytes: 0,
      remoteOffsetBytes: 0,
      target: this.pcq.qp,
      count: 1,
      token: NO_TOKEN,
    };
    this.refill(out);
  }

  get context(): ContextView {
    return this.pcq.context;
  }

  /** More turns are open than may go on at once: the oldest is to be closed. */
  get isShort(): boolean {
    return this.open > this.concurrentTurns;
  }

  /** Whether one more turn can begin, and its ENABLE be executed. */
  get hasRoom(): boolean {
    return !this.hasFailed && this.posted - this.enables - this.open > RESERVE;
  }

  /** How many turns go on at once: from the next ones on if they are fewer, at once if more. */
  allow(count: number, out: Actions): void {
    this.concurrentTurns = count;
    this.balance(out);
  }

  /** Everybody may go: every WAIT that is posted is let through. */
  release(out: Actions): void {
    this.open = 0;
    this.allow(0, out);
  }

  /** Lets the next one go, whatever the books say: nobody has moved for long. */
  forceNext(out: Actions): void {
    this.enableBySoftware(out);
  }

  /** Takes a ticket: what follows on the queue pair goes when it is its turn. Returns its number. */
  begin(qp: QpView, token: number, out: Actions): number {
    out.waitFor(qp, this.pcq.cq, 1, token);
    this.tickets++;
    this.open++;
    return this.tickets;
  }

  /** Whether all 0_WRs have been seen that let this ticket through. */
  isDue(ticket: number): boolean {
    return this.executed >= ticket;
  }

  /**
   * The turn of a queue pair is over when it has come so far. False: nobody is to follow, since fewer may go on at
   * once than did; or the queue pair had no room, and the next one goes at once.
   */
  close(qp: QpView, token: number, out: Actions): boolean {
    this.open--;
    if (this.surplus >= 0) return false;
    if (out.room(qp) < 1) {
      this.balance(out);
      return false;
    }
    out.enable(qp, this.pcq.qp, 1, token);
    this.enables++;
    return true;
  }

  /** An open turn ended with its queue pair. */
  abandon(out: Actions): void {
    this.open--;
    this.balance(out);
  }

  /** ENABLEs that will never be executed: their queue pair failed. */
  writeOff(count: number, out: Actions): void {
    this.enables -= count;
    this.balance(out);
  }

  /** A turn takes too long: the next one goes, and this one's own ENABLE will let nobody go in its stead. */
  lend(out: Actions): void {
    this.lent++;
    this.balance(out);
  }

  /** A turn that took too long is over after all. */
  takeBack(): void {
    this.lent--;
  }

  /** A 0_WR or an ENABLE from software is over. */
  onInternal(token: number, status: number, out: Actions): void {
    if (status !== IBV_WC_SUCCESS) this.hasFailed = true;
    if (token === this.tokens.zeroWr) {
      this.executed++;
      // Of a queue pair that was reset nobody knows whether its ENABLE had been executed: it had.
      if (this.executed > this.enables) this.enables = this.executed;
      if (this.posted - this.executed <= DEPTH - DEPTH / 8) this.refill(out);
    }
    this.balance(out);
  }

  /** Turns that go on at once beyond those allowed, when everything posted is executed; below 0: that are missing. */
  private get surplus(): number {
    return this.enables - this.tickets + this.open - this.concurrentTurns - this.lent;
  }

  private balance(out: Actions): void {
    while (this.surplus < 0 && this.enableBySoftware(out)) {}
  }

  private enableBySoftware(out: Actions): boolean {
    if (this.posted <= this.enables) return false;
    this.request.opcode = ISO_WR_ENABLE;
    this.request.token = this.tokens.software;
    if (!out.post(this.ordinary, this.request)) return false;
    this.enables++;
    return true;
  }

  private refill(out: Actions): void {
    this.request.opcode = IBV_WR_RDMA_WRITE;
    this.request.token = this.tokens.zeroWr;
    while (this.pcq.room > 0 && out.post(this.pcq, this.request)) this.posted++;
  }
}
