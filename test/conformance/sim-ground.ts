import { createFabric, type Fabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import type { Ground } from './program.ts';

export interface SimGround extends Ground {
  readonly fabric: Fabric;
}

/** A new fabric of two hosts, where only the program advances time. */
export function simGround(wait = true, profile: FabricOptions['profile'] = 'minimal'): SimGround {
  const fabric = createFabric({ hosts: 2, seed: 1, wait, profile, autoAdvance: false });
  return {
    fabric,
    provider: fabric.provider,
    devices: ['sim0', 'sim1'],
    gidIndex: 0,
    strictQueues: true,
    idlePolls: 3,
    patientPolls: 0,
    run: () => fabric.run(),
    advance: (ns) => fabric.advance(ns),
  };
}
