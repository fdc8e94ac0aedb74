/** Delivers recorded events to the listeners and promises of the program. */

import type { CmEvent } from '../../verbs/connection-manager.ts';
import { makeError } from '../../verbs/errors.ts';
import type { Wire, WireServer } from '../../verbs/provider.ts';
import type { AsyncListener, CompletionListener } from '../../verbs/types.ts';
import type { EventSource } from '../record/format.ts';

type Fields = Record<string, unknown>;
type Call = (name: string, args: unknown[]) => unknown;

interface PendingResult {
  resolve(value: unknown): void;
  reject(error: Error): void;
  /** Converts the recorded value to the program's value. */
  convert(value: unknown): unknown;
}

/** Rebuilds a recorded error. */
export function errorOf(fields: Fields): Error {
  const { code, message, ...details } = fields;
  if (typeof code === 'string' && code.startsWith('ISO_ERR_')) {
    return makeError(code as 'ISO_ERR_SYSTEM', String(message), details);
  }
  return Object.assign(new Error(String(message)), code === undefined ? {} : { code });
}

/** The program's end of a wire. The other end is the recording. */
class ReplayWire implements Wire {
  readonly remoteAddress: string;
  private readonly id: number;
  private readonly call: Call;
  private messageHandler: ((message: Uint8Array) => void) | null = null;
  private closeHandler: ((error?: Error) => void) | null = null;
  private readonly early: Uint8Array[] = [];

  constructor(id: number, remoteAddress: string, send: Call) {
    this.id = id;
    this.remoteAddress = remoteAddress;
    this.call = send;
  }

  send(message: Uint8Array): void {
    this.call('wire.send', [this.id, message]);
  }

  close(): void {
    this.call('wire.close', [this.id]);
  }

  get onMessage(): (message: Uint8Array) => void {
    return this.messageHandler ?? (() => {});
  }

  set onMessage(handler: (message: Uint8Array) => void) {
    this.messageHandler = handler;
    for (const message of this.early.splice(0)) handler(message);
  }

  get onClose(): (error?: Error) => void {
    return this.closeHandler ?? (() => {});
  }

  set onClose(handler: (error?: Error) => void) {
    this.closeHandler = handler;
  }

  arrived(message: Uint8Array): void {
    if (this.messageHandler === null) this.early.push(message);
    else this.messageHandler(message);
  }
}

export class ReplayedEvents {
  private readonly send: Call;
  private readonly completions = new Map<number, CompletionListener>();
  private readonly asyncs = new Map<number, AsyncListener>();
  private readonly cms = new Map<number, (event: CmEvent) => void>();
  private readonly servers = new Map<number, (wire: Wire) => void>();
  private readonly wires = new Map<number, ReplayWire>();
  private readonly pending = new Map<number, PendingResult>();

  constructor(send: Call) {
    this.send = send;
  }

  watchCompletions(channel: number, listener: CompletionListener | null): void {
    setOrDelete(this.completions, channel, listener);
  }

  watchAsync(context: number, listener: AsyncListener | null): void {
    setOrDelete(this.asyncs, context, listener);
  }

  watchCm(channel: number, listener: ((event: CmEvent) => void) | null): void {
    setOrDelete(this.cms, channel, listener);
  }

  /** A promise that settles at the recorded point. */
  settledBy<T>(ticket: number, made: (value: unknown) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.pending.set(ticket, { resolve: resolve as (value: unknown) => void, reject, convert: made });
    });
  }

  server(ticket: number, onWire: (wire: Wire) => void): Promise<WireServer> {
    this.servers.set(ticket, onWire);
    return this.settledBy(ticket, (value) => ({
      port: (value as { port: number }).port,
      close: () => this.send('server.close', [ticket]) as undefined,
    }));
  }

  wire(value: unknown): Wire {
    const { wire, remoteAddress } = value as { wire: number; remoteAddress: string };
    const made = new ReplayWire(wire, remoteAddress, this.send);
    this.wires.set(wire, made);
    return made;
  }

  /** Delivers an event to the program. */
  deliver(source: EventSource, args: unknown[]): void {
    const [id, value, third] = args as [number, unknown, unknown];
    if (source === 'completion') this.completions.get(id)?.(value as number);
    else if (source === 'async') this.asyncs.get(id)?.(value as number, third as number);
    else if (source === 'cm') this.cms.get(id)?.(value as CmEvent);
    else if (source === 'wire') this.servers.get(id)?.(this.wire({ wire: value, remoteAddress: third }));
    else if (source === 'message') this.wires.get(id)?.arrived(value as Uint8Array);
    else if (source === 'close')
      this.wires.get(id)?.onClose(value === null ? undefined : errorOf(value as Fields));
    else this.settle(id, value, third as Fields | undefined);
  }

  private settle(ticket: number, value: unknown, error: Fields | undefined): void {
    const waiting = this.pending.get(ticket);
    this.pending.delete(ticket);
    if (error !== undefined) waiting?.reject(errorOf(error));
    else waiting?.resolve(waiting.convert(value));
  }
}

function setOrDelete<T>(map: Map<number, T>, key: number, value: T | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}
