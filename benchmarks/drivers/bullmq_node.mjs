// Drives BullMQ's Node package, with the protocol of protocol.py. Called as `bullmq_node.mjs FOLDER`, where FOLDER holds
// node_modules. Its scripts always write events, so only the drain with events is asked.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.argv[2], "package.json"));
const { Queue, Worker } = require("bullmq");
const IORedis = require("ioredis");

const asked = JSON.parse(readFileSync(0, "utf8"));
const { url, jobs, options } = asked;
const storm = asked.task === "retry_storm";
const NAME = "bench";
const AT_ONCE = 100;

const connect = () => new IORedis(url, { maxRetriesPerRequest: null });
const sleep = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));
const megabytes = () => process.memoryUsage().rss / 2 ** 20;
const watcher = connect();
const queue = new Queue(NAME, { connection: connect() });
const times = [];
let left = jobs;
let peak = 0;
let allDone;
const done = new Promise((resolve) => (allDone = resolve));

async function serverCpu() {
  const text = await watcher.info("cpu");
  const used = (name) => Number(text.match(new RegExp(`${name}:([0-9.]+)`))[1]);
  return used("used_cpu_user") + used("used_cpu_sys");
}

const watch = {
  running: false,
  async start() {
    this.running = true;
    this.cpu = process.cpuUsage();
    this.at = performance.now();
    this.server = await serverCpu();
  },
  async stop(count) {
    const seconds = (performance.now() - this.at) / 1000;
    const cpu = process.cpuUsage(this.cpu);
    const server = (await serverCpu()) - this.server;
    return {
      rate: count / seconds,
      cpu_us: (cpu.user + cpu.system) / count,
      server_cpu_us: (server / count) * 1e6,
      busy_mb: Math.max(peak, megabytes()),
    };
  },
};

const chosen = (delay) => ({
  removeOnComplete: !options.results,
  ...(delay === undefined ? {} : { delay: Math.round(delay) }),
  ...(storm ? { attempts: 2 } : {}),
});
const add = (data, delay) => queue.add("noop", data, chosen(delay));
const addMany = (numbers) => queue.addBulk(numbers.map((data) => ({ name: "noop", data, opts: chosen() })));
const numbers = (at, count) => Array.from({ length: count }, (_, i) => ({ i: at + i }));

function work() {
  return new Worker(
    NAME,
    async (job) => {
      if (!watch.running) await watch.start();
      if (job.data.t !== undefined) times.push(performance.now() - job.data.t);
      if (options.pause_s) await sleep(options.pause_s * 1000);
      if (storm && job.attemptsMade === 0) throw new Error("once");
      if (left % 500 === 0) peak = Math.max(peak, megabytes());
      left -= 1;
      if (left === 0) allDone();
      return options.results ? { ok: true } : undefined;
    },
    { connection: connect(), concurrency: 100 },
  );
}

const cases = {
  async add_single() {
    await add({ i: -1 });
    await watch.start();
    for (let i = 0; i < jobs; i++) await add({ i });
    return watch.stop(jobs);
  },
  async add_concurrent() {
    await add({ i: -1 });
    await watch.start();
    for (let at = 0; at < jobs; at += AT_ONCE) await Promise.all(numbers(at, AT_ONCE).map((data) => add(data)));
    return watch.stop(jobs);
  },
  async add_bulk() {
    const { size, in_flight = 1 } = options;
    await add({ i: -1 });
    await watch.start();
    let added = 0;
    while (added < jobs) {
      const bulks = Array.from({ length: in_flight }, (_, n) => numbers(added + n * size, size));
      await Promise.all(bulks.map(addMany));
      added += in_flight * size;
    }
    return watch.stop(added);
  },
  async drain() {
    for (let at = 0; at < jobs; at += 500) await addMany(numbers(at, Math.min(500, jobs - at)));
    work();
    await done;
    return watch.stop(jobs);
  },
  async delayed() {
    const due = Date.now() + 1000 + (jobs / (options.adds_per_s ?? 1000)) * 1000;
    for (let at = 0; at < jobs; at += AT_ONCE)
      await Promise.all(numbers(at, AT_ONCE).map((data) => add(data, due - Date.now())));
    if (Date.now() > due) throw new Error(`adding ${jobs} delayed jobs took longer than their delay`);
    work();
    await sleep(due - Date.now());
    if (!watch.running) await watch.start();
    await done;
    return watch.stop(jobs);
  },
  async latency() {
    const worker = work();
    await worker.waitUntilReady();
    await sleep(500);
    const idle_mb = megabytes();
    const started = performance.now();
    const adds = [];
    for (let i = 0; i < jobs; i++) {
      await sleep(started + i * 5 - performance.now());
      adds.push(add({ i, t: performance.now() }));
    }
    await Promise.all(adds);
    await done;
    times.sort((a, b) => a - b);
    return { p50_ms: times[jobs >> 1], p99_ms: times[Math.floor(jobs * 0.99)], idle_mb };
  },
};
cases.retry_storm = cases.drain;

await queue.waitUntilReady();
process.stdout.write(JSON.stringify(await cases[asked.task]()) + "\n", () => process.exit(0));
