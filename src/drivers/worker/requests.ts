/** The worker's end of what it asks of the application's thread. */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import * as P from './protocol.ts';
import { openReply } from './reply.ts';

/** Looks at a word before the thread sleeps on it: about 20 us. */
const SPINS = 4000;

export class Requests {
  private readonly control: Int32Array;
  private readonly port: MessagePort;
  private readonly events: MessagePort;
  /** Whether the application's thread waits in a call: then it answers by itself. */
  inCall = false;

  constructor(control: Int32Array, port: MessagePort, events: MessagePort) {
    this.control = control;
    this.port = port;
    this.events = events;
  }

  /** A verb with any arguments. @throws what it threw there */
  ask(verb: string, args: unknown[]): unknown {
    this.port.postMessage({ verb, args } satisfies P.Request);
    this.send(P.REQUEST_MESSAGE);
    return openReply(this.reply());
  }

  /** A verb of numbers. @throws what it threw there */
  askWords(kind: number, a: number, b: number, c: number, d: number): number {
    const { control } = this;
    control[P.REQUEST_A] = a;
    control[P.REQUEST_B] = b;
    control[P.REQUEST_C] = c;
    control[P.REQUEST_D] = d;
    this.send(kind);
    if (control[P.FAILED] !== 0) openReply(this.reply());
    return control[P.RESULT];
  }

  /** Something happened that the application's thread may be waiting for. */
  signal(): void {
    if (Atomics.load(this.control, P.WAITS) === 0) return;
    Atomics.store(this.control, P.WAITS, 0);
    Atomics.add(this.control, P.SIGNAL, 1);
    Atomics.notify(this.control, P.SIGNAL);
  }

  private send(kind: number): void {
    const { control } = this;
    control[P.REQUEST_KIND] = kind;
    const before = control[P.REQUEST];
    const request = (before + 1) | 0;
    Atomics.store(control, P.REQUEST, request);
    this.signal();
    if (!this.inCall) this.events.postMessage({ serve: true } satisfies P.Tell);
    for (let i = 0; i < SPINS; i++) if (Atomics.load(control, P.ANSWERED) === request) return;
    while (Atomics.load(control, P.ANSWERED) !== request) Atomics.wait(control, P.ANSWERED, before);
  }

  private reply(): P.Reply {
    return (
      receiveMessageOnPort(this.port)?.message ?? { error: { code: '', message: 'no answer', details: {} } }
    );
  }
}
