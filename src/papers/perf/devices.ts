/** The devices of PeRF, fig. 15. */
export const DEVICES = { 'ConnectX-5, 40 Gbps': 'cx5-40g', 'ConnectX-6, 100 Gbps': 'cx6-100g' } as const;
export type Device = keyof typeof DEVICES;
export const DEVICE = { title: '', values: Object.keys(DEVICES) as Device[] };
