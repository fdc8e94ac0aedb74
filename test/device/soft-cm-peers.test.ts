/**
 * rdma_cm of user-space RoCE against the C programs of rdmacm-utils on kernel soft-RoCE, in both roles: the tests of
 * rdmacm-peers and rdmacm-datagram-peers, in another network namespace. Needs root, so it runs in the virtual machine only
 * (ISOVERBS_GROUND=rxe).
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isInstalled } from './peers/program.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const VITEST = resolve(ROOT, 'node_modules/vitest/vitest.mjs');
const here = process.env.ISOVERBS_GROUND === 'rxe' && isInstalled('rping') && isInstalled('ip');

const SPACE = 'isoverbs-soft-cm';
const DEVICE = 'rxe8';
const KERNEL_END = 'veth80';
const OWN_END = 'veth81';
const KERNEL_ADDRESS = '10.9.8.1';
const OWN_ADDRESS = '10.9.8.2';
const PATIENCE = 240_000;
const FILES = ['test/device/rdmacm-peers.test.ts', 'test/device/rdmacm-datagram-peers.test.ts'];

const ip = (words: string) => execFileSync('ip', words.split(' '), { encoding: 'utf8' });

describe.skipIf(!here)('rdma_cm on kernel soft-RoCE', () => {
  beforeAll(() => {
    ip(`netns add ${SPACE}`);
    ip(`link add ${KERNEL_END} type veth peer name ${OWN_END} netns ${SPACE}`);
    ip(`addr add ${KERNEL_ADDRESS}/24 dev ${KERNEL_END}`);
    ip(`link set ${KERNEL_END} up`);
    ip(`-n ${SPACE} addr add ${OWN_ADDRESS}/24 dev ${OWN_END}`);
    ip(`-n ${SPACE} link set ${OWN_END} up`);
    execFileSync('rdma', ['link', 'add', DEVICE, 'type', 'rxe', 'netdev', KERNEL_END]);
  }, PATIENCE);

  afterAll(() => {
    execFileSync('rdma', ['link', 'delete', DEVICE]);
    ip(`link delete ${KERNEL_END}`);
    ip(`netns delete ${SPACE}`);
  });

  test('rping, ucmatose, udaddy and mckey, in both roles', { timeout: PATIENCE }, () => {
    const { VITEST: _, VITEST_POOL_ID: _id, VITEST_WORKER_ID: _worker, ...inherited } = process.env;
    const words = ['netns', 'exec', SPACE, process.execPath, VITEST, 'run'];
    const { status, stdout, stderr } = spawnSync('ip', [...words, ...FILES], {
      cwd: ROOT,
      env: {
        ...inherited,
        NO_COLOR: '1',
        ISOVERBS_PEERS: 'soft',
        ISOVERBS_PEERS_IN: 'nsenter --net=/proc/1/ns/net',
        RXE_IP: OWN_ADDRESS,
        RXE_IP2: KERNEL_ADDRESS,
      },
      encoding: 'utf8',
    });
    expect(status, stdout + stderr).toBe(0);
    // None was skipped.
    expect(stdout).toMatch(/Tests +10 passed \(10\)/);
  });
});
