/** What operators have set for tenants, present or not. */
import { mergedSetting, type Setting } from '../tenant-settings.ts';
import { refusalOf } from './rates.ts';

/** Tenants for which settings are kept. */
const MAX_SETTINGS = 4096;

/** The settings by tenant, the oldest first. */
export class OperatorSettings {
  private readonly byTenant = new Map<string, Setting>();

  /** What is set for a tenant. */
  of(tenant: string): Setting {
    return this.byTenant.get(tenant) ?? {};
  }

  /**
   * Changes settings of a tenant. Bounds the memory spent on tenants that are not present.
   * @param linkGbps of the devices where the tenant is; 0: unknown
   * @returns why the change is refused; null: it is not
   */
  change(
    tenant: string,
    change: Setting,
    linkGbps: readonly number[],
    isPresent: (tenant: string) => boolean,
  ): string | null {
    const { byTenant } = this;
    const merged = mergedSetting(byTenant.get(tenant), change);
    const refusal = refusalOf(merged, change, linkGbps);
    if (refusal !== null) return refusal;
    // Reinserted at the end, so that the oldest settings are evicted first.
    byTenant.delete(tenant);
    byTenant.set(tenant, merged);
    if (byTenant.size <= MAX_SETTINGS) return null;
    for (const name of byTenant.keys()) {
      if (isPresent(name)) continue;
      byTenant.delete(name);
      break;
    }
    return null;
  }
}
