/** A wire whose messages are recorded in both directions. */
import type { Wire } from '../../verbs/provider.ts';
import { errorFields } from './format.ts';
import type { Recorder } from './recorder.ts';

export class RecordedWire implements Wire {
  readonly remoteAddress: string;
  private readonly inner: Wire;
  private readonly id: number;
  private readonly recorder: Recorder;

  constructor(inner: Wire, id: number, recorder: Recorder) {
    this.inner = inner;
    this.id = id;
    this.recorder = recorder;
    this.remoteAddress = inner.remoteAddress;
  }

  send(message: Uint8Array): void {
    this.recorder.run('wire.send', [this.id, message], () => this.inner.send(message));
  }

  close(): void {
    this.recorder.run('wire.close', [this.id], () => this.inner.close());
  }

  get onMessage(): (message: Uint8Array) => void {
    return this.inner.onMessage;
  }

  set onMessage(handler: (message: Uint8Array) => void) {
    this.inner.onMessage = (message) => {
      this.recorder.event('message', [this.id, message]);
      handler(message);
    };
  }

  get onClose(): (error?: Error) => void {
    return this.inner.onClose;
  }

  set onClose(handler: (error?: Error) => void) {
    this.inner.onClose = (error) => {
      this.recorder.event('close', [this.id, error === undefined ? null : errorFields(error)]);
      handler(error);
    };
  }
}
