/** Mixtures drawn from a seed: any profile, topology, operation, size and number of queue pairs. */
import { type Mix, mixApp } from '../mix/mixture.ts';
import type { Operation } from '../mix/operations.ts';
import type { Kind } from '../mix/spec.ts';
import { RandomStream } from '../sim/kernel/random.ts';
import { TOPOLOGIES, type TopologyName } from '../sim/network/topology.ts';
import { PROFILES } from '../sim/profile/profiles.ts';
import { Draw } from './draw.ts';

/** The fixed parts of all mixtures. A missing profile or topology is drawn for each mixture. */
export type Fixed = Pick<Mix, 'set' | 'duration' | 'warmup'> & Partial<Pick<Mix, 'profile' | 'topology'>>;

const FEWEST_APPS = 2;
const MOST_APPS = 6;
const MOST_HOSTS = 6;
/** The share of applications on host 0. The others are anywhere; evenly spread, they would rarely meet on a link. */
const ON_HOST_0 = 0.75;
/** The share of mixtures whose first application is a B on host 0, from which a policy can protect the others. */
const WITH_B = 0.75;
/** The share of WRITEs and SENDs over UC, and of SENDs over UD. */
const UNRELIABLE = 0.1;
const KIB = 1024;
/** The smallest path MTU of the profiles. */
const DATAGRAM_BYTES = 1024;

/** A word that is listed several times is drawn more often. */
interface Choices {
  readonly op: readonly Operation[];
  /** Sizes are powers of two, all equally likely. */
  readonly smallestBytes: number;
  readonly largestBytes: number;
  readonly qps: readonly number[];
  readonly think: readonly string[];
}

const KINDS: readonly Kind[] = ['B', 'B', 'B', 'M', 'M', 'M', 'M', 'D', 'D', 'D', 'D', 'D', 'D'];
const CHOICES: Readonly<Record<Kind, Choices>> = Object.freeze({
  B: {
    op: ['write', 'write', 'send', 'read'],
    smallestBytes: 16 * KIB,
    largestBytes: 4096 * KIB,
    qps: [1, 1, 2, 4, 8, 16],
    think: ['0', '0', '0', '50us'],
  },
  M: {
    op: ['write', 'write', 'send', 'read', 'atomic'],
    smallestBytes: 8,
    largestBytes: 512,
    qps: [1, 2, 4, 8, 16, 32],
    think: ['0', '0', '0', '10us'],
  },
  D: {
    op: ['write', 'write', 'send', 'read', 'atomic'],
    smallestBytes: 8,
    largestBytes: 2 * KIB,
    qps: [1, 1, 2, 4],
    think: ['0', '1us', '5us', '20us'],
  },
});
const DEPTHS: Readonly<Record<'B' | 'D', readonly number[]>> = { B: [1, 2, 4, 8], D: [1] };
const BATCHES: readonly number[] = [1, 8, 16, 32];
/** Batches of M outstanding on each queue pair. */
const BATCHES_OUTSTANDING: readonly number[] = [1, 2, 4, 4];

/** Mixture `index` of a seed. The same seed and index always give the same mixture. */
export function randomMixture(seed: number, index: number, fixed: Fixed): Mix {
  const draw = new Draw(new RandomStream(seed, 'mixture', index));
  const drawn = { profile: draw.oneOf(Object.keys(PROFILES)), topology: draw.oneOf(TOPOLOGIES) };
  const { profile = drawn.profile, topology = drawn.topology, duration, warmup } = fixed;
  const hosts = hostsOf(topology, draw);
  const congestion = draw.oneOf(['none', 'dcqcn']);
  const apps = Array.from({ length: draw.from(FEWEST_APPS, MOST_APPS) }, (_, i) =>
    mixApp(appOf(i === 0 && draw.chance(WITH_B), hosts, draw)),
  );
  const set = { congestionControl: congestion, ...fixed.set };
  return { profile, set, duration, warmup, hosts, topology, apps };
}

/** Draws exactly one number for every topology, so that the rest of a mixture does not depend on it. */
function hostsOf(topology: TopologyName, draw: Draw): number {
  // A leaf has four hosts, so fewer hosts would never use a spine.
  const hosts = draw.from(topology === 'leaf-spine' ? 5 : 3, MOST_HOSTS);
  return topology === 'cable' ? 2 : hosts;
}

/** @param isB whether the application is a B on host 0 */
function appOf(isB: boolean, hosts: number, draw: Draw): string {
  const kind = isB ? 'B' : draw.oneOf(KINDS);
  const { op: operations, smallestBytes, largestBytes, qps, think } = CHOICES[kind];
  const op = draw.oneOf(operations);
  const sizeBytes = op === 'atomic' ? 8 : 2 ** draw.from(Math.log2(smallestBytes), Math.log2(largestBytes));
  const host = isB || draw.chance(ON_HOST_0) ? 0 : draw.from(0, hosts - 1);
  const to = (host + draw.from(1, hosts - 1)) % hosts;
  const keys = [`op=${op}`, `size=${sizeText(sizeBytes)}`, `qps=${draw.oneOf(qps)}`];
  if (kind === 'M') {
    const batch = draw.oneOf(BATCHES);
    keys.push(`batch=${batch}`, `depth=${batch * draw.oneOf(BATCHES_OUTSTANDING)}`);
  } else {
    keys.push(`depth=${draw.oneOf(DEPTHS[kind])}`);
  }
  const pause = draw.oneOf(think);
  if (pause !== '0') keys.push(`think=${pause}`);
  const transport = transportOf(op, sizeBytes, draw);
  if (transport !== 'rc') keys.push(`transport=${transport}`);
  return `${kind}:${keys.join(',')},host=${host},to=${to}`;
}

function transportOf(op: Operation, sizeBytes: number, draw: Draw): string {
  if (op !== 'write' && op !== 'send') return 'rc';
  if (draw.chance(UNRELIABLE)) return 'uc';
  return op === 'send' && sizeBytes <= DATAGRAM_BYTES && draw.chance(UNRELIABLE) ? 'ud' : 'rc';
}

function sizeText(bytes: number): string {
  return bytes < KIB ? String(bytes) : `${bytes / KIB}KiB`;
}
