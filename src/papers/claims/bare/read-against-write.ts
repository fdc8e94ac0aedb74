import { gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { closedForm, rises } from '../../engine/expect.ts';

const READ = 'B:name=read,op=read,size=1MiB';
const TOWARDS = 'B:name=write,size=1MiB,host=1,to=0';
const ALONG = 'B:name=write,size=1MiB';

export default {
  part: 6,
  title: 'READ responses leave through the port of the responder, and share it with its WRITEs',
  source: 'One queue pair each: half each; PeRF appendix C, Justitia appendix C.3',
  mixes: {
    read: mix('cx6-100g', READ),
    write: mix('cx6-100g', ALONG),
    towards: mix('cx6-100g', [READ, TOWARDS]),
    along: mix('cx6-100g', [READ, ALONG]),
  },
  checks: [
    {
      what: 'READ of all, WRITE in the opposite direction',
      unit: '',
      measure: (runs: Runs) =>
        gbps(runs.towards, 'read') / (gbps(runs.towards, 'read') + gbps(runs.towards, 'write')),
      expect: closedForm(0.5),
    },
    {
      what: 'READ to READ alone, WRITE of the same requester',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.along, 'read') / gbps(runs.read, 'read'),
      expect: rises(0.95),
    },
    {
      what: 'WRITE to WRITE alone, READ of the same requester',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs.along, 'write') / gbps(runs.write, 'write'),
      expect: rises(0.95),
    },
  ],
} satisfies Claim;
