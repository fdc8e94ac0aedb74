import { EventEmitter } from 'node:events';
import { ConnectionError, IBV_QPS_ERR } from '../../verbs/index.ts';
import type { Endpoint, QueuePair } from '../queue-pair.ts';
import { connectionClose, connectionOpen } from '../support/diagnostics.ts';
import type { FrameChannel } from './frame-channel.ts';
import type { Frame, PrivateData } from './frames.ts';

/** The peer of a connection. `T` is the type of its private data. */
export interface Remote<T = PrivateData | undefined> extends Endpoint {
  mtu: number;
  /** Private data from the peer, as `remoteSchema` returned them; undefined if it sent none. */
  privateData: T;
  /** Network address of the peer. */
  address: string;
}

/** Events of a connection. */
export interface ConnectionEvents {
  /** The connection has ended; with an error when the peer disappeared without closing it. */
  close: [error?: ConnectionError];
  /** A local failure. Not emitted without a listener. */
  error: [error: Error];
}

/** A connected queue pair, and the wire that reports when the peer has disappeared. */
export class Connection<T = PrivateData | undefined> extends EventEmitter<ConnectionEvents> {
  readonly qp: QueuePair;
  readonly remote: Remote<T>;
  private readonly channel: FrameChannel;
  private ended = false;

  /** @internal Use connect() or listen(). */
  constructor(qp: QueuePair, remote: Remote<T>, channel: FrameChannel) {
    super();
    this.qp = qp;
    this.remote = remote;
    this.channel = channel;
    qp.context.attach(this);
    qp.onClose(() => this.close());
    if (connectionOpen.hasSubscribers) connectionOpen.publish({ connection: this });
    channel.listen({ onFrame: (frame) => this.onFrame(frame), onEnd: (error) => this.peerGone(error) });
  }

  /** Whether either end has closed the connection. */
  get closed(): boolean {
    return this.ended;
  }

  /** Notifies the peer and closes the queue pair. Await outstanding requests first. */
  close(): void {
    const first = !this.ended;
    if (first) {
      this.ended = true;
      this.channel.send({ type: 'bye' });
    }
    this.channel.close();
    this.qp.context.detach(this);
    this.qp.close();
    if (first) process.nextTick(() => this.announceEnd());
  }

  /** close(), for `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  private onFrame(frame: Frame): void {
    if (frame.type === 'bye') this.end();
    else this.peerGone(new ConnectionError(`the peer sent '${frame.type}' where only 'bye' is expected`));
  }

  private peerGone(error: Error): void {
    const { address } = this.remote;
    this.end(
      new ConnectionError(`the connection with ${address} was lost: ${error.message}`, { cause: error }),
    );
  }

  /** The peer has disappeared: the queue pair moves to ERR, so that all posted requests are flushed. */
  private end(error?: ConnectionError): void {
    if (this.ended) return;
    this.ended = true;
    this.channel.close();
    try {
      if (!this.qp.closed) this.qp.modify({ qpState: IBV_QPS_ERR });
    } catch (failure) {
      process.nextTick(() => this.listenerCount('error') > 0 && this.emit('error', failure as Error));
    }
    // Deferred, so that a program that just received this connection can add its listeners first.
    setImmediate(() => this.announceEnd(error));
  }

  private announceEnd(error?: ConnectionError): void {
    if (connectionClose.hasSubscribers) connectionClose.publish({ connection: this, error });
    if (error === undefined) this.emit('close');
    else this.emit('close', error);
  }
}
