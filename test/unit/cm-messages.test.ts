// The codec of the connection manager's messages, byte for byte (InfiniBand Architecture Specification, volume 1, 12.6).
import { describe, expect, test } from 'vitest';
import {
  type CmDraft,
  type CmKind,
  cmaHeaderOf,
  decodeCm,
  encodeCm,
  MAD_BYTES,
  privateBytesOf,
  withCmaHeader,
} from '../../src/roce/cm-messages.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
/** A datagram of the specification: the header, what follows, and zeros. */
const datagram = (attribute: string, body: string) =>
  `01070203${'00000000'}1122334455667788${attribute}0000${'00000000'}${body}`.padEnd(2 * MAD_BYTES, '0');

const TRANSACTION = [0x11223344, 0x55667788] as const;
const IDS = { localCommId: 0xa1a2a3a4, remoteCommId: 0xb1b2b3b4 };
const IDS_HEX = 'a1a2a3a4b1b2b3b4';
const DATA = Uint8Array.of(0xd1, 0xd2, 0xd3);
const DATA_HEX = 'd1d2d3';
const zeros = (bytes: number) => '00'.repeat(bytes);

const MESSAGES: Record<CmKind, { draft: CmDraft<CmKind>; bytes: string }> = {
  REQ: {
    draft: {
      kind: 'REQ',
      localCommId: 0xa1a2a3a4,
      serviceIdHi: 0,
      serviceIdLo: 0x01061d2f,
      guidHi: 0x02000000,
      guidLo: 0x0a080001,
      localQpn: 0x123456,
      responderResources: 4,
      initiatorDepth: 3,
      remoteResponseTimeout: 18,
      transport: 0,
      flowControl: 1,
      startingPsn: 0xabcdef,
      localResponseTimeout: 20,
      retryCount: 7,
      pkey: 0xffff,
      pathMtu: 3,
      rnrRetryCount: 6,
      maxRetries: 15,
      srq: 1,
      extendedTransport: 0,
      localLid: 0xffff,
      remoteLid: 0xfffe,
      localGid: '::ffff:10.8.0.1',
      remoteGid: '::ffff:10.8.0.2',
      packetRate: 3,
      trafficClass: 0x68,
      hopLimit: 64,
      ackTimeout: 14,
      privateData: DATA,
    },
    bytes: datagram(
      '0010',
      [
        ...['a1a2a3a4', zeros(4), '0000000001061d2f', '020000000a080001', zeros(8)],
        ...['12345604', '00000003', '00000091', 'abcdefa7', 'ffff36f8', 'fffffffe'],
        ...[
          `${zeros(10)}ffff0a080001`,
          `${zeros(10)}ffff0a080002`,
          '00000003',
          '68400070',
          zeros(44),
          DATA_HEX,
        ],
      ].join(''),
    ),
  },
  MRA: {
    draft: { kind: 'MRA', ...IDS, message: 1, serviceTimeout: 24, privateData: DATA },
    bytes: datagram('0011', `${IDS_HEX}40c0${DATA_HEX}`),
  },
  REJ: {
    draft: {
      kind: 'REJ',
      ...IDS,
      message: 2,
      infoBytes: 8,
      reason: 28,
      infoHi: 0x01020304,
      infoLo: 0x05060708,
      privateData: DATA,
    },
    bytes: datagram('0012', `${IDS_HEX}8010001c0102030405060708${zeros(64)}${DATA_HEX}`),
  },
  REP: {
    draft: {
      kind: 'REP',
      ...IDS,
      localQpn: 0x123456,
      startingPsn: 0xabcdef,
      responderResources: 3,
      initiatorDepth: 4,
      ackDelay: 15,
      failover: 1,
      flowControl: 1,
      rnrRetryCount: 7,
      srq: 1,
      guidHi: 0x02000000,
      guidLo: 0x0a080002,
      privateData: DATA,
    },
    bytes: datagram(
      '0013',
      `${IDS_HEX}${zeros(4)}12345600${zeros(4)}abcdef0003047bf0020000000a080002${DATA_HEX}`,
    ),
  },
  RTU: {
    draft: { kind: 'RTU', ...IDS, privateData: DATA },
    bytes: datagram('0014', `${IDS_HEX}${DATA_HEX}`),
  },
  DREQ: {
    draft: { kind: 'DREQ', ...IDS, remoteQpn: 0x123456, privateData: DATA },
    bytes: datagram('0015', `${IDS_HEX}12345600${DATA_HEX}`),
  },
  DREP: {
    draft: { kind: 'DREP', ...IDS, privateData: DATA },
    bytes: datagram('0016', `${IDS_HEX}${DATA_HEX}`),
  },
  SIDR_REQ: {
    draft: {
      kind: 'SIDR_REQ',
      requestId: 0xa1a2a3a4,
      pkey: 0xffff,
      serviceIdHi: 0,
      serviceIdLo: 0x01111d2f,
      privateData: DATA,
    },
    bytes: datagram('0017', `a1a2a3a4ffff00000000000001111d2f${DATA_HEX}`),
  },
  SIDR_REP: {
    draft: {
      kind: 'SIDR_REP',
      requestId: 0xa1a2a3a4,
      status: 2,
      qpn: 0x123456,
      serviceIdHi: 0,
      serviceIdLo: 0x01111d2f,
      qkey: 0x01234567,
      privateData: DATA,
    },
    bytes: datagram('0018', `a1a2a3a402000000123456000000000001111d2f01234567${zeros(72)}${DATA_HEX}`),
  },
};

describe.each(Object.entries(MESSAGES))('%s', (kind, { draft, bytes }) => {
  test('is written as the specification has it', () => {
    expect(hex(encodeCm({ transaction: TRANSACTION, ...draft } as CmDraft<CmKind>))).toBe(bytes);
  });

  test('is read as it was written, with all bytes of its private data', () => {
    const read = decodeCm(Buffer.from(bytes, 'hex'));
    const privateData = new Uint8Array(privateBytesOf(kind as CmKind));
    privateData.set(DATA);
    expect(read).toEqual({ transaction: TRANSACTION, ...draft, privateData });
  });

  test('refuses private data that is too long', () => {
    const privateData = new Uint8Array(privateBytesOf(kind as CmKind) + 1);
    expect(() => encodeCm({ ...draft, privateData } as CmDraft<CmKind>)).toThrow(RangeError);
  });
});

test.each([
  ['another length', '', MAD_BYTES - 1],
  ['another version', '02', MAD_BYTES],
  ['another class', '0103', MAD_BYTES],
  ['another class version', '010701', MAD_BYTES],
  ['another method', '01070201', MAD_BYTES],
  ['an unknown attribute', `01070203${zeros(12)}0019`, MAD_BYTES],
])('a datagram with %s is no message', (_what, start, length) => {
  const { bytes } = MESSAGES.RTU;
  const whole = start + bytes.slice(start.length);
  expect(decodeCm(Buffer.from(whole, 'hex').subarray(0, length))).toBe(null);
});

test('the header of rdma_cm has the addresses of both ends and the port of the sender', () => {
  const v4 = { port: 0x1d2f, source: '::ffff:10.8.0.1', dest: '::ffff:10.8.0.2' };
  const bytes = withCmaHeader(v4, DATA);
  expect(hex(bytes)).toBe(`00401d2f${zeros(12)}0a080001${zeros(12)}0a080002${DATA_HEX}`);
  expect(cmaHeaderOf(bytes)).toEqual(v4);
  const v6 = { port: 1, source: 'fd00::1', dest: 'fd00::2' };
  const longer = withCmaHeader(v6, DATA);
  expect(hex(longer)).toBe(`00600001fd00${zeros(13)}01fd00${zeros(13)}02${DATA_HEX}`);
  expect(cmaHeaderOf(longer)).toEqual(v6);
});

test('a header that is too short, or of another version, is refused', () => {
  const bytes = withCmaHeader({ port: 1, source: '::ffff:1.2.3.4', dest: '::ffff:1.2.3.5' }, DATA);
  expect(cmaHeaderOf(bytes.subarray(0, 35))).toBe(null);
  expect(cmaHeaderOf(Uint8Array.from(bytes, (byte, i) => (i === 0 ? 1 : byte)))).toBe(null);
  expect(cmaHeaderOf(Uint8Array.from(bytes, (byte, i) => (i === 1 ? 0x50 : byte)))).toBe(null);
});
