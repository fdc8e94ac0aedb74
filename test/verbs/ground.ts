/**
 * The verbs suite runs every case on every available provider: always on simulated devices, and on real ones if there
 * are any (soft-RoCE with `npm run test:rxe`). A feature that a provider does not support must fail with a typed
 * error, which is tested, too. docs/support.md is generated from the results.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { addonStatus, createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { createSoftNetwork, type SoftOptions } from '../../src/providers/soft/index.ts';
import { whyNoUdp } from '../../src/providers/soft/native.ts';
import * as V from '../../src/verbs/index.ts';

export type GroundName = 'sim' | 'soft' | 'rxe';

/** Where one case runs: two devices that reach each other, possibly the same device twice. */
export interface Ground {
  readonly name: GroundName;
  readonly provider: V.Provider;
  readonly devices: readonly [string, string];
  /** Simulated devices only. */
  readonly fabric: Fabric | null;
  /** Index of a GID that reaches the other device. */
  readonly gidIndex: number;
  /** The timeout of the conformance suite's connections, as ibv_modify_qp takes it; default: the suite's. */
  readonly timeout?: number;
  /** Lets time pass, so that work in flight proceeds. */
  turn(): Promise<void>;
}

const PATIENCE_MS = 20_000;

function simGround(wait: boolean): Ground {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false, wait });
  const turn = () => fabric.advance(50_000);
  return { name: 'sim', provider: fabric.provider, devices: ['sim0', 'sim1'], fabric, gidIndex: 1, turn };
}

/** Why there are no user-space RoCE devices; null if there are. */
export const noSoft = whyNoUdp();

/** ISOVERBS_SOFT_IMPAIRMENT: what becomes of packets, in JSON: { loss, delayMs, reorder, seed } (scripts/test-impaired). */
const impairment: SoftOptions = JSON.parse(process.env.ISOVERBS_SOFT_IMPAIRMENT ?? '{}');
/** ISOVERBS_SOFT_NETEM: what the cable does to packets, as parameters of netem (scripts/test-cable). */
const netem = process.env.ISOVERBS_SOFT_NETEM ?? '';
/** Whether user-space devices lose, delay or reorder packets themselves. */
export const impairsPackets = Object.keys(impairment).length > 0;
/** Whether packets of user-space devices are lost, late or reordered. */
const isImpaired = impairsPackets || netem !== '';
/** Whether netem loses packets: different ones in each run. */
const netemLoses = /\bloss (?!0%)/.test(netem);
/** Whether packets of user-space devices are lost. */
export const softLoses = (impairment.loss ?? 0) > 0 || netemLoses;
/**
 * While packets are lost or late, a case settles when several timeouts have passed: of 8 ms, or of 67 ms with netem,
 * because an emulated machine may stall for longer.
 */
const [IMPAIRED_TIMEOUT, IMPAIRED_TURN_MS] = netem === '' ? [11, 5] : [14, 30];

/** ISOVERBS_SOFT_CABLE: how many pairs of addresses the ends of a cable have (scripts/test-cable); 0: no cable. */
const cablePairs = Number(process.env.ISOVERBS_SOFT_CABLE ?? 0);
/** How many grounds this process has had. Files of tests share a process, and some leave devices open. */
const cable = globalThis as { isoverbsCableGrounds?: number };

/** Each ground has two addresses of its own, because the port of an address belongs to one process. */
function softGround(): Ground {
  if (cablePairs > 0) {
    cable.isoverbsCableGrounds = ((cable.isoverbsCableGrounds ?? 0) % cablePairs) + 1;
    const pair = cable.isoverbsCableGrounds;
    return softGroundAt([8, 9].map((net) => `10.${net}.${pair >> 8}.${pair & 255}`));
  }
  // Grounds come less often than once a microsecond, and are gone before the addresses are used again.
  const number = 2 * Number((process.hrtime.bigint() / 1000n) & 0x1fffffn);
  const addresses = [1, 2].map((own) => {
    const low = number + own - 1;
    return `127.${64 + (low >> 16)}.${(low >> 8) & 255}.${low & 255}`;
  });
  return softGroundAt(addresses);
}

/** User-space devices at these one or two addresses of this host. */
export function softGroundAt(addresses: string[]): Ground {
  const { provider } = createSoftNetwork({ addresses, ...impairment });
  return {
    name: 'soft',
    provider,
    devices: ['soft0', `soft${addresses.length - 1}`],
    fabric: null,
    gidIndex: 0,
    ...(isImpaired ? { timeout: IMPAIRED_TIMEOUT, turn: anImpairedTurn } : { turn: aMillisecond }),
  };
}

const aMillisecond = () => delay(1);
const anImpairedTurn = () => delay(IMPAIRED_TURN_MS);

/** Names of one or two real devices, or the reason why there are none. */
function findRealDevices(): [string, string] | string {
  const status = addonStatus();
  if (!status.available) return status.notes[0];
  const names = createRdmaCoreProvider()
    .getDeviceList()
    .map(({ name }) => name);
  const first = process.env.RXE_DEV ?? names[0];
  const second = process.env.RXE_DEV2 ?? first;
  if (first === undefined || !names.includes(first)) return 'there is no RDMA device on this machine';
  return [first, names.includes(second) ? second : first];
}

/** Names of the real devices, or the reason why there are none. */
export const realDevices = findRealDevices();
const real = realDevices;
/** Simulated devices are the same everywhere: an emulated machine need not run their cases again. */
export const realOnly = process.env.ISOVERBS_GROUND === 'rxe';
if (typeof real === 'string') console.warn(`the verbs suite runs on simulated devices alone: ${real}`);

function realGround(devices: readonly [string, string]): Ground {
  const provider = createRdmaCoreProvider();
  const context = provider.openDevice(devices[0]);
  let gidIndex = 0;
  const { gidTblLen } = provider.queryPort(context, 1);
  for (let i = 0; i < Math.min(gidTblLen, 16); i++) {
    const { gid, type } = provider.queryGid(context, 1, i);
    if (gid.startsWith('::ffff:') && type === 'RoCE v2') gidIndex = i;
  }
  provider.closeDevice(context);
  return { name: 'rxe', provider, devices, fabric: null, gidIndex, turn: aMillisecond };
}

/** The real devices as a separate ground, for cases against other programs; null if there are none. */
export function realGroundIfAny(): Ground | null {
  return typeof real === 'string' ? null : realGround(real);
}

/**
 * Makes a ground of this name; simulated devices are new, real ones must exist. `wait`: whether simulated ones have
 * WAIT.
 */
export function groundOf(name: GroundName, wait = true): Ground {
  if (name === 'soft') return softGround();
  return name === 'sim' ? simGround(wait) : realGround(real as [string, string]);
}

/**
 * Whether a case may have failed because the peer's error was lost. The peer does not repeat it, so the request ends
 * with RETRY_EXC_ERR. Such a case runs once more.
 */
const mayHaveLostItsError = (error: { message: string; actual?: unknown }) =>
  netemLoses && inspect([error.message, error.actual], { depth: 6 }).includes('RETRY_EXC_ERR');

export interface FeatureNotes {
  /** The group of rdma-core's own tests whose counterpart the feature is: 'srq', 'cqex' ... */
  group: string;
  /** Providers that do not support the feature; on these, each case must end with an UnsupportedError. */
  refusedBy?: readonly GroundName[];
  /** What other devices require for this feature, for docs/support.md. */
  others: string;
}

export type Case = (title: string, run: (ground: Ground) => void | Promise<void>) => void;

declare module 'vitest' {
  interface TaskMeta {
    feature?: { name: string; group: string; ground: GroundName; refused: boolean; others: string };
  }
}

/** Whether there is no such device here, or it need not be tested here. */
export function isAbsent(ground: GroundName): boolean {
  if (ground === 'rxe') return typeof real === 'string';
  return realOnly || (ground === 'soft' && noSoft !== null);
}

/** Declares a feature: its cases run on every ground. */
export function feature(name: string, notes: FeatureNotes, declare: (it: Case) => void): void {
  const { group, refusedBy = [], others } = notes;
  for (const ground of ['sim', 'soft', 'rxe'] as const) {
    const refused = refusedBy.includes(ground);
    const absent = isAbsent(ground);
    describe.skipIf(absent)(`${group}: ${name} on ${ground}${refused ? ' is refused' : ''}`, () => {
      declare((title, run) => {
        test(title, async ({ task }) => {
          task.meta.feature = { name, group, ground, refused, others };
          const here = groundOf(ground);
          const attempt = async () => run(here);
          if (refused) await expect(attempt()).rejects.toMatchObject({ code: 'ISO_ERR_UNSUPPORTED' });
          else {
            await attempt().catch((error) => {
              if (ground !== 'soft' || !mayHaveLostItsError(error)) throw error;
              return run(groundOf(ground));
            });
          }
        });
      });
    });
  }
}

/** Lets time pass until `done` returns true. @throws Error naming `what` if it never does */
export async function until(ground: Ground, what: string, done: () => boolean): Promise<void> {
  const giveUp = Date.now() + PATIENCE_MS;
  while (!done()) {
    if (Date.now() > giveUp) throw new Error(`waited in vain for ${what}`);
    await ground.turn();
  }
}

/** Polls until `count` completions have arrived; returns a batch with them (close it with its ring). */
export async function completions(ground: Ground, cq: number, count: number): Promise<V.WcBatch> {
  const { provider } = ground;
  const wcs = new V.WcBatch(provider, { capacity: Math.max(count, 1) });
  await until(ground, `${count} completions`, () => {
    wcs.length += provider.pollCq(cq, wcs.ring, wcs.length, count - wcs.length);
    return wcs.length >= count;
  });
  return wcs;
}
