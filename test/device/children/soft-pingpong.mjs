/**
 * Our side of a C pingpong program, in a process of its own: `node soft-pingpong.mjs MODULE OPTIONS`, where MODULE is
 * peers/pingpong.ts in JavaScript, and OPTIONS its options in JSON. Keeps its device open until its input ends.
 */
const [module, options] = process.argv.slice(2);
const { pingpong } = await import(module);
const released = new Promise((resolve) => process.stdin.on('end', resolve).resume());
await pingpong(JSON.parse(options), () => released);
console.log('pass');
