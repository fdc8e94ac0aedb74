/**
 * The tickets of one context (PeRF, section 3.3). A ticket is a WAIT on PCC. PCQ is a managed queue pair connected to
 * itself that holds signaled 0_WRs, and each ENABLE of PCQ releases the next ticket in order. The device does all of
 * this without software between turns.
 */
import { type Actions, type ContextView, NO_TOKEN, type QpView } from '../../shim/policy.ts';
import type { ResourceRequest, Resources, ResourceView } from '../../shim/resources.ts';
import { IBV_WC_SUCCESS, IBV_WR_RDMA_WRITE, ISO_WR_ENABLE } from '../../verbs/constants.ts';

/** 0_WRs that PCQ holds. The device refuses an ENABLE of more than are posted. */
const DEPTH = 256;
/** ENABLEs from software that may be in flight. */
const SOFTWARE_DEPTH = 64;
/** 0_WRs reserved for software, which replaces ENABLEs that were lost with their queue pair. */
const RESERVE = 32;

/** Tokens of its requests. */
export interface PcqTokens {
  /** A 0_WR was executed. */
  zeroWr: number;
  /** An ENABLE from software was executed. */
  software: number;
}

/** The tickets of one context: WAITs on its PCC, released one by one through its PCQ. */
export class Pcq {
  private readonly pcq: ResourceView;
  /** Carries the ENABLEs from software. */
  private readonly ordinary: ResourceView;
  private readonly request: ResourceRequest;
  private readonly tokens: PcqTokens;
  /** Running numbers: 0_WRs posted and executed, ENABLEs that are or will be executed, tickets taken. */
  private posted = 0;
  private executed = 0;
  private enables = 0;
  private tickets = 0;
  /** Overdue turns for which software already sent an ENABLE. Their own ENABLEs are still to come. */
  private lent = 0;
  /** Turns that have begun and whose ENABLE is not posted. */
  private open = 0;
  /** Turns allowed at a time. */
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

  /** Whether more turns are open than allowed, so that the oldest must be closed. */
  get hasExcessTurns(): boolean {
    return this.open > this.concurrentTurns;
  }

  /** Whether a 0_WR is left for the ENABLE of one more turn. */
  get hasRoom(): boolean {
    return !this.hasFailed && this.posted - this.enables - this.open > RESERVE;
  }

  /** Sets the turns allowed at a time. More take effect at once; fewer, as current turns end. */
  allow(count: number, out: Actions): void {
    this.concurrentTurns = count;
    this.balance(out);
  }

  /** Releases every posted WAIT. */
  release(out: Actions): void {
    this.open = 0;
    this.allow(0, out);
  }

  /** Releases the next ticket regardless of the counts, after a stall. */
  forceNext(out: Actions): void {
    this.enableBySoftware(out);
  }

  /** Takes a ticket: later requests on the queue pair wait for its release. Returns its number. */
  begin(qp: QpView, token: number, out: Actions): number {
    out.waitFor(qp, this.pcq.cq, 1, token);
    this.tickets++;
    this.open++;
    return this.tickets;
  }

  /** Whether enough 0_WRs have completed to release this ticket. */
  isDue(ticket: number): boolean {
    return this.executed >= ticket;
  }

  /**
   * Posts the ENABLE that ends a turn. Returns false if it posts none: either fewer turns are allowed now, or the
   * queue pair had no room and software released the next ticket at once.
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

  /** Counts an open turn that was lost with its queue pair. */
  abandon(out: Actions): void {
    this.open--;
    this.balance(out);
  }

  /** Replaces ENABLEs that were lost because their queue pair failed. */
  writeOff(count: number, out: Actions): void {
    this.enables -= count;
    this.balance(out);
  }

  /** Releases the next ticket in place of an overdue turn, whose own ENABLE then adds no further turn. */
  lend(out: Actions): void {
    this.lent++;
    this.balance(out);
  }

  /** Settles `lend` when the overdue turn is over. */
  takeBack(): void {
    this.lent--;
  }

  /** A 0_WR or an ENABLE from software has ended. */
  onInternal(token: number, status: number, out: Actions): void {
    if (status !== IBV_WC_SUCCESS) this.hasFailed = true;
    if (token === this.tokens.zeroWr) {
      this.executed++;
      // The ENABLE of a queue pair that was reset had been executed after all.
      if (this.executed > this.enables) this.enables = this.executed;
      if (this.posted - this.executed <= DEPTH - DEPTH / 8) this.refill(out);
    }
    this.balance(out);
  }

  /**
   * Turns beyond those allowed once all posted requests are executed; negative if turns are missing. After `release`, one
   * more is still needed: the last turns may be closed, and their own ENABLEs come after the WAITs that they would release.
   */
  private get surplus(): number {
    return this.enables - this.tickets + this.open - Math.max(1, this.concurrentTurns) - this.lent;
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
