/**
 * Various runs on the profile `minimal`, each with the hash of its trace. golden.json holds the results from
 * before the NIC model grew: a disabled feature changes no byte.
 */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import * as sim from '../../src/providers/sim/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { mixedProgram, runMixed } from '../conformance/mixed.ts';
import { program, runProgram } from '../conformance/program.ts';
import { simGround } from '../conformance/sim-ground.ts';
import { type AppOptions, B, D, Lab, M } from './apps.ts';
import { connect, makeEnd, pair, post, postRecv, SIGNALED } from './helpers.ts';
import { lossyRun } from './lossy-run.mjs';

/** Hash of a run's input (random programs come from fast-check, which may change), and its result. */
export interface Golden {
  input: string;
  trace: string;
}

const times = (count: number, app: AppOptions) => Array<AppOptions>(count).fill(app);

const MIXES: Record<string, AppOptions[]> = {
  B: [B],
  M: [M],
  D: [D],
  'B+M': [B, M],
  'B+D': [B, D],
  'B+M+D': [B, M, D],
  '16B+D': [...times(16, B), D],
  '3B+12M+2D': [...times(3, B), ...times(12, M), ...times(2, D)],
  'sizes around the MTU': [1, 4095, 4096, 4097, 8192, 10_000].map((size) => ({ size, batch: 4, depth: 16 })),
};

function digest(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);
}

function mix(name: string, seed: number, loss: number): string {
  const lab = new Lab({ seed, loss });
  for (const app of MIXES[name]) lab.add(app);
  lab.run(0.3e6);
  return lab.sim.world.trace.hash();
}

/** 0_WAITs and WAITs between requests, a READ behind a fence, retries of an absent receive. */
function waits(): string {
  const [a, b, fabric] = pair({ seed: 5 });
  const { lkey } = a.mr;
  for (let i = 0; i < 8; i++) {
    a.send.write(i, SIGNALED, a.mr.addr, 3000 * i, lkey, b.mr.addr, b.mr.rkey);
    a.send.wait(100 + i, SIGNALED, a.sendCq, i % 2, 3);
    a.send.read(200 + i, SIGNALED | V.IBV_SEND_FENCE, a.mr.addr, 5000, lkey, b.mr.addr, b.mr.rkey);
    a.send.fetchAdd(300 + i, 0, a.mr.addr, lkey, b.mr.addr, b.mr.rkey, 1n);
    a.send.send(400 + i, SIGNALED, a.mr.addr, 700, lkey);
  }
  post(a);
  fabric.simulation.runUntil(40e3);
  for (let i = 0; i < 8; i++) b.recv.recv(i, b.mr.addr, 4096, b.mr.lkey);
  postRecv(b);
  return finish(fabric);
}

/** Queue pairs of one host that communicate with each other, next to others that use the wire. */
function loopback(): string {
  const fabric = createFabric({ autoAdvance: false, seed: 3 });
  const pairs = [
    [0, 0],
    [0, 1],
    [1, 1],
  ].map((hosts) => hosts.map((host) => makeEnd(fabric, host)));
  for (const [a, b] of pairs) connect(a, b);
  for (const [a, b] of pairs) {
    for (let i = 0; i < 8; i++)
      a.send.write(i, SIGNALED, a.mr.addr, 7777 * i, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    b.send.read(9, SIGNALED, b.mr.addr, 60_000, b.mr.lkey, a.mr.addr, a.mr.rkey);
    post(b);
  }
  return finish(fabric);
}

/** Four directly connected hosts: three write to one, which reads from two. */
function fourHosts(): string {
  const fabric = createFabric({ hosts: 4, autoAdvance: false, seed: 4, loss: 0.01 });
  for (const host of [1, 2, 3]) {
    const [a, b] = [makeEnd(fabric, host), makeEnd(fabric, 0)];
    connect(a, b);
    for (let i = 0; i < 16; i++)
      a.send.write(i, SIGNALED, a.mr.addr, 60_000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    if (host === 3) continue;
    b.send.read(1, SIGNALED, b.mr.addr, 60_000, b.mr.lkey, a.mr.addr, a.mr.rkey);
    post(b);
  }
  return finish(fabric);
}

function finish(fabric: Fabric): string {
  fabric.simulation.run();
  const broken = fabric.brokenInvariants();
  if (broken.length > 0) throw new Error(broken.join('; '));
  return fabric.traceHash();
}

/** All runs by name, in the order of this file. */
export async function goldenRuns(): Promise<Record<string, Golden>> {
  const runs: Record<string, Golden> = {};
  const add = (name: string, input: unknown, trace: string) => {
    runs[name] = { input: digest(input), trace };
  };
  for (const name of Object.keys(MIXES)) {
    for (const [seed, loss] of [
      [1, 0],
      [2, 0],
      [3, 0.01],
    ])
      add(`mix ${name}, seed ${seed}, loss ${loss}`, [MIXES[name], seed, loss], mix(name, seed, loss));
  }
  for (const seed of [1, 2, 3]) add(`lossy run, seed ${seed}`, seed, lossyRun(sim, V, seed));
  add('waits', 0, waits());
  add('loopback', 0, loopback());
  add('four hosts', 0, fourHosts());
  const programs = fc.sample(program, { numRuns: 40, seed: 4242 });
  for (const [i, p] of programs.entries()) {
    const ground = simGround();
    await runProgram(p, [], ground);
    add(`program ${i}`, p, ground.fabric.traceHash());
  }
  const mixed = fc.sample(mixedProgram(), { numRuns: 40, seed: 4242 });
  for (const [i, p] of mixed.entries()) {
    const ground = simGround();
    await runMixed(p, [], ground);
    add(`mixed program ${i}`, p, ground.fabric.traceHash());
  }
  return runs;
}
