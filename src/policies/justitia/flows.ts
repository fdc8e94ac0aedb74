/** What the members of a device do at peers, as they have told the agent: how much of it the agent keeps. */
import type { MembersView } from '../../coordinator/ruler.ts';
import type { Flow } from './peer.ts';

/**
 * Words of a member's report about a peer: the GIDs of the peer and of the member, four words each; the weights with
 * which the member sends and READs; and 1 if its latency applications talk to the peer.
 */
export const FLOW_WORDS = 11;
/** The most peers that the agent keeps of one member and, in a daemon, of the members of one tenant and of all. */
const MAX_OF_MEMBER = 1024;
const MAX_OF_TENANT = 4096;
const MAX_OF_ALL = 32_768;

/** The flows of all members, by member and by GID of the peer. */
export class Flows {
  readonly byMember = new Map<number, Map<string, Flow>>();
  /** The number of flows. */
  count = 0;

  find(member: number, gid: string): Flow | null {
    return this.byMember.get(member)?.get(gid) ?? null;
  }

  /** Adds a flow that does nothing yet. Null: there are too many. */
  add(
    member: number,
    { gid, fromGid, words }: { readonly gid: string; readonly fromGid: string; readonly words: Float64Array },
    members: MembersView,
  ): Flow | null {
    if (!this.hasRoom(member, members)) return null;
    const flow = { words: words.slice(0, 4), gid, fromGid, peer: -1, sends: 0, reads: 0, hasLatency: false };
    const flows = this.byMember.get(member) ?? new Map<string, Flow>();
    this.byMember.set(member, flows.set(gid, flow));
    this.count++;
    return flow;
  }

  private hasRoom(member: number, { tenants, isRemote }: MembersView): boolean {
    const { byMember } = this;
    if ((byMember.get(member)?.size ?? 0) >= MAX_OF_MEMBER) return false;
    if (!isRemote || this.count < MAX_OF_TENANT) return true;
    if (this.count >= MAX_OF_ALL) return false;
    tenants.group();
    const tenant = tenants.tenantOf(member);
    if (tenant < 0) return true;
    let count = 0;
    for (let k = tenants.firstOf(tenant); k < tenants.firstOf(tenant + 1); k++)
      count += byMember.get(tenants.memberAt(k))?.size ?? 0;
    return count < MAX_OF_TENANT;
  }

  remove(member: number, gid: string): void {
    if (this.byMember.get(member)?.delete(gid) === true) this.count--;
  }

  /** Removes the flows of a member. Returns whether it had ever any. */
  removeAll(member: number): boolean {
    this.count -= this.byMember.get(member)?.size ?? 0;
    return this.byMember.delete(member);
  }
}
