// record and replay: the same program gets the same answers, and a different program learns where it differs.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { createReplay, record } from '../../src/interceptors/index.ts';
import type { Provider } from '../../src/verbs/provider.ts';
import { eachShort } from '../support/variants.ts';
import { pairOn, scratch, simUnder } from '../unit/interceptors-rig.ts';

const folder = scratch();

interface Program {
  /** The client's message. */
  text: string;
  wrId: number;
}

/** A program that uses memory, events, promises, errors and random numbers. */
async function talk(provider: Provider, { text, wrId }: Program): Promise<string[]> {
  const said: string[] = [];
  const { a, b, close } = await pairOn(provider);
  a.qp.receive({ wrId: 5, sgList: [{ mr: a.mr, offset: 512, length: 64 }] });
  b.qp.post({ wrId, opcode: 'SEND', inlineData: Buffer.from(text) });
  const received = await a.cq.next();
  said.push(`${received.wrId} ${Buffer.from(a.mr.bytes.subarray(512, 512 + received.byteLen))}`);
  await b.cq.next();
  b.mr.bytes.fill(7, 0, 9000);
  const remote = { addr: a.mr.addr + 1000, rkey: a.mr.rkey };
  const done = await b.qp.execute({ opcode: 'RDMA_WRITE', sgList: [{ mr: b.mr, length: 9000 }], remote });
  said.push(`${done.status} ${a.mr.bytes[1000]} ${a.mr.bytes[9999]} ${a.mr.bytes[10_000]}`);
  await b.context.sleep(1000);
  said.push(`${b.context.nowNs()} ${b.qp.psn} ${b.context.queryDevice().maxQp}`);
  expect(() => provider.allocPd(1)).toThrow(
    expect.objectContaining({ code: 'ISO_ERR_HANDLE', verb: 'allocPd' }),
  );
  const wrongKey = {
    opcode: 'RDMA_READ',
    sgList: [{ mr: b.mr, length: 8 }],
    remote: { ...remote, rkey: 9 },
  } as const;
  await b.qp.execute(wrongKey).catch((error) => said.push(`${error.code} ${error.status}`));
  close();
  return said;
}

async function recorded(name: string, program: Program) {
  const interceptor = record({ file: join(folder, name) });
  const said = await talk(simUnder(interceptor), program);
  interceptor.close();
  return { said, file: interceptor.files[0] };
}

const PROGRAM = { text: 'hello', wrId: 6 };

test('the same program gets the same answers without a device', async () => {
  const { said, file } = await recorded('same.record', PROGRAM);
  const replay = createReplay(file);
  expect(replay.devices.map((device) => device.name)).toEqual(['sim0', 'sim1']);
  expect(await talk(replay.provider, PROGRAM)).toEqual(said);
  expect(said[0]).toBe('5 hello');
  expect(said[1]).toBe('0 7 7 0');
  expect(replay).toMatchObject({ isDone: true, next: 'made no further call' });
});

test('a different program gets the first difference as an error on every call', async () => {
  const { file } = await recorded('other.record', PROGRAM);
  const differs = (message: RegExp) =>
    expect.objectContaining({ code: 'ISO_ERR_REPLAY', message: expect.stringMatching(message) });
  const { provider } = createReplay(file);
  await expect(talk(provider, { ...PROGRAM, wrId: 8 })).rejects.toEqual(
    differs(
      /entry \d+: the recorded program called postSend\(.*\), but this one calls postSend\(.*\) with another wr_id in request 0/,
    ),
  );
  expect(() => provider.allocPd(1)).toThrow(differs(/with another wr_id/));
  await expect(talk(createReplay(file).provider, { ...PROGRAM, text: 'hullo' })).rejects.toEqual(
    differs(/with other elements or inline bytes in request 0/),
  );
  const early = createReplay(file);
  expect(() => early.provider.openDevice('sim7')).toThrow(
    differs(
      /entry 0: the recorded program called openDevice\("sim0",.*\), but this one calls openDevice\("sim7"\)/,
    ),
  );
  expect(early.isDone).toBe(false);
});

test('createReplay() rejects other files, other versions and damaged recordings with a typed error', async () => {
  const { file } = await recorded('whole.record', PROGRAM);
  const bytes = readFileSync(file);
  const open = (name: string, content: Uint8Array) => {
    const path = join(folder, name);
    writeFileSync(path, content);
    return () => createReplay(path);
  };
  const error = (message: RegExp) =>
    expect.objectContaining({ code: 'ISO_ERR_FILE', message: expect.stringMatching(message) });
  expect(open('foreign.record', Buffer.from('{"not": "ours, but long enough"}'))).toThrow(
    error(/not a recording/),
  );
  expect(open('trace.record', Buffer.concat([Buffer.from('ISOTRACE'), bytes.subarray(8)]))).toThrow(
    error(/not a recording/),
  );
  const newer = Buffer.from(bytes);
  newer.writeUInt32LE(2, 8);
  expect(open('newer.record', newer)).toThrow(error(/has version 2; this isoverbs reads version 1/));
  expect(open('cut.record', bytes.subarray(0, bytes.length - 12))).toThrow(error(/ends inside an entry/));
  const damaged = Buffer.from(bytes);
  damaged.writeUInt32LE(77, bytes.length - 8);
  expect(open('damaged.record', damaged)).toThrow(error(/damaged: unknown entry kind 77/));
  expect(() => createReplay(join(folder, 'absent.record'))).toThrow(error(/cannot be read/));
  const killed = open('killed.record', bytes.subarray(0, bytes.length - 8))();
  await expect(talk(killed.provider, PROGRAM)).resolves.toHaveLength(4);
  expect(killed.isDone).toBe(false);
  expect(() => killed.provider.openDevice('sim0')).toThrow(/its process was killed there/);
});

const ROOT = resolve(import.meta.dirname, '../..');

eachShort(1, ['srq-server', 'rdma-cm-echo'])('example %s replays in a new process', (name) => {
  const run = (env: Record<string, string>) => {
    const args = ['--import', join(ROOT, 'dist/register.js'), join(ROOT, `examples/${name}.mjs`)];
    const child = spawnSync(process.execPath, args, {
      cwd: folder,
      env: { PATH: process.env.PATH, ...env },
      encoding: 'utf8',
      timeout: 30_000,
    });
    return { code: child.status, out: child.stdout, err: child.stderr };
  };
  const file = join(folder, `${name}.record`);
  const first = run({ ISOVERBS_INTERCEPTORS: `record:file=${file}`, ISOVERBS_NO_ADDON: '1' });
  expect(first).toMatchObject({ code: 0, err: '' });
  expect(run({ ISOVERBS_REPLAY: file, ISOVERBS_NO_ADDON: '1' })).toEqual(first);
});
