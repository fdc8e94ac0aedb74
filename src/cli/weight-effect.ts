/** Whether a weight or a rate that an operator sets for a tenant has an effect, as far as the daemon knows. */
import { parsePolicies } from '../config.ts';
import type { TenantListing } from '../daemon/client/tool-request.ts';
import { effectOfRates, effectOfWeights } from '../policies/daemon-settings.ts';

/** Why a setting has no effect, in a few words, and what would give it one. */
export interface Ineffective {
  readonly reason: string;
  readonly remedy: string;
}

/**
 * Null if the weight of a tenant has an effect on at least one of its devices, or if the daemon does not say what its
 * policy does with weights. Programs may run under other policies than the daemon's.
 */
export function whyIneffective(
  tenant: string,
  { rows, devices = [], policy }: TenantListing,
): Ineffective | null {
  const own = rows.filter((row) => row.tenant === tenant);
  if (policy === undefined || own.length === 0) return null;
  const list = policy === '' ? [] : parsePolicies(policy, 'the daemon');
  const effect = effectOfWeights(list);
  if (effect === 'turns' || effect === 'unknown') return null;
  if (effect === 'nothing') {
    const remedy =
      'token-bucket, justitia, palos, drum and fair share by weight, and tassel does for traffic without a rate';
    return { reason: list.length === 0 ? 'the daemon has no policy' : `${policy} ignores weights`, remedy };
  }
  const [{ gbps }] = own;
  if (gbps !== null)
    return {
      reason: `its rate is fixed at ${gbps} Gbit/s`,
      remedy: `\`isoverbs set ${tenant} gbps=share\` gives it a share by weight again`,
    };
  const isUnknown = (name: string) => devices.find(({ device }) => device === name)?.linkGbps === 0;
  if (effect !== 'shares' || !own.every(({ device }) => isUnknown(device))) return null;
  const [{ device }] = own;
  return {
    reason: `the link rate of ${device} is unknown`,
    remedy: `set \`devices.${device}.linkGbps\` in the configuration of the daemon, or the option linkGbps of its policy`,
  };
}

/**
 * Null if the rate (`gbps`) of a tenant has an effect under the daemon's policy, or if the daemon does not say what its
 * policy does with rates.
 */
export function whyRateIneffective(tenant: string, { rows, policy }: TenantListing): Ineffective | null {
  if (policy === undefined || rows.every((row) => row.tenant !== tenant)) return null;
  const list = policy === '' ? [] : parsePolicies(policy, 'the daemon');
  if (effectOfRates(list) !== 'nothing') return null;
  return {
    reason: list.length === 0 ? 'the daemon has no policy' : `${policy} ignores rates`,
    remedy: 'token-bucket enforces rates, and tassel, drum and fair enforce them as upper bounds',
  };
}

/** A link of the tenant that is slower than the rate (`gbps`) it has under the daemon's policy, in words; null: none is known. */
export function slowerLink(
  tenant: string,
  gbps: number,
  { rows, devices = [], policy = '' }: TenantListing,
): string | null {
  const list = policy === '' ? [] : parsePolicies(policy, 'the daemon');
  if (effectOfRates(list) !== 'limits') return null;
  // An option of the policy takes the place of what the device reports.
  const chosen = list.map(({ options }) => options.linkGbps).find((one) => typeof one === 'number');
  for (const { device } of rows.filter((row) => row.tenant === tenant)) {
    const linkGbps = chosen ?? devices.find((one) => one.device === device)?.linkGbps ?? 0;
    if (linkGbps > 0 && linkGbps < gbps) return `the link of ${device} (${linkGbps} Gbit/s)`;
  }
  return null;
}

/** What the new weight of a tenant means, in a line of `isoverbs top`. */
export function weightNotice(tenant: string, weight: number, listing: TenantListing): string {
  const isNow = `the weight of ${tenant} is now ${weight}`;
  const ineffective = whyIneffective(tenant, listing);
  if (ineffective !== null) return `${isNow}, but has no effect: ${ineffective.reason}`;
  // The column WEIGHT shows `own`.
  return listing.rows.some((row) => row.tenant === tenant && row.gbps !== null)
    ? `${isNow}, next to its fixed rate`
    : isNow;
}
