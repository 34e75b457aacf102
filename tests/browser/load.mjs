// A queue that looks like one in use: 20 topics, many delayed jobs, some dead ones, a slow consumer
// and a paused topic. For the pictures of the documentation.

const TOPICS = [
  "orders.close", "orders.remind", "payments.callback", "payments.refund", "mail.reminder", "mail.digest", "sms.otp",
  "push.cart", "carts.expire", "coupons.expire", "subscriptions.renew", "subscriptions.trial_end", "invoices.dunning",
  "reports.nightly", "webhooks.retry", "exports.cleanup", "sessions.expire", "shipments.poll", "reviews.ask", "fraud.recheck",
];
const ERRORS = ["connection refused by shop 7", "504 from api.example.com after 10 s", "no such customer"];
const BATCH = 1000;

/** Calls of the API of the server at `base`, with this token if there is one. */
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

// The same every time, so that two pictures can be compared.
let state = 42;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;

/** Most jobs are due soon, some within a day, few within a week. */
const delay = () => {
  const kind = random();
  const most = kind < 0.3 ? 3600 : kind < 0.8 ? 86_400 : 604_800;
  return 60 + Math.floor(random() * most);
};

/** Fills the queue with about so many delayed jobs. */
export async function fill(call, jobs) {
  for (let done = 0; done < jobs; done += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, jobs - done) }, () => ({
      topic: TOPICS[Math.floor(random() ** 2 * TOPICS.length)],
      delay: delay(),
      body: { order: Math.floor(random() * 1e6), amount: "19.90", currency: "EUR" },
    }));
    await call("POST", "/batch/jobs", { jobs: some });
  }
  for (const [topic, dead] of [["payments.callback", 42], ["webhooks.retry", 17], ["mail.digest", 3]]) await die(call, topic, dead);
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

/** Fills the queue with so many delayed jobs in so many topics, evenly, and a ready one in each. */
export async function many(call, jobs, topics) {
  for (let done = 0; done < jobs; done += BATCH) {
    const some = Array.from({ length: Math.min(BATCH, jobs - done) }, (_, n) => ({
      topic: `topic-${(done + n) % topics}`, delay: done + n < topics ? 0 : delay(), body: done + n,
    }));
    await call("POST", "/batch/jobs", { jobs: some });
  }
}

async function die(call, topic, jobs) {
  await call("POST", "/batch/jobs", { jobs: Array.from({ length: jobs }, (_, n) => ({ topic, max_attempts: 1, body: { n } })) });
  for (let left = jobs; left > 0; ) {
    const popped = (await call("GET", `/topics/${topic}/pop?count=100`)).jobs;
    const released = popped.map(({ id, reservation }, n) => ({ id, reservation, error: ERRORS[n % 7 === 0 ? 2 : n % 3 === 0 ? 0 : 1] }));
    await call("POST", "/batch/release", { jobs: released });
    left -= popped.length;
  }
}

/** Puts, pops and finishes until `stopped` says so; one topic gets a consumer that is too slow. */
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
