/** The device, protection domain and completion queue of a queue pair, given by the program or created. */
import { InvalidArgumentError } from '../../verbs/index.ts';
import type { CompletionQueue } from '../completion-queue.ts';
import type { Context } from '../context.ts';
import type { ProtectionDomain } from '../protection-domain.ts';
import type { QueuePair, QueuePairOptions } from '../queue-pair.ts';
import { requireOwned } from '../resource.ts';
import type { DevicePool } from './device-pool.ts';

const DEFAULT_WR = 128;

/** Objects and options for the queue pair. Objects that are absent are created. */
export interface CmPlaceOptions extends Omit<QueuePairOptions, 'sendCq' | 'recvCq' | 'type' | 'managed'> {
  /** Default: a new protection domain, closed together with all its objects. */
  pd?: ProtectionDomain;
  /** Default: a new completion queue, large enough for sends and receives. */
  sendCq?: CompletionQueue;
  /** Default: sendCq. */
  recvCq?: CompletionQueue;
  /** Creates the queue pair instead, on the device that the address resolved to. It is closed with its owner. */
  createQp?: (resources: { context: Context; pd: ProtectionDomain; sendCq: CompletionQueue }) => QueuePair;
}

/** A queue pair and the objects that were created for it. */
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

  /** Closes the created objects in reverse order. Calling it twice does nothing. */
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
      `the given objects belong to ${given.name}, but the address resolves to ${deviceName}`,
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
    const { createQp, recvCq, cap, sqSigAll, srq, extended, labels } = options;
    const init: QueuePairOptions = { sendCq, recvCq, cap, sqSigAll, srq, extended, labels, type };
    const qp =
      createQp === undefined
        ? pd.createQp(init)
        : requireOwned(createQp({ context, pd, sendCq }), 'QueuePair', context, "createQp's result");
    this.cleanups.push(() => qp.close());
    // Closes the windows that are bound to the queue pair first.
    if (options.pd === undefined) this.cleanups.push(() => pd.closeAll());
    if (qp.type === type) return qp;
    throw new InvalidArgumentError(`the queue pair must be ${type}, ${qp.label} is ${qp.type}`);
  }
}
