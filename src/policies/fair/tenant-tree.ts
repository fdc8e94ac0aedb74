/**
 * The tenants that wait, and which of them has the smallest key: a tournament among them. Each tenant has a place of its
 * own, so that a new key takes one comparison for each round of the tournament, and moves nothing. Only growing allocates.
 */

/** Words of a tenant: its key, which is Infinity if it does not wait, and its order among equal keys. */
const BITS = 1;
const ORDER = 1;

/** Tenants by key. */
export class TenantTree {
  /** The number of tenants that wait. */
  size = 0;
  /** [0]: the key for the next put(). An array, because V8 allocates a double that is passed to a function. */
  readonly key = new Float64Array(1);
  private order = 0;
  /** The number of places, a power of two. */
  private places = 1;
  private keys = Float64Array.of(Number.POSITIVE_INFINITY, 0);
  /** The winner of each match, then the tenants. Match n is between entries 2n and 2n + 1. */
  private winners = Int32Array.of(0, 0);

  /** The tenant with the smallest key, the one that was put first among equals. There must be one. */
  get first(): number {
    return this.winners[1];
  }

  /** Sets the key of a tenant. */
  put(tenant: number): void {
    while (tenant >= this.places) this.grow();
    const { keys } = this;
    const at = tenant << BITS;
    if (keys[at] === Number.POSITIVE_INFINITY) this.size++;
    keys[at] = this.key[0];
    keys[at + ORDER] = this.order++;
    this.play(tenant);
  }

  /** The tenant no longer waits. It has no effect if it does not wait. */
  remove(tenant: number): void {
    const at = tenant << BITS;
    if (tenant >= this.places || this.keys[at] === Number.POSITIVE_INFINITY) return;
    this.size--;
    this.keys[at] = Number.POSITIVE_INFINITY;
    this.play(tenant);
  }

  /** Repeats the matches that depend on a tenant. */
  private play(tenant: number): void {
    const { keys, winners } = this;
    let winner = tenant;
    for (let match = this.places + tenant; match > 1; ) {
      const other = winners[match ^ 1];
      if (comesBefore(keys, other, winner)) winner = other;
      match >>= 1;
      // What follows depends on neither the tenant nor a change.
      if (winner !== tenant && winners[match] === winner) return;
      winners[match] = winner;
    }
  }

  private grow(): void {
    const places = 2 * this.places;
    const keys = new Float64Array(places << BITS).fill(Number.POSITIVE_INFINITY);
    keys.set(this.keys);
    this.keys = keys;
    this.winners = new Int32Array(2 * places);
    for (let tenant = 0; tenant < places; tenant++) this.winners[places + tenant] = tenant;
    this.places = places;
    for (let match = places - 1; match > 0; match--) {
      const [one, other] = [this.winners[2 * match], this.winners[2 * match + 1]];
      this.winners[match] = comesBefore(keys, other, one) ? other : one;
    }
  }
}

function comesBefore(keys: Float64Array, one: number, other: number): boolean {
  const mine = keys[one << BITS];
  const theirs = keys[other << BITS];
  return mine < theirs || (mine === theirs && keys[(one << BITS) + ORDER] < keys[(other << BITS) + ORDER]);
}
