/**
 * Sizes of chunks by weight, as in Palos, section IV-B, with tenants above its groups: a queue pair has a weight among
 * those of its group, a group one among those of its tenant, and a tenant one among all tenants, so that no tenant gains
 * by making groups. For one tenant, and for tenants with one group each, this is equation (2) of the paper.
 *
 * A chunk is the product of two stored numbers: the weight of the queue pair, and the granularity of its group. A change
 * therefore writes one entry of a queue pair, or entries of groups, never those of all queue pairs.
 */
import { fitColumn } from '../shim/tables.ts';

/** How chunks are computed. */
export interface ChunkOptions {
  /** The queue pairs and groups that divide the weights: all of them, or those that are active. */
  readonly sums: Sums;
  /** Mean length of a chunk, in bytes: N of equation (2) is this times the number of queue pairs counted. */
  readonly bytesPerQp: number;
  /** Binary places of the granularity. Default: a floating-point number. */
  readonly fractionBits?: number;
}

/** `configured`: as in the paper. `active`: idle queue pairs leave their part to the others of their group. */
export type Sums = 'configured' | 'active';

const NO_GROUP = -1;

/** Words of a group or tenant: its weight, and the sum of the weights below it that count (`addTo`), which has two words. */
const WEIGHT = 0;
const SUM = 1;
const TENANT_WORDS = 3;
/**
 * Further words of a group, which has a power of two of them: the number of its members that count, its granularity, the
 * version that this was computed for, and the number of all its members.
 */
const GROUP_BITS = 3;
const COUNT = 3;
const GRANULARITY = 4;
const VERSION = 5;
const MEMBERS = 6;

/** A tenant. */
interface Tenant {
  readonly name: string;
  readonly groups: Map<string, number>;
  readonly words: Float64Array;
  /** Groups with a counted member. */
  counted: number;
}

/** The weights of queue pairs (members), groups and tenants at one device, and the chunks that follow from them. */
export class ChunkWeights {
  /**
   * Entries written so far in the two tables of fig. 6: weights of queue pairs, and granularities of groups. Weights of
   * groups and tenants are in neither.
   */
  writes = 0;
  private readonly options: ChunkOptions;
  private readonly scale: number;
  /** Those with groups. */
  private readonly tenants = new Map<string, Tenant>();
  // By group.
  private readonly tenantOf: (Tenant | undefined)[] = [];
  private readonly names: string[] = [];
  private groups: Float64Array = new Float64Array(16 << GROUP_BITS);
  private readonly freeGroups: number[] = [];
  // By member: its weight, its group plus one, and whether it counts.
  private weights: Float64Array = new Float64Array(64);
  private groupOfMember: Int32Array = new Int32Array(64);
  private isCounted: Uint8Array = new Uint8Array(64);
  /** The sum of the weights of tenants that count (`addTo`), and the number of members that do. */
  private readonly total = new Float64Array(2);
  private countedMembers = 0;
  /** Changes whenever the granularities of all groups do. */
  private version = 1;

  constructor(options: ChunkOptions) {
    this.options = options;
    this.scale = options.fractionBits === undefined ? 0 : 2 ** options.fractionBits;
  }

  /** The group of a tenant with this name, of weight 1 if it is new. A group without members may be forgotten. */
  groupOf(tenant: string, name: string): number {
    const owner = this.tenantNamed(tenant);
    return owner.groups.get(name) ?? this.addGroup(owner, name);
  }

  /**
   * Sets the weight of a tenant, which is 1 at first, and again once the tenant has no more groups. A tenant without groups
   * is not known, so that none is kept for ever.
   */
  setTenantWeight(name: string, weight: number): void {
    const tenant = this.tenants.get(name);
    if (tenant === undefined || tenant.words[WEIGHT] === weight) return;
    const { words, counted } = tenant;
    if (counted > 0) addTo(this.total, 0, words, WEIGHT, -1);
    words[WEIGHT] = weight;
    if (counted === 0) return;
    addTo(this.total, 0, words, WEIGHT, 1);
    this.version++;
  }

  /** Sets the weight of a group among the groups of its tenant. */
  setGroupWeight(tenant: string, name: string, weight: number): void {
    const group = this.groupOf(tenant, name);
    const { groups } = this;
    const at = group << GROUP_BITS;
    if (groups[at + WEIGHT] !== weight) {
      const { words } = this.tenantOf[group]!;
      const isCounted = groups[at + COUNT] > 0;
      if (isCounted) addTo(words, SUM, groups, at + WEIGHT, -1);
      groups[at + WEIGHT] = weight;
      if (isCounted) {
        addTo(words, SUM, groups, at + WEIGHT, 1);
        this.version++;
      }
    }
    this.forgetIfUnused(group);
  }

  /** Adds a member to a group. With sums over active members, it does not count yet. */
  add(member: number, group: number, weight: number): void {
    this.weights = fitColumn(this.weights, member);
    this.groupOfMember = fitColumn(this.groupOfMember, member);
    this.isCounted = fitColumn(this.isCounted, member);
    this.weights[member] = weight;
    this.groupOfMember[member] = group + 1;
    this.groups[(group << GROUP_BITS) + MEMBERS]++;
    this.writes++;
    if (this.options.sums === 'configured') this.count(member);
  }

  /** Whether a member has been added. */
  has(member: number): boolean {
    return member < this.groupOfMember.length && this.groupOfMember[member] !== 0;
  }

  /** Removes a member. */
  remove(member: number): void {
    const group = this.of(member);
    if (group === NO_GROUP) return;
    this.discount(member);
    this.groupOfMember[member] = 0;
    this.groups[(group << GROUP_BITS) + MEMBERS]--;
    this.forgetIfUnused(group);
  }

  /** Moves a member to another group. */
  move(member: number, group: number): void {
    const from = this.of(member);
    if (from === group || from === NO_GROUP) return;
    const wasCounted = this.isCounted[member] === 1;
    this.discount(member);
    this.groups[(from << GROUP_BITS) + MEMBERS]--;
    this.groups[(group << GROUP_BITS) + MEMBERS]++;
    this.groupOfMember[member] = group + 1;
    this.writes++;
    if (wasCounted) this.count(member);
    this.forgetIfUnused(from);
  }

  /** Sets the weight of a member among those of its group. */
  setWeight(member: number, weight: number): void {
    const { weights, groups } = this;
    if (weights[member] === weight) return;
    const at = this.of(member) << GROUP_BITS;
    const isCounted = this.isCounted[member] === 1;
    if (isCounted) addTo(groups, at + SUM, weights, member, -1);
    weights[member] = weight;
    this.writes++;
    if (!isCounted) return;
    addTo(groups, at + SUM, weights, member, 1);
    groups[at + VERSION] = 0;
  }

  /** With sums over active members, says whether a member is active. Otherwise it has no effect. */
  setActive(member: number, isActive: boolean): void {
    if (this.options.sums === 'configured') return;
    if (isActive) this.count(member);
    else this.discount(member);
  }

  /** The chunk of a member that counts, in bytes; at least 1. Equation (2). */
  chunkBytes(member: number): number {
    const at = this.of(member) << GROUP_BITS;
    if (this.groups[at + VERSION] !== this.version) this.grade(at);
    const bytes = this.weights[member] * this.groups[at + GRANULARITY];
    if (this.scale === 0) return bytes > 1 ? bytes : 1;
    return bytes > 1 ? Math.floor(bytes) : 1;
  }

  /** The weight of a member's group among those of its tenant. */
  groupWeightOf(member: number): number {
    return this.groups[(this.of(member) << GROUP_BITS) + WEIGHT];
  }

  /** The part of the whole that a member is due while all that count have something to send: equation (1). */
  shareOf(member: number): number {
    const group = this.of(member);
    const { words } = this.tenantOf[group]!;
    const at = group << GROUP_BITS;
    const ofGroup = (words[WEIGHT] / this.total[0]) * (this.groups[at + WEIGHT] / words[SUM]);
    return (ofGroup * this.weights[member]) / this.groups[at + SUM];
  }

  /** Computes the granularity of a group with members that count. */
  private grade(at: number): void {
    const { groups } = this;
    const { words } = this.tenantOf[at >> GROUP_BITS]!;
    const ofTenants = (words[WEIGHT] * this.options.bytesPerQp * this.countedMembers) / this.total[0];
    const granularity = (ofTenants * groups[at + WEIGHT]) / (words[SUM] * groups[at + SUM]);
    groups[at + GRANULARITY] =
      this.scale === 0 ? granularity : Math.round(granularity * this.scale) / this.scale;
    groups[at + VERSION] = this.version;
    this.writes++;
  }

  /** The group of a member. */
  private of(member: number): number {
    return member < this.groupOfMember.length ? this.groupOfMember[member] - 1 : NO_GROUP;
  }

  /** Lets a member count. */
  private count(member: number): void {
    if (this.isCounted[member] === 1) return;
    this.isCounted[member] = 1;
    const group = this.of(member);
    const at = group << GROUP_BITS;
    const { groups } = this;
    addTo(groups, at + SUM, this.weights, member, 1);
    if (groups[at + COUNT]++ === 0) this.countGroup(group);
    this.countedMembers++;
    this.version++;
  }

  private countGroup(group: number): void {
    const tenant = this.tenantOf[group]!;
    addTo(tenant.words, SUM, this.groups, (group << GROUP_BITS) + WEIGHT, 1);
    if (tenant.counted++ > 0) return;
    addTo(this.total, 0, tenant.words, WEIGHT, 1);
  }

  /** A member no longer counts. */
  private discount(member: number): void {
    if (this.isCounted[member] === 0) return;
    this.isCounted[member] = 0;
    const group = this.of(member);
    const at = group << GROUP_BITS;
    const { groups } = this;
    groups[at + COUNT]--;
    addTo(groups, at + SUM, this.weights, member, -1);
    if (groups[at + COUNT] === 0) this.discountGroup(group);
    this.countedMembers--;
    this.version++;
  }

  private discountGroup(group: number): void {
    const tenant = this.tenantOf[group]!;
    addTo(tenant.words, SUM, this.groups, (group << GROUP_BITS) + WEIGHT, -1);
    if (--tenant.counted > 0) return;
    addTo(this.total, 0, tenant.words, WEIGHT, -1);
  }

  private tenantNamed(name: string): Tenant {
    const known = this.tenants.get(name);
    if (known !== undefined) return known;
    const tenant: Tenant = { name, groups: new Map(), words: new Float64Array(TENANT_WORDS), counted: 0 };
    tenant.words[WEIGHT] = 1;
    this.tenants.set(name, tenant);
    return tenant;
  }

  private addGroup(tenant: Tenant, name: string): number {
    const group = this.freeGroups.pop() ?? this.names.length;
    this.groups = fitColumn(this.groups, (group << GROUP_BITS) + MEMBERS);
    const at = group << GROUP_BITS;
    this.groups.fill(0, at, at + (1 << GROUP_BITS));
    this.groups[at + WEIGHT] = 1;
    this.names[group] = name;
    this.tenantOf[group] = tenant;
    tenant.groups.set(name, group);
    return group;
  }

  /** Forgets a group that has no members and no weight of its own, and a tenant without groups. */
  private forgetIfUnused(group: number): void {
    const at = group << GROUP_BITS;
    const tenant = this.tenantOf[group];
    if (tenant === undefined || this.groups[at + MEMBERS] > 0 || this.groups[at + WEIGHT] !== 1) return;
    tenant.groups.delete(this.names[group]);
    this.tenantOf[group] = undefined;
    this.freeGroups.push(group);
    if (tenant.groups.size === 0) this.tenants.delete(tenant.name);
  }
}

/**
 * Adds or (sign -1) subtracts a weight. A sum has two words: its value, and what rounding took off that. With one, a weight
 * of 1e-6 would be lost among many of 1e6, and a sum of nothing would be left when those go. Takes words, because V8
 * allocates doubles that are passed to functions.
 */
function addTo(sums: Float64Array, at: number, weights: Float64Array, from: number, sign: 1 | -1): void {
  const before = sums[at];
  const more = sign * weights[from];
  const high = before + more;
  const taken = high - before;
  const low = sums[at + 1] + (before - (high - taken) + (more - taken));
  sums[at] = high + low;
  sums[at + 1] = low - (sums[at] - high);
}
