/** record: writes down every call with its arguments and results, and every event, in order. */
import { randomInt } from 'node:crypto';
import { z } from 'zod';
import type { Interceptor } from '../../shim/compose.ts';
import type { ConnectionManager } from '../../verbs/connection-manager.ts';
import type { Provider, Rendezvous } from '../../verbs/provider.ts';
import { atExit, encodeHeader } from '../output.ts';
import * as F from './format.ts';
import { Recorder } from './recorder.ts';
import { RecordedWire } from './wires.ts';
import { RecordWriter } from './writer.ts';

/** Options of `record`. */
export const recordOptions = z.strictObject({
  file: z
    .string()
    .min(1)
    .default('isoverbs-{pid}-{thread}.record')
    .describe('output file; {pid} and {thread} are replaced'),
  data: z.stringbool().or(z.boolean()).default(true).describe('whether arriving bytes are recorded too'),
});

/** The options of `record` as passed; an absent option has its default. */
export type RecordOptions = z.input<typeof recordOptions>;

/** A recording interceptor. */
export interface RecordInterceptor extends Interceptor {
  /** Paths of the files, one for each wrapped provider. */
  readonly files: readonly string[];
  /** Completes and closes the files; later calls are not recorded. Also happens at exit. */
  close(): void;
}

/** Creates a recording interceptor. @throws FileError at compose time when the file cannot be written */
export function record(options: RecordOptions = {}): RecordInterceptor {
  const { file, data } = recordOptions.parse(options);
  const files: string[] = [];
  const closers: (() => void)[] = [];
  return {
    name: 'record',
    files,
    close: () => {
      for (const close of closers.splice(0)) close();
    },
    wrap(next) {
      const writer = new RecordWriter(file, encodeHeader(F.RECORD_MAGIC, F.RECORD_VERSION, headerOf(next)));
      files.push(writer.path);
      const cancelAtExit = atExit(() => writer.close());
      closers.push(() => {
        cancelAtExit();
        writer.close();
      });
      const recorder = new Recorder(next, writer, data);
      return {
        ...recorder.verbs(),
        ...timeVerbs(next, recorder),
        rendezvous: recordedRendezvous(next.rendezvous, recorder),
        cm: next.cm === null ? null : recordedCm(next.cm, recorder),
      };
    },
  };
}

function headerOf(next: Provider): F.RecordHeader {
  return {
    provider: next.name,
    threads: next.threads,
    wait: next.wait,
    below: [...(next.specs ?? next.interceptors)],
    devices: next.getDeviceList(),
    cm: next.cm !== null,
    cmError: next.cmError,
    peer: next.describePeer !== undefined,
    startedAt: new Date().toISOString(),
  };
}

function timeVerbs(next: Provider, recorder: Recorder) {
  return {
    nowNs: recorder.wrapped('nowNs', next.nowNs) as Provider['nowNs'],
    random: recorder.wrapped('random', next.random ?? randomInt) as (below: number) => number,
    sleep: (...args: Parameters<Provider['sleep']>) =>
      recorder.promised(
        'sleep',
        args,
        () => next.sleep(...args),
        () => null,
      ),
  };
}

function recordedRendezvous(next: Rendezvous, recorder: Recorder): Rendezvous {
  let wires = 0;
  return {
    listen(context, options, onWire) {
      const ticket = recorder.nextTicket;
      const wrapped: typeof onWire = (wire) => {
        const id = ++wires;
        recorder.event('wire', [ticket, id, wire.remoteAddress]);
        onWire(new RecordedWire(wire, id, recorder));
      };
      const server = recorder.promised(
        'rendezvous.listen',
        [context, options],
        () => next.listen(context, options, wrapped),
        ({ port }) => ({ port }),
      );
      return server.then((inner) => ({
        port: inner.port,
        close: recorder.wrapped('server.close', () => inner.close(), [ticket]) as () => void,
      }));
    },
    async connect(context, options) {
      const id = ++wires;
      const inner = await recorder.promised(
        'rendezvous.connect',
        [context, options],
        () => next.connect(context, options),
        (wire) => ({ wire: id, remoteAddress: wire.remoteAddress }),
      );
      return new RecordedWire(inner, id, recorder);
    },
  };
}

function recordedCm(next: ConnectionManager, recorder: Recorder): ConnectionManager {
  const verbs: Record<string, unknown> = {};
  for (const verb of F.CM_VERBS) {
    const call = next[verb].bind(next) as (...args: unknown[]) => unknown;
    verbs[verb] = recorder.wrapped(`cm.${verb}`, call);
  }
  const watchEventChannel: ConnectionManager['watchEventChannel'] = (channel, listener) => {
    const wrapped: typeof listener = (event) => {
      recorder.event('cm', [channel, event]);
      listener?.(event);
    };
    recorder.run('cm.watchEventChannel', [channel, listener], () =>
      next.watchEventChannel(channel, typeof listener === 'function' ? wrapped : listener),
    );
  };
  return { ...verbs, watchEventChannel } as unknown as ConnectionManager;
}
