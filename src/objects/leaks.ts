/** Reports contexts that were garbage-collected without close(). It never closes them. */

/** Identifies a collected context in the report. */
export interface LeakRecord {
  label: string;
}

let reported = false;

const registry = new FinalizationRegistry<LeakRecord>((record) => {
  if (reported) return;
  reported = true;
  process.emitWarning(`the ${record.label} was never closed`, {
    code: 'ISO_LEAK',
    detail: 'Call context.close(): it closes all objects in order. Further leaks are not reported.',
  });
});

export function watchForLeak(context: object, record: LeakRecord): void {
  registry.register(context, record, record);
}

export function unwatchLeak(record: LeakRecord): void {
  registry.unregister(record);
}
