import { defineConfig } from 'vitest/config';

const isEmulated = process.env.ISOVERBS_GROUND === 'rxe';
const ALL = ['test/**/*.test.ts', 'examples/**/*.test.ts'];
const VERBS = 'test/verbs/**/*.test.ts';

export default defineConfig({
  // `#src/...` of bench/ are the sources here, as they are for the compiler (package.json, imports).
  ssr: { resolve: { conditions: ['source', 'node', 'import', 'module', 'default'] } },
  test: {
    // What projects inherit is added to what they name.
    include: isEmulated ? [] : ALL,
    testTimeout: 30_000,
    // The ledgers of shims are checked in all tests.
    setupFiles: ['test/support/assertions.ts'],
    // A real device counts its objects and loses its packets for one file at a time.
    maxWorkers: isEmulated ? 1 : '100%',
    // There, each process and each load of the sources takes seconds: the files of the verbs have one of both together.
    projects: isEmulated
      ? [
          { extends: true, test: { name: 'verbs', include: [VERBS], isolate: false } },
          { extends: true, test: { name: 'others', include: ALL, exclude: [VERBS, 'node_modules/**'] } },
        ]
      : undefined,
    tags: [
      {
        name: 'long',
        description: 'CI runs this suite without it: it says more of the same, and takes long',
      },
    ],
  },
});
