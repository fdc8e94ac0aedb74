/**
 * What each application sends, relative to an equal share of its link: equation (1) of Palos (docs/policies/palos.md) for
 * tenants of weight 1. An application that sends less than its share leaves the rest to the others.
 */
import { specOf } from '../mix/jobs.ts';
import type { Mix } from '../mix/mixture.ts';
import { OPCODES } from '../mix/operations.ts';
import { type App, appsOf, paramsOf } from '../mix/resolve.ts';
import type { AppResult, MixResult } from '../mix/result.ts';
import { egressBytes, ingressBytes } from '../policies/kit/index.ts';
import type { NicParams } from '../sim/profile/params.ts';

/** What one application puts on one direction of the link of one host. */
interface Load {
  readonly link: string;
  readonly wireGbps: number;
}

/**
 * By application: what it sends on the wire, divided by its share of the link out of its host, or, for READs, of the link
 * into it. Undefined for atomics, which the link does not limit.
 */
export function ofEqualShares(mix: Mix, result: MixResult, seed: number): (number | undefined)[] {
  const spec = specOf(mix, seed);
  const params = paramsOf(spec);
  const loads = appsOf(spec, params).map((app, i): Load | undefined => {
    const { op, host } = app;
    if (op === 'atomic') return undefined;
    const link = op === 'read' ? `into ${host}` : `out of ${host}`;
    return { link, wireGbps: wireGbpsOf(app, result.apps[i], params) };
  });
  return loads.map((load) => {
    if (load === undefined) return undefined;
    const others = loads.filter((other) => other !== load && other?.link === load.link);
    return (
      load.wireGbps /
      shareNextTo(
        others.map((other) => other!.wireGbps),
        params.linkGbps,
      )
    );
  });
}

/** What an application puts on the link in the direction of its payload, headers included. */
export function wireGbpsOf(
  { op }: Pick<App, 'op'>,
  { throughputGbps, messageBytes }: Pick<AppResult, 'throughputGbps' | 'messageBytes'>,
  params: Readonly<NicParams>,
): number {
  const bytesOf = op === 'read' ? ingressBytes : egressBytes;
  return (throughputGbps * bytesOf(params, OPCODES[op], messageBytes)) / messageBytes;
}

/**
 * The share of what is divided for one that always requests more, next to others that get or request at most these
 * rates.
 */
export function shareNextTo(rates: readonly number[], whole: number): number {
  let left = whole;
  let sharers = rates.length + 1;
  for (const rate of rates.toSorted((a, b) => a - b)) {
    if (rate >= left / sharers) break;
    left -= rate;
    sharers--;
  }
  return left / sharers;
}
