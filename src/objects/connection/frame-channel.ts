import { ConnectionError, HandshakeError, type Wire } from '../../verbs/index.ts';
import { decodeFrame, encodeFrame, type Frame } from './frames.ts';

/** A handshake has two frames in each direction, followed by 'bye'. */
const MAX_BACKLOG = 4;

/** Receiver of frames and of the end of the wire. */
export interface FrameListener {
  onFrame(frame: Frame): void;
  onEnd(error: Error): void;
}

/** Frames over a wire: received one by one during the handshake, then passed to a listener. */
export class FrameChannel {
  readonly remoteAddress: string;
  private readonly wire: Wire;
  private readonly backlog: Frame[] = [];
  private listener: FrameListener | null = null;
  private ended: Error | null = null;

  constructor(wire: Wire) {
    this.wire = wire;
    this.remoteAddress = wire.remoteAddress;
    wire.onMessage = (bytes) => this.onMessage(bytes);
    wire.onClose = (error) => this.end(peerClosedError(error));
  }

  send(frame: Frame): void {
    if (this.ended === null) this.wire.send(encodeFrame(frame));
  }

  /** The next frame. @throws HandshakeError, ConnectionError */
  receive(): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const finish = (act: () => void) => {
        this.listener = null;
        act();
      };
      this.listen({
        onFrame: (frame) => finish(() => resolve(frame)),
        onEnd: (error) => finish(() => reject(error)),
      });
    });
  }

  /** Passes queued and future frames to the listener. */
  listen(listener: FrameListener): void {
    this.listener = listener;
    while (this.listener !== null && this.backlog.length > 0)
      this.listener.onFrame(this.backlog.shift() as Frame);
    if (this.listener !== null && this.ended !== null) this.listener.onEnd(this.ended);
  }

  /** Aborts the handshake: receive() rejects with the error. */
  abort(error: Error): void {
    this.end(error);
  }

  close(): void {
    this.listener = null;
    this.end(new ConnectionError('the connection was closed'));
  }

  private onMessage(bytes: Uint8Array): void {
    if (this.ended !== null) return;
    let frame: Frame;
    try {
      frame = decodeFrame(bytes);
    } catch (error) {
      this.end(error as Error);
      return;
    }
    if (this.listener !== null) {
      this.listener.onFrame(frame);
    } else if (this.backlog.length < MAX_BACKLOG) {
      this.backlog.push(frame);
    } else {
      this.backlog.length = 0;
      this.end(
        new HandshakeError(`the peer sent more than ${MAX_BACKLOG} frames without waiting for an answer`),
      );
    }
  }

  private end(error: Error): void {
    if (this.ended !== null) return;
    this.ended = error;
    this.wire.close();
    this.listener?.onEnd(error);
  }
}

function peerClosedError(error: Error | undefined): Error {
  if (error instanceof HandshakeError) return error;
  const why = error === undefined ? '' : `: ${error.message}`;
  return new ConnectionError(`the peer closed the connection${why}`, { cause: error });
}
