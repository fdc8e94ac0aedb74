import {
  type CmEvent,
  RDMA_CM_EVENT_ESTABLISHED,
  RDMA_CM_EVENT_MULTICAST_JOIN,
  RDMA_PS_UDP,
} from '../../verbs/index.ts';
import { DatagramEnd, DatagramPeer, type DatagramTarget, MulticastMember } from './datagram-end.ts';
import { type CmEnvironment, DevicePool } from './device-pool.ts';
import { textOf } from './errors.ts';
import type { Identifier } from './identifier.ts';
import { CmListener } from './listener.ts';
import {
  bytesOf,
  type CmDatagramServerOptions,
  type CmMulticastOptions,
  type CmResolveOptions,
  requireCall,
  requireGroup,
} from './options.ts';
import { QpResources } from './qp-resources.ts';
import { attempt, resolve } from './resolve.ts';

/** A client that asked a datagram server for its address. */
export interface DatagramRequest {
  remoteAddress: string;
  remotePort: number;
  /** Private data of the client, padded with zeros to 180 bytes. */
  privateData: Uint8Array;
  privateText: string;
  /** The queue pair that the server reported to the client. */
  end: DatagramEnd;
}

/** Events of a datagram server. */
export interface DatagramServerEvents {
  listening: [];
  /** The server answered a client. */
  request: [request: DatagramRequest];
  /** A client could not be answered; the server continues. */
  clientError: [error: Error, from: { remoteAddress: string; remotePort: number }];
  error: [error: Error];
  close: [];
}

/** Answers clients with the number of a UD queue pair, one per device. Created by createDatagramServer(). */
export class DatagramServer extends CmListener<DatagramServerEvents> {
  private readonly options: CmDatagramServerOptions;
  private readonly byDevice = new Map<string, Promise<DatagramEnd>>();
  private readonly made = new Set<DatagramEnd>();

  /** @internal Use createDatagramServer(). */
  constructor(env: CmEnvironment, options: CmDatagramServerOptions = {}) {
    super(env, RDMA_PS_UDP);
    this.options = options;
  }

  /** Its queue pairs, one for each device that has received a request. */
  get ends(): readonly DatagramEnd[] {
    return [...this.made];
  }

  /** Closes the server; resolves when everything is closed. */
  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((resolve) => this.close(resolve));
  }

  protected override async started(id: Identifier): Promise<void> {
    const { deviceName } = id.info();
    if (deviceName !== '') await this.endOn(deviceName, id);
  }

  protected override onRequest(id: Identifier, event: CmEvent): void {
    const { remote } = id.info();
    const from = { remoteAddress: remote.address, remotePort: remote.port };
    this.answer(id, event, from).catch((error: Error) => {
      process.nextTick(() => this.emit('clientError', error, from));
    });
  }

  protected override busy(): boolean {
    return false;
  }

  protected override ended(): void {
    for (const end of [...this.made]) end.close();
  }

  private async answer(
    id: Identifier,
    event: CmEvent,
    from: { remoteAddress: string; remotePort: number },
  ): Promise<void> {
    try {
      const end = await this.endOn(id.info().deviceName, id);
      if (id.closed) return;
      const privateData = bytesOf(this.options.privateData);
      id.cm.accept(id.handle, { privateData, qpNum: end.qp.qpNum });
      const data = event.privateData;
      const request = { ...from, privateData: data, privateText: textOf(data), end };
      // Deferred: an exception of a listener belongs to the program, not to this request.
      process.nextTick(() => this.emit('request', request));
    } finally {
      this.unanswered.delete(id);
      id.destroy();
    }
  }

  private endOn(deviceName: string, id: Identifier): Promise<DatagramEnd> {
    const known = this.byDevice.get(deviceName);
    if (known !== undefined) return known;
    const end = this.makeEnd(deviceName, id);
    this.byDevice.set(deviceName, end);
    end.catch(() => this.byDevice.delete(deviceName));
    return end;
  }

  private async makeEnd(deviceName: string, id: Identifier): Promise<DatagramEnd> {
    const end = new DatagramEnd(new QpResources(this.pool, deviceName, 'UD', this.options));
    this.made.add(end);
    end.once('close', () => {
      this.made.delete(end);
      this.byDevice.delete(deviceName);
    });
    try {
      await end.start(id, this.options);
      return end;
    } catch (error) {
      end.close();
      throw error;
    }
  }
}

/** Asks a datagram server for its address, and creates a queue pair to reach it. */
export function resolveDatagram(env: CmEnvironment, options: CmResolveOptions): Promise<DatagramPeer> {
  requireCall('resolveDatagram', options);
  const { host = 'localhost', port } = options;
  const what = `cannot reach ${host}:${port}`;
  return attempt(what, env.provider, RDMA_PS_UDP, options, async (id) => {
    await resolve(id, env.provider, { ...options, host });
    const resources = new QpResources(new DevicePool(env, false), id.info().deviceName, 'UD', options);
    const peer = new DatagramPeer(id, resources);
    try {
      await peer.start(id, options);
      id.cm.connect(id.handle, { privateData: bytesOf(options.privateData), qpNum: peer.qp.qpNum });
      const event = await id.expect(what, RDMA_CM_EVENT_ESTABLISHED);
      peer.setRemote(event.ud as DatagramTarget, event.privateData);
      id.keepAlive(false);
      return peer;
    } catch (error) {
      peer.close();
      throw error;
    }
  });
}

/** Joins a multicast group (rdma_join_multicast(3)) with a new queue pair. */
export function joinMulticast(
  env: CmEnvironment,
  group: string,
  options: CmMulticastOptions = {},
): Promise<MulticastMember> {
  requireCall('joinMulticast', options);
  requireGroup('joinMulticast', group);
  const what = `cannot join ${group}`;
  return attempt(what, env.provider, RDMA_PS_UDP, options, async (id) => {
    await resolve(id, env.provider, { ...options, host: group, port: 0 }, false);
    const resources = new QpResources(new DevicePool(env, false), id.info().deviceName, 'UD', options);
    const member = new MulticastMember(id, resources, group);
    try {
      await member.start(id, options);
      id.cm.joinMulticast(id.handle, { address: group, port: 0 });
      const event = await id.expect(what, RDMA_CM_EVENT_MULTICAST_JOIN);
      member.attach(event.ud as DatagramTarget);
      id.keepAlive(false);
      return member;
    } catch (error) {
      member.close();
      throw error;
    }
  });
}
