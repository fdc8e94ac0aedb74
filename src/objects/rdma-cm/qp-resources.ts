/** Where a queue pair lives: device, protection domain and completion queue, given or made for it. */
import { InvalidArgumentError } from '../../verbs/index.ts';
import type { CompletionQueue } from '../completion-queue.ts';
import type { Context } from '../context.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { QueuePair, QueuePairOptions } from '../queue-pair.ts';
import { requireOwned } from '../resource.ts';
import type { DevicePool } from './device-pool.ts';

const DEFAULT_WR = 128;

/** Where queue pairs are made; all of it is made for you where you give nothing. */
export interface CmPlaceOptions extends Omit<QueuePairOptions, 'sendCq' | 'recvCq' | 'type' | 'managed'> {
  /** Default: a protection domain of its own, closed with all that was made from it. */
  pd?: ProtectionDomain;
  /** Default: a completion queue of its own, large enough for both queues. */
  sendCq?: CompletionQueue;
  /** Default: sendCq. */
  recvCq?: CompletionQueue;
  /** Makes the queue pair instead, on the device that the address led to. It is closed with its owner. */
  createQp?: (resources: { context: Context; pd: ProtectionDomain; sendCq: CompletionQueue }) => QueuePair;
}

/** A queue pair and what was made for it. */
export class QpResources {
  readonly context: Context;
  readonly pd: ProtectionDomain;
  readonly sendCq: CompletionQueue;
  readonly qp: QueuePair;
  private readonly cleanups: (() => void)[] = [];

  constructor(pool: DevicePool, deviceName: string, type: 'RC' | 'UD', options: CmPlaceOptions) {
    try {
      this.context = this.contextFor(pool, deviceName, options);
      this.pd = this.pdFor(options);
      this.sendCq = this.cqFor(options);
      this.qp = this.qpFor(type, options);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Closes what was made for it, last first. Twice does nothing. */
  close(): void {
    const errors: unknown[] = [];
    for (const cleanup of this.cleanups.splice(0).reverse()) {
      try {
        cleanup();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }

  private contextFor(pool: DevicePool, deviceName: string, options: CmPlaceOptions): Context {
    const given = options.pd?.context ?? options.sendCq?.context;
    if (given === undefined) {
      const context = pool.acquire(deviceName);
      this.cleanups.push(() => pool.release(context));
      return context;
    }
    if (given.name === deviceName) return given;
    throw new InvalidArgumentError(
      `the objects given are of ${given.name}, but the address leads to ${deviceName}`,
    );
  }

  private pdFor({ pd }: CmPlaceOptions): ProtectionDomain {
    if (pd !== undefined) return requireOwned(pd, 'ProtectionDomain', this.context, 'pd');
    const made = this.context.allocPd();
    this.cleanups.push(() => made.closeAll());
    return made;
  }

  private cqFor({ sendCq, cap = {} }: CmPlaceOptions): CompletionQueue {
    if (sendCq !== undefined) return requireOwned(sendCq, 'CompletionQueue', this.context, 'sendCq');
    const { maxSendWr = DEFAULT_WR, maxRecvWr = DEFAULT_WR } = cap;
    const made = this.context.createCq({ cqe: Math.max(1, maxSendWr + maxRecvWr) });
    this.cleanups.push(() => made.closeAll());
    return made;
  }

  private qpFor(type: 'RC' | 'UD', options: CmPlaceOptions): QueuePair {
    const { context, pd, sendCq } = this;
    const { createQp, recvCq, cap, sqSigAll, srq, extended } = options;
    const init: QueuePairOptions = { sendCq, recvCq, cap, sqSigAll, srq, extended, type };
    const qp =
      createQp === undefined
        ? pd.createQp(init)
        : requireOwned(createQp({ context, pd, sendCq }), 'QueuePair', context, "createQp's result");
    this.cleanups.push(() => qp.close());
    // It closes the queue pair, and before it the windows that are bound to it.
    if (options.pd === undefined) this.cleanups.push(() => pd.closeAll());
    if (qp.type === type) return qp;
    throw new InvalidArgumentError(`the queue pair must be ${type}, ${qp.label} is ${qp.type}`);
  }
}
