/** What fair is to do where the network is congested: no harm to D. */

import type { Kind } from '../../mix/spec.ts';
import type { Claim } from '../engine/claim.ts';
import type { MixOptions } from '../engine/mix.ts';
import { RACKS } from '../perf/claims-network.ts';
import { alongside, GOAL, latencyToBare } from './lines.ts';

const SOURCE = `${GOAL}: D waits no longer than on the bare device`;

/** Applications that also run alone. */
const ONLY_D: readonly Kind[] = ['D'];

const SENDERS = 32;
const RECEIVER = SENDERS + 1;
const INCAST = '32 to 1';
const SLOW = { linkGbps: 10, congestionControl: 'dcqcn' };

const incast: Claim = {
  id: 'incast-d',
  system: 'fair',
  part: 3,
  title: '32 hosts with B and one with D send to one receiver at 10 Gbps, with DCQCN',
  source: SOURCE,
  shows: [],
  mixes: alongside(
    INCAST,
    [`B:count=${SENDERS},host=0-${SENDERS - 1},to=${RECEIVER}`, `D:think=1us,host=${SENDERS},to=${RECEIVER}`],
    { profile: 'cx3-56g', hosts: SENDERS + 2, set: SLOW, duration: '100ms', warmup: '50ms' },
    ONLY_D,
  ),
  checks: latencyToBare(INCAST),
};

const TWO_RACKS = 'two B';

const betweenRacks: Claim = {
  id: 'between-racks',
  system: 'fair',
  part: 3,
  title: 'Two hosts with B share the trunk between two racks, with DCQCN; D runs on one of them',
  source: SOURCE,
  shows: [],
  mixes: alongside(TWO_RACKS, ['B:count=2,host=0-1,to=3-4', 'D:think=1us,host=0,to=3'], RACKS, ONLY_D),
  checks: latencyToBare(TWO_RACKS),
};

/** As in Justitia 6.6: host 1 sends to host 3 without a policy. */
const TRUNK: MixOptions = {
  profile: 'cx3-56g',
  hosts: 4,
  topology: 'dumbbell',
  set: SLOW,
  onHosts: ['@1=none', '@3=none'],
  duration: '100ms',
  warmup: '50ms',
};
const EIGHT = 'eight B';

const congestedTrunk: Claim = {
  id: 'congested-trunk',
  system: 'fair',
  part: 3,
  title:
    'Eight tenants B alongside D on a trunk of 10 Gbps that a host without a policy congests, with DCQCN',
  source: SOURCE,
  shows: [],
  mixes: alongside(
    EIGHT,
    ['B:count=8,host=0,to=2', 'D:think=1us,host=0,to=2', 'B:name=others,host=1,to=3'],
    TRUNK,
    ONLY_D,
  ),
  checks: latencyToBare(EIGHT),
};

export const CLAIMS: readonly Claim[] = [incast, betweenRacks, congestedTrunk];
