/** The built addon and its mirrors in TypeScript; runs without any device. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import * as W from '../../src/providers/rdma-core/qp-words.ts';
import * as V from '../../src/verbs/index.ts';

const path = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const read = (name: string) => readFileSync(path(name), 'utf8');
const ADDON = path('build/Release/isoverbs.node');

/** `constexpr uint32_t NAME = VALUE;` of a header. */
function constants(header: string): [string, number][] {
  const found = read(header).matchAll(/^constexpr uint32_t ([A-Z][A-Z0-9_]*) = ([^;]+);/gm);
  return [...found].map(([, name, value]) => {
    const shift = /^(\d+) << (\d+)$/.exec(value);
    return [name, shift ? Number(shift[1]) << Number(shift[2]) : Number(value)];
  });
}

describe('mirrors', () => {
  const names: Record<string, unknown> = { ...V, ...W };

  test.each(['native/layout.h', 'native/qp.h'])(
    'the constants in %s equal their TypeScript mirrors',
    (header) => {
      const list = constants(header);
      expect(list.length).toBeGreaterThan(30);
      for (const [name, value] of list) expect(value, name).toBe(names[name]);
    },
  );

  test('native/handles.h has the kinds and shifts of handles.ts', () => {
    const text = read('native/handles.h');
    const kinds = /enum class Kind[^{]*\{([^}]*)\}/.exec(text)![1].matchAll(/(\w+) = (\d+)/g);
    const kindOf: Record<string, number> = {
      Context: V.KIND_CONTEXT,
      Pd: V.KIND_PD,
      Mr: V.KIND_MR,
      Cq: V.KIND_CQ,
      Qp: V.KIND_QP,
      Channel: V.KIND_CHANNEL,
      WrRing: V.KIND_WR_RING,
      WcRing: V.KIND_WC_RING,
      Srq: V.KIND_SRQ,
      Ah: V.KIND_AH,
      Mw: V.KIND_MW,
      Xrcd: V.KIND_XRCD,
      CmChannel: V.KIND_CM_CHANNEL,
      CmId: V.KIND_CM_ID,
    };
    expect(Object.fromEntries([...kinds].map(([, name, n]) => [name, Number(n)]))).toEqual(kindOf);
    expect(text).toContain('kKindShift = 27');
    expect(text).toContain('kIndexBits = 18');
  });
});

describe.skipIf(!existsSync(ADDON))('the built addon', () => {
  test('links no RDMA library', () => {
    const linked = execFileSync('ldd', [ADDON], { encoding: 'utf8' });
    expect(linked).toContain('libc.so');
    expect(linked).not.toMatch(/ibverbs|rdmacm|mlx5/);
  });

  test('imports no symbol of an RDMA library', () => {
    const wanted = execFileSync('nm', ['-D', '--undefined-only', ADDON], { encoding: 'utf8' });
    expect(wanted).toContain('napi_create_function');
    expect(wanted).not.toMatch(/\b_?(ibv|rdma|mlx5dv)_/);
  });
});
