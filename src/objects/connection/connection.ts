import { EventEmitter } from 'node:events';
import { ConnectionError, IBV_QPS_ERR } from '../../verbs/index.ts';
import type { Endpoint, QueuePair } from '../queue-pair.ts';
import type { FrameChannel } from './frame-channel.ts';
import type { Frame, PrivateData } from './frames.ts';

/** The other end of a connection. */
export interface Remote extends Endpoint {
  mtu: number;
  /** What it sent along; undefined when nothing. */
  privateData: PrivateData | undefined;
  /** Where it called from or was called at. */
  address: string;
}

/** What a connection emits. */
export interface ConnectionEvents {
  /** It is over; with an error when the peer vanished without goodbye. */
  close: [error?: ConnectionError];
  /** Something went wrong at this end; only emitted when somebody listens. */
  error: [error: Error];
}

/** A connected queue pair, and the wire that tells when the peer has gone. */
export class Connection extends EventEmitter<ConnectionEvents> {
  readonly qp: QueuePair;
  readonly remote: Remote;
  private readonly channel: FrameChannel;
  private ended = false;

  /** @internal Use connect() or listen(). */
  constructor(qp: QueuePair, remote: Remote, channel: FrameChannel) {
    super();
    this.qp = qp;
    this.remote = remote;
    this.channel = channel;
    qp.context.attach(this);
    qp.onClose(() => this.close());
    channel.listen({ onFrame: (frame) => this.onFrame(frame), onEnd: (error) => this.peerGone(error) });
  }

  /** Whether it is over, by whichever end. */
  get closed(): boolean {
    return this.ended;
  }

  /** Says goodbye to the peer and closes the queue pair. Await what you have posted before. */
  close(): void {
    const first = !this.ended;
    if (first) {
      this.ended = true;
      this.channel.send({ type: 'bye' });
    }
    this.channel.close();
    this.qp.context.detach(this);
    this.qp.close();
    if (first) process.nextTick(() => this.emit('close'));
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  private onFrame(frame: Frame): void {
    if (frame.type === 'bye') this.end();
    else this.peerGone(new ConnectionError(`the peer sent '${frame.type}' where only goodbye is expected`));
  }

  private peerGone(error: Error): void {
    const { address } = this.remote;
    this.end(new ConnectionError(`the connection with ${address} broke: ${error.message}`, { cause: error }));
  }

  /** The peer has gone: the queue pair goes to ERR, so that everything posted is flushed. */
  private end(error?: ConnectionError): void {
    if (this.ended) return;
    this.ended = true;
    this.channel.close();
    try {
      if (!this.qp.closed) this.qp.modify({ qpState: IBV_QPS_ERR });
    } catch (failure) {
      process.nextTick(() => this.listenerCount('error') > 0 && this.emit('error', failure as Error));
    }
    // Not before whoever is about to be given this connection has had the chance to listen.
    setImmediate(() => this.emit('close', error));
  }
}
