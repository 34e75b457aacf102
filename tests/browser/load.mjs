// Fills a queue for tests and screenshots: 20 topics, many delayed jobs, some dead ones, a slow consumer and a paused
// topic.

const TOPICS = [
  "orders.close", "orders.remind", "payments.callback", "payments.refund", "mail.reminder", "mail.digest", "sms.otp",
  "push.cart", "carts.expire", "coupons.expire", "subscriptions.renew", "subscriptions.trial_end", "invoices.dunning",
  "reports.nightly", "webhooks.retry", "exports.cleanup", "sessions.expire", "shipments.poll", "reviews.ask", "fraud.recheck",
];
const ERRORS = ["connection refused by shop 7", "504 from api.example.com after 10 s", "no such customer"];
const BATCH = 1000;

/** Returns a client of the API at `base`, with this token if there is one. */
export function client(base, token) {
  return async (method, path, body) => {
    const headers = { "Content-Type": "application/json" };
    if (token) headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${text}`);
    return text ? JSON.parse(text) : {};
  };
}

// The seed is fixed: every run fills in the same numbers, so that two screenshots can be compared.
let state = 42;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;

/** Returns a random delay in seconds: within an hour (30 %), a day (50 %) or a week (20 %). */
const delay = () => {
  const kind = random();
  const most = kind < 0.3 ? 3600 : kind < 0.8 ? 86_400 : 604_800;
  return 60 + Math.floor(random() * most);
};

/** Fills the queue with about `jobs` delayed jobs. */
export async function fill(call, jobs) {
  for (let done = 0; done < jobs; done += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, jobs - done) }, () => ({
      topic: TOPICS[Math.floor(random() ** 2 * TOPICS.length)],
      delay: delay(),
      body: { order: Math.floor(random() * 1e6), amount: "19.90", currency: "EUR" },
    }));
    await call("POST", "/batch/jobs", { jobs: some });
  }
  for (const [topic, dead] of [["payments.callback", 42], ["webhooks.retry", 17], ["mail.digest", 3]]) await putDead(call, topic, dead);
  await call("POST", "/jobs", {
    topic: "payments.callback", id: "callback:7741", backoff: ["2m", "10m", "1h"],
    body: { payment: 7741, shop: 7, url: "https://shop.example.com/paid", amount: { value: "129.00", currency: "EUR" }, tries: [] },
  });
  const held = await call("GET", "/topics/payments.callback/pop");
  await call("POST", `/jobs/${held.jobs[0].id}/release`, { reservation: held.jobs[0].reservation, error: ERRORS[1] });
  await call("POST", "/batch/jobs", { jobs: Array.from({ length: 120 }, () => ({ topic: "reports.nightly" })) });
  await call("POST", "/topics/reports.nightly/pause");
  await call("POST", "/batch/jobs", { jobs: Array.from({ length: 800 }, () => ({ topic: "mail.reminder" })) });
  await call("POST", "/batch/jobs", { jobs: Array.from({ length: 40 }, () => ({ topic: "invoices.dunning" })) });
}

/** Fills the queue with delayed jobs, spread evenly over the topics, and a ready job in each topic. */
export async function fillEvenly(call, jobs, topics) {
  for (let done = 0; done < jobs; done += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, jobs - done) }, (_, n) => ({
      topic: `topic-${(done + n) % topics}`, delay: done + n < topics ? 0 : delay(), body: done + n,
    }));
    await call("POST", "/batch/jobs", { jobs: some });
  }
}

async function putDead(call, topic, jobs) {
  await call("POST", "/batch/jobs", { jobs: Array.from({ length: jobs }, (_, n) => ({ topic, max_attempts: 1, body: { n } })) });
  for (let left = jobs; left > 0; ) {
    const popped = (await call("GET", `/topics/${topic}/pop?count=100`)).jobs;
    const released = popped.map(({ id, reservation }, n) => ({ id, reservation, error: ERRORS[n % 7 === 0 ? 2 : n % 3 === 0 ? 0 : 1] }));
    await call("POST", "/batch/release", { jobs: released });
    left -= popped.length;
  }
}

/** Puts, pops and finishes jobs until `stopped` returns true. One topic has a consumer that is too slow. */
export async function traffic(call, stopped) {
  while (!stopped()) {
    const soon = Array.from({ length: 40 }, () => ({ topic: TOPICS[Math.floor(random() * 6)], delay: random() }));
    await call("POST", "/batch/jobs", { jobs: soon });
    const fast = TOPICS.slice(0, 4).join(",");
    for (const [topics, count] of [[fast, 100], ["mail.reminder", 5], ["mail.digest", 100]]) {
      const popped = (await call("GET", `/topics/${topics}/pop?count=${count}`)).jobs;
      const held = popped.slice(0, Math.ceil(popped.length * 0.98));
      if (held.length) await call("POST", "/batch/finish", { jobs: held.map(({ id, reservation }) => ({ id, reservation })) });
    }
    await new Promise((resume) => setTimeout(resume, 200));
  }
}

/** Returns a Python traceback as a consumer would send it; numbers, ids and addresses in it depend on `n`. */
export const traceback = (n) => `Traceback (most recent call last):
  File "/srv/app/worker/payments/callback.py", line ${100 + (n % 3)}, in deliver
    response = session.post(job["body"]["url"], json=payload, timeout=10)
  File "/usr/lib/python3/dist-packages/requests/sessions.py", line 637, in post
    return self.request("POST", url, data=data, json=json, **kwargs)
requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='10.0.3.${n}', port=443): <urllib3.connection.HTTPSConnection object at 0x7f${(n * 7919).toString(16).padStart(10, "0")}> of request 5f2c1a${(n + 16).toString(16)}-93b1-4e0a-8c57-2f6f9d1b0c${(n + 16).toString(16)} timed out after ${1000 + n} ms`;

/** Fills the queue with trouble: dead jobs with tracebacks, a topic without consumers, many errors, long bodies, invisible characters. */
export async function fillWithTrouble(call) {
  const put = (topic, jobs, properties) => call("POST", "/batch/jobs", { jobs: Array.from({ length: jobs }, (_, n) => ({ topic, ...properties(n) })) });
  const failed = async (topic, jobs, error, properties = () => ({})) => {
    await put(topic, jobs, (n) => ({ body: { n }, ...properties(n) }));
    const popped = (await call("GET", `/topics/${topic}/pop?count=100`)).jobs;
    await call("POST", "/batch/release", { jobs: popped.map(({ id, reservation }, n) => ({ id, reservation, delay: 3600, error: error(n) })) });
  };
  await put("orders.remind", 3, (n) => ({ delay: 300 * (n + 1), body: { order: n } }));
  await failed("sms.otp", 1, () => "no such customer");
  await failed("payments.callback", 30, traceback, () => ({ max_attempts: 1 }));
  await failed("payments.callback", 1, () => traceback(7), () => ({ id: "job:traceback", max_attempts: 1, backoff: ["2m"] }));
  await failed("names", 2, (n) => (n ? "of \u061cAli\u180e" : "of tags \u{e0041}\u{e0042}\u200b."), () => ({ max_attempts: 1 }));
  await failed("webhooks.retry", 40, (n) => `connection to 10.0.3.${n}:8443 refused after ${100 + n} ms, request ${(n + 1_000_000).toString(16)}${"e".repeat(8)}`);
  await put("invoices.dunning", 12, (n) => ({ body: { to: `customer-${n}@example.com`, text: "A reminder that is rather long, ".repeat(12), key: "x".repeat(300) } }));
  await put("invoices.dunning", 1, () => ({ id: "job:long", body: traceback(1) }));
  await put("customers.europe-west.subscriptions.renewal-reminder", 2, () => ({ delay: 90_000 }));
  await put("reports.nightly", 120, () => ({}));
  await call("POST", "/topics/reports.nightly/pause", { for: "8h" });
}

/** Fills a topic with jobs that are pushed to a target that refuses connections, so that it is open. */
export async function fillWithPush(call) {
  const secrets = [`whsec_${btoa("x".repeat(24))}`];
  await call("PUT", "/topics/payments.capture/push", { url: "http://127.0.0.1:9/hooks", secrets, headers: { authorization: "Bearer 7", "x-shop": "7" }, batch: { max: 1 } });
  await call("POST", "/batch/jobs", { jobs: Array.from({ length: 20 }, (_, n) => ({ topic: "payments.capture", id: `capture:${7000 + n}`, body: { payment: 7000 + n } })) });
}

/** Fills a topic with 300 dead jobs, whose errors are in 4 groups, with settings, and with a finished job after failed attempts. */
export async function fillWithDead(call) {
  const errors = [
    (n) => `connection to 10.0.3.${n % 250}:8443 refused after ${100 + n} ms`,
    (n) => `no customer 'C-${n}' in shop "${["Berlin", "Paris", "Rome"][n % 3]}"`,
    traceback,
    () => undefined,
  ];
  const jobs = Array.from({ length: 300 }, (_, n) => ({ topic: "payments.capture", id: `capture:${7000 + n}`, max_attempts: 1, body: { payment: 7000 + n } }));
  await call("POST", "/batch/jobs", { jobs });
  for (let done = 0; done < 300; done += 100) {
    const popped = (await call("GET", "/topics/payments.capture/pop?count=100&consumer=worker-7")).jobs;
    const error = (n) => errors[n < 140 ? 0 : n < 240 ? 1 : n < 290 ? 2 : 3](n);
    await call("POST", "/batch/release", { jobs: popped.map(({ id, reservation, body }) => ({ id, reservation, error: error(body.payment - 7000) })) });
  }
  await call("PUT", "/topics/payments.capture", { ttr: "2m", backoff: ["0s", "0s", "1m", "1h30m"], dead_retention: "30d", finished_retention: "7d", priority: 6 });
  await call("POST", "/jobs", { topic: "payments.capture", id: "capture:finished", body: { payment: 9 } });
  for (const [verb, change] of [["release", { error: traceback(3) }], ["release", { error: "429 from the bank", count_attempt: false, delay: 0 }], ["finish", { result: { captured: true, amount: "129.00" } }]]) {
    const { jobs: [{ reservation }] } = await call("GET", `/topics/payments.capture/pop?wait=10s&consumer=worker-${verb.length}`);
    await call("POST", `/jobs/capture:finished/${verb}`, { reservation, ...change });
  }
}
