/** Runs the tests in a tree with a fault: one file at a time, in the order of `order.ts`, until the first failure. */
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { LIMIT_MS, order } from './order.ts';

const root = `${import.meta.dirname}/../..`;

class Quickest extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => order.findIndex((name) => moduleId.endsWith(name));
    return files.sort((a, b) => place(a) - place(b));
  }
}

export default defineConfig({
  test: {
    root,
    include: order,
    maxWorkers: 1,
    // Saves ten seconds of imports. Leftovers of a test do not matter, since no test fails without a fault.
    isolate: false,
    testTimeout: LIMIT_MS,
    setupFiles: ['test/mutations/no-shrinking.ts', 'test/support/assertions.ts'],
    // Only files that a fault changes are transformed again.
    experimental: { fsModuleCache: true, fsModuleCachePath: `${root}/out/module-cache` },
    sequence: { sequencer: Quickest },
  },
});
