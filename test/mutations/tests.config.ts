/** How the tests run in a tree with a fault: one file at a time in the order of `order.ts`, ended by what fails first. */
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
    // What a test leaves behind is no matter where nothing fails, and ten seconds of imports are saved.
    isolate: false,
    testTimeout: LIMIT_MS,
    setupFiles: ['test/mutations/no-shrinking.ts', 'test/support/assertions.ts'],
    // Only what a fault changes is transformed again.
    experimental: { fsModuleCache: true, fsModuleCachePath: `${root}/out/module-cache` },
    sequence: { sequencer: Quickest },
  },
});
