/**
 * Whether a policy keeps the random rates of a mixture: no application sends more than its rate, and none gets less than
 * it is due. Everything counts in bytes on the wire, headers included.
 *
 * An application with rates is due the lowest of them, divided by Phi if the rates of its link exceed it, unless it asks
 * for less: after each batch, a closed loop has nothing to send for its pause and a round trip, which is not made up for.
 * A bulk application without a rate is due an equal part of what the rates leave, but not more than it gets under the
 * policy without any rates.
 */
import { specOf } from '../mix/jobs.ts';
import { OPCODES } from '../mix/operations.ts';
import { type App, appsOf, paramsOf } from '../mix/resolve.ts';
import type { AppResult, MixResult } from '../mix/result.ts';
import { RETH_BYTES, wireBytes } from '../policies/kit/wire.ts';
import type { NicParams } from '../sim/profile/params.ts';
import { shareNextTo, wireGbpsOf } from './equal-share.ts';
import type { Limit, RatedMix } from './random-rates.ts';

/** The bounds, each relative to the rate or to what is due. */
export const MOST_ABOVE = 0.01;
export const MOST_BELOW = 0.03;
/** An application asks for its rate if it gets this many times as much when no application has a rate. */
const ASKS = 1.5;
/** Another one does if it fills its part of the link then, and has this many times what a round trip carries posted. */
const BACKLOG = 2;
const FILLS = 0.9;
/** Time in which a request completes on an idle device, besides the time on the cables. */
const DEVICE_NS = 2000;
/** The part of the link that rates may fill, and the part that is left for applications without a rate in any case. */
const USABLE = 0.995;
const REST = 0.01;
/**
 * At its ends, a window may have a piece more or less of each rate; messages that cannot be cut are one piece. Pieces are
 * at least this long, and take at least so many times as long on the link as their request occupies the device.
 */
const PIECE_BYTES = 8192;
const PIECE_GAPS = 8;

/** An application under random rates. */
export interface Kept {
  readonly app: string;
  /** What it sends, its lowest rate (Infinity: none), and what it is due (NaN: it does not ask for more). */
  readonly gbps: number;
  readonly rateGbps: number;
  readonly dueGbps: number;
  /** Beyond these, it is above its rate or below what it is due. */
  readonly mostGbps: number;
  readonly leastGbps: number;
}

/**
 * The applications of a mixture, except those whose payload does not use the link.
 * @param without the run of the same mixture under the same policy without any rates
 */
export function ratesKept(
  { mix, limits }: RatedMix,
  result: MixResult,
  without: MixResult,
  seed: number,
): Kept[] {
  const spec = specOf(mix, seed);
  const params = paramsOf(spec);
  const windowNs = result.durationNs - result.warmupNs;
  const apps = appsOf(spec, params).map((app, i): Sender => {
    const rateGbps = Math.min(Number.POSITIVE_INFINITY, ...limits[i].map(({ gbps }) => gbps));
    return {
      ...{ app, rateGbps, limits: limits[i], link: linkOf(app) },
      gbps: sentGbps(app, result.apps[i], params),
      freeGbps: freeGbps(app, without.apps[i], params),
      pieceGbps: (pieceBytes(app, params) * 8) / windowNs,
    };
  });
  return apps
    .filter(({ app }) => app.host !== app.to)
    .map((sender) => {
      const { app, gbps, rateGbps, pieceGbps } = sender;
      const dueGbps = dueOf(sender, apps, params);
      const most = sender.limits.map((limit) => (1 + MOST_ABOVE) * limit.gbps + limit.holders * pieceGbps);
      const pieces = Math.max(1, ...sender.limits.map(({ holders }) => holders));
      return {
        ...{ app: app.name, gbps, rateGbps, dueGbps },
        mostGbps: Math.min(Number.POSITIVE_INFINITY, ...most),
        leastGbps: Number.isNaN(dueGbps) ? 0 : (1 - MOST_BELOW) * dueGbps - pieces * pieceGbps,
      };
    });
}

interface Sender {
  readonly app: App;
  readonly limits: readonly Limit[];
  readonly rateGbps: number;
  /** The direction of its host's link in which its payload flows. */
  readonly link: string;
  readonly gbps: number;
  /** What it sends without rates. */
  readonly freeGbps: number;
  /** A piece more in the window. */
  readonly pieceGbps: number;
}

const linkOf = ({ op, host }: App) => (op === 'read' ? `into ${host}` : `out of ${host}`);

/** What the wire carries of an application, estimated from its payload. */
function freeGbps(app: App, result: AppResult, params: Readonly<NicParams>): number {
  if (app.op !== 'atomic') return wireGbpsOf(app, result, params);
  return result.messageRateMmps * wireBytes(params, OPCODES.atomic, app.maxBytes) * 8e-3;
}

/**
 * What the wire carries of an application, with the headers that the policy counts. The simulated devices send atomics
 * without AtomicETH, and responses of READs without AETH.
 */
function sentGbps({ op, maxBytes }: App, { wireGbps = Number.NaN }: AppResult, params: Readonly<NicParams>) {
  const { headerBytes, mtuBytes } = params;
  if (op !== 'atomic' && (op !== 'read' || maxBytes > mtuBytes)) return wireGbps;
  const simulated = headerBytes + (op === 'atomic' ? RETH_BYTES : maxBytes);
  return (wireGbps * wireBytes(params, OPCODES[op], maxBytes)) / simulated;
}

function pieceBytes({ op, transport, maxBytes }: App, params: Readonly<NicParams>): number {
  const longest = Math.max(PIECE_BYTES, (2 * PIECE_GAPS * params.wqeGapNs * params.linkGbps) / 8);
  const bytes = transport === 'rc' ? Math.min(maxBytes, longest) : maxBytes;
  return wireBytes(params, OPCODES[op], bytes);
}

/** What an application is due, or NaN if that depends on its latency. */
function dueOf(sender: Sender, all: readonly Sender[], params: Readonly<NicParams>): number {
  const near = all.filter(({ link }) => link === sender.link);
  const rated = near.filter(({ rateGbps }) => Number.isFinite(rateGbps));
  const isShared = rated.length < near.length;
  const usableGbps = USABLE * params.linkGbps;
  const sum = rated.reduce((total, { rateGbps }) => total + rateGbps, 0);
  const phi = Math.max(1, (sum + (isShared ? REST * usableGbps : 0)) / usableGbps);
  if (!rated.includes(sender)) {
    if (sender.app.kind !== 'B') return Number.NaN;
    const others = near.filter((one) => one !== sender && !rated.includes(one));
    const left =
      phi > 1 ? REST * usableGbps : usableGbps - rated.reduce((total, { gbps }) => total + gbps, 0);
    return Math.min(
      sender.freeGbps,
      shareNextTo(
        others.map(({ gbps }) => gbps),
        left,
      ),
    );
  }
  const due = sender.rateGbps / phi;
  const isBusy = isBacklogged(sender.app, params) && isAlone(sender, all) && fillsPart(sender, near, params);
  return sender.freeGbps >= ASKS * due || isBusy ? askedOf(sender, due, params) : Number.NaN;
}

/** Whether the link is what limits an application while no application has a rate. */
function fillsPart(sender: Sender, near: readonly Sender[], { linkGbps }: Readonly<NicParams>): boolean {
  const others = near.filter((one) => one !== sender);
  const part = shareNextTo(
    others.map((one) => one.freeGbps),
    linkGbps,
  );
  return sender.freeGbps >= FILLS * part;
}

const roundTripNsOf = ({ propagationNs, switchNs }: Readonly<NicParams>) =>
  2 * (propagationNs + switchNs) + DEVICE_NS;

/** Whether enough is always posted to fill the link. */
function isBacklogged({ kind, thinkNs, qps, depth, maxBytes }: App, params: Readonly<NicParams>): boolean {
  const bytes = (qps * depth - 1) * maxBytes;
  return kind === 'B' && thinkNs === 0 && bytes >= (BACKLOG * roundTripNsOf(params) * params.linkGbps) / 8;
}

/**
 * What a closed loop asks for when it may send this much: a batch, then nothing for its pause and a round trip, unless
 * what it has posted besides lasts for as long.
 */
function askedOf({ app }: Sender, gbps: number, params: Readonly<NicParams>): number {
  const { op, qps, batch, depth, thinkNs, maxBytes } = app;
  const messageNs = (wireBytes(params, OPCODES[op], maxBytes) * 8 * qps) / gbps;
  const idleNs = thinkNs + roundTripNsOf(params);
  if (thinkNs === 0 && (depth - batch) * messageNs >= idleNs) return gbps;
  return (gbps * batch * messageNs) / (batch * messageNs + idleNs);
}

/** Whether all applications are on the same host, so that they meet at its link, and at no other. */
function isAlone({ app }: Sender, all: readonly Sender[]): boolean {
  return all.every((other) => other.app.host === app.host);
}
