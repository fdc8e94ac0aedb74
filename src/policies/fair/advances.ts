/**
 * Messages that may pass before the policy is called again. While a tenant is well behind those being served, and sends
 * on a single queue pair, it gets an advance: some messages like its last one. They are charged when the advance ends:
 * at the next message that differs, waits, or exceeds the advance, and at most other events of the tenant.
 */
import { BYTES, SEEN } from '../../shim/counters.ts';
import type { Actions, QpView } from '../../shim/policy.ts';
import { fitColumn } from '../../shim/tables.ts';

/** The most messages of an advance, and the fewest that are worth the effort. */
export const MOST_MESSAGES = 32;
const LEAST_MESSAGES = 4;

// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const IN_BYTES = BYTES;
const IN_SEEN = SEEN;

/** Words of a tenant: the queue pair of its last message plus one, and what its counters were when the advance began. */
const BITS = 2;
const LAST = 0;
const MESSAGES = 1;
const LENGTHS = 2;
const OPCODE = 3;

/** The advances of tenants: at most one each. */
export class Advances {
  /** Of the advance that ended last: its messages, their bytes of data, and their opcode, which `give` also reads. */
  messages = 0;
  bytes = 0;
  opcode = 0;
  /** By tenant: the queue pair with an advance. */
  private readonly holders: (QpView | undefined)[] = [];
  private tenants: Float64Array = new Float64Array(16 << BITS);

  /** The number of tenants, for a loop that ends all advances. */
  get limit(): number {
    return this.holders.length;
  }

  /** A tenant begins. */
  begin(tenant: number): void {
    this.tenants = fitColumn(this.tenants, (tenant << BITS) + OPCODE);
    this.tenants[(tenant << BITS) + LAST] = 0;
    for (let i = this.holders.length; i <= tenant; i++) this.holders.push(undefined);
  }

  /** Whether a tenant has an advance. */
  has(tenant: number): boolean {
    return this.holders[tenant] !== undefined;
  }

  /** The queue pair has sent a message. Returns whether it also sent the tenant's previous message. */
  follows(tenant: number, qp: number): boolean {
    const at = (tenant << BITS) + LAST;
    const isSame = this.tenants[at] === qp + 1;
    this.tenants[at] = qp + 1;
    return isSame;
  }

  /**
   * Gives a tenant without an advance one of at most `most` messages, if these are worth the effort. They have the
   * opcode in `opcode`, and are shorter than `below` bytes, a power of two.
   * @param posted messages of the queue pair that are being posted now
   */
  give(tenant: number, qp: QpView, most: number, posted: number, below: number, out: Actions): void {
    if (most < LEAST_MESSAGES) return;
    const { tenants, opcode } = this;
    const at = tenant << BITS;
    this.holders[tenant] = qp;
    tenants[at + MESSAGES] = qp.counts[IN_SEEN] + posted;
    tenants[at + LENGTHS] = qp.counts[IN_BYTES];
    tenants[at + OPCODE] = opcode;
    out.passPlain(qp, below, most, opcode);
  }

  /** Ends the advance of a tenant. Returns the queue pair, if it has sent anything with it. */
  end(tenant: number, out: Actions): QpView | undefined {
    const qp = this.holders[tenant];
    if (qp === undefined) return undefined;
    const { tenants } = this;
    const at = tenant << BITS;
    this.holders[tenant] = undefined;
    out.passPlain(qp, 0);
    this.messages = qp.counts[IN_SEEN] - tenants[at + MESSAGES];
    this.bytes = qp.counts[IN_BYTES] - tenants[at + LENGTHS];
    this.opcode = tenants[at + OPCODE];
    return this.messages > 0 ? qp : undefined;
  }
}
