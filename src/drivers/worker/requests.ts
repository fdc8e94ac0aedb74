/** The worker's end of its requests to the application's thread. */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import * as P from './protocol.ts';
import { openReply } from './reply.ts';

/** Reads of a word before the thread sleeps on it: about 20 us. */
const SPINS = 4000;

export class Requests {
  private readonly control: Int32Array;
  private readonly port: MessagePort;
  private readonly events: MessagePort;
  /** Whether the application's thread waits in a call; it then serves requests without being notified. */
  inCall = false;

  constructor(control: Int32Array, port: MessagePort, events: MessagePort) {
    this.control = control;
    this.port = port;
    this.events = events;
  }

  /** Calls a verb with any arguments. @throws the error of the other thread */
  call(verb: string, args: unknown[]): unknown {
    this.port.postMessage({ verb, args } satisfies P.Request);
    this.send(P.REQUEST_MESSAGE);
    return openReply(this.reply());
  }

  /** Calls a verb whose arguments are numbers. @throws the error of the other thread */
  callWords(kind: number, a: number, b: number, c: number, d: number): number {
    const { control } = this;
    control[P.REQUEST_A] = a;
    control[P.REQUEST_B] = b;
    control[P.REQUEST_C] = c;
    control[P.REQUEST_D] = d;
    this.send(kind);
    if (control[P.FAILED] !== 0) openReply(this.reply());
    return control[P.RESULT];
  }

  /** Wakes the application's thread if it waits for something to happen. */
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
    if (!this.inCall) this.events.postMessage({ serve: true } satisfies P.WorkerEvent);
    for (let i = 0; i < SPINS; i++) if (Atomics.load(control, P.ANSWERED) === request) return;
    while (Atomics.load(control, P.ANSWERED) !== request) Atomics.wait(control, P.ANSWERED, before);
  }

  private reply(): P.Reply {
    return (
      receiveMessageOnPort(this.port)?.message ?? {
        error: { code: '', message: 'the application sent no answer', details: {} },
      }
    );
  }
}
