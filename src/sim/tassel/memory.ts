/** On-chip memory of the scheduler (Tassel 3.2.4). */

/** Of a queue pair, in bytes. The version of a P-heap entry and its vacancies are inside the timeline's part. */
export const QP_BYTES = Object.freeze({ schedulingStates: 5, scheduleQueue: 2, timeline: 10 });

const DESCRIPTOR_BYTES = 8;

/** Bytes of on-chip memory for so many queue pairs and descriptors. */
export function memoryBytes(queuePairs: number, descriptors: number): number {
  const each = QP_BYTES.schedulingStates + QP_BYTES.scheduleQueue + QP_BYTES.timeline;
  return queuePairs * each + descriptors * DESCRIPTOR_BYTES;
}
