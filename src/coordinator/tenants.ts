/** The tenants of one device, and which members belong to each. */

/** What is grouped: rows of members, each with the number of its tenant. */
export interface Rows {
  readonly tenantIds: Float64Array;
  /** Every row in use is below this. */
  readonly rowLimit: number;
  /** Changes when a member joins or leaves. */
  readonly version: number;
  isMember(row: number): boolean;
}

/** The members of a device grouped by tenant. Tenants are dense indices here, which change with `version`. */
export class Tenants {
  private readonly rows: Rows;
  /** By member: its tenant's index, or -1. */
  private tenantByRow = new Int32Array(0);
  /** Members, grouped by tenant, and where the members of each tenant begin, plus the end of the last. */
  private rowsByTenant = new Int32Array(0);
  private starts = new Int32Array(1);
  /** Changes whenever members are regrouped. */
  version = -1;
  private tenantCount = 0;
  private size = 0;

  constructor(rows: Rows) {
    this.rows = rows;
  }

  /** Groups members by tenant again if a member joined or left. */
  group(): void {
    const { rows } = this;
    if (this.version === rows.version) return;
    this.version = rows.version;
    this.size = rows.rowLimit;
    if (this.tenantByRow.length < this.size) this.tenantByRow = new Int32Array(2 * this.size);
    const indices = new Map<number, number>();
    for (let i = 0; i < this.size; i++) {
      this.tenantByRow[i] = -1;
      if (!rows.isMember(i)) continue;
      const id = rows.tenantIds[i];
      const tenant = indices.get(id) ?? indices.size;
      indices.set(id, tenant);
      this.tenantByRow[i] = tenant;
    }
    this.tenantCount = indices.size;
    this.listRows();
  }

  /** Lists the members of each tenant. */
  private listRows(): void {
    const { tenantByRow, size, tenantCount } = this;
    if (this.rowsByTenant.length < tenantByRow.length) this.rowsByTenant = new Int32Array(tenantByRow.length);
    if (this.starts.length < tenantCount + 2) this.starts = new Int32Array(2 * tenantCount + 2);
    const { rowsByTenant, starts } = this;
    starts.fill(0);
    // Counted two elements ahead, so that filling in leaves each tenant's beginning behind.
    for (let i = 0; i < size; i++) if (tenantByRow[i] >= 0) starts[tenantByRow[i] + 2]++;
    for (let tenant = 2; tenant < tenantCount + 2; tenant++) starts[tenant] += starts[tenant - 1];
    for (let i = 0; i < size; i++) if (tenantByRow[i] >= 0) rowsByTenant[starts[tenantByRow[i] + 1]++] = i;
  }

  /** The number of tenants. */
  get length(): number {
    return this.tenantCount;
  }

  /** Every member is below this. */
  get memberLimit(): number {
    return this.size;
  }

  /** The index of a member's tenant; -1: there is no such member. */
  tenantOf(member: number): number {
    return member < this.size ? this.tenantByRow[member] : -1;
  }

  /**
   * The members of a tenant are `memberAt(k)` for k from `firstOf(tenant)` up to, but not including,
   * `firstOf(tenant + 1)`.
   */
  firstOf(tenant: number): number {
    return this.starts[tenant];
  }

  /** The member at a position in the order of tenants; see `firstOf`. */
  memberAt(at: number): number {
    return this.rowsByTenant[at];
  }

  /** The number that identifies a tenant for as long as it exists (tenantId in coordinator.ts). */
  idOf(tenant: number): number {
    return this.rows.tenantIds[this.rowsByTenant[this.starts[tenant]]];
  }
}

/** The number that identifies a tenant in memory shared between threads: 53 bits, from two FNV-1a hashes. */
export function tenantId(tenant: string): number {
  let low = 0x811c9dc5;
  let high = 0x01000193;
  for (let i = 0; i < tenant.length; i++) {
    const code = tenant.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ (code + i), 0x01000193) ^ (low >>> 15);
  }
  return (low >>> 0) + (high & 0x1fffff) * 2 ** 32;
}
