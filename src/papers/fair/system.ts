/** The policy fair. It implements no paper: its claims are goals of this project. */
import type { OwnSystem } from '../engine/paper.ts';
import * as claimsDevice from './claims-device.ts';
import * as claimsDevices from './claims-devices.ts';
import * as claimsHosts from './claims-hosts.ts';
import * as claimsNetworks from './claims-networks.ts';
import * as claimsWeights from './claims-weights.ts';

export const FAIR: OwnSystem = {
  key: 'fair',
  parts: Object.freeze({
    1: 'Rates and latencies on ConnectX-6',
    2: 'Other devices',
    3: 'Congested networks',
    4: 'Weights',
    5: 'Hosts that are late or stand still',
  }),
  claims: [
    ...claimsDevice.CLAIMS,
    ...claimsDevices.CLAIMS,
    ...claimsHosts.CLAIMS,
    ...claimsNetworks.CLAIMS,
    ...claimsWeights.CLAIMS,
  ],
};
