import { type Handler, type JobInfo, Queue, Worker } from "../../src/index.js";
import { event, Lines } from "./lines.js";
import { Stub } from "./stub.js";

/** A server in this process, a queue on it, and what the workers log. */
export class Bench {
  readonly log = new Lines();

  private constructor(
    readonly stub: Stub,
    readonly queue: Queue,
  ) {}

  static async start(): Promise<Bench> {
    const stub = await Stub.start();
    return new Bench(stub, new Queue({ url: stub.url }));
  }

  worker(handler: Handler, options: object = {}): Worker {
    return new Worker(this.queue, "orders", handler, {
      logger: this.log,
      stopOn: [],
      consumer: "test 1",
      ...options,
    });
  }

  /** Runs a worker until its handler has begun once, then stops it; returns the job as it is then. */
  async once(handler: Handler, put: object = {}, options: object = {}): Promise<JobInfo | null> {
    await this.queue.put("orders", { n: 1 }, { id: "a", backoff: ["1h"], ...put });
    const begun = event();
    const worker = this.worker((job, context) => {
      begun.happen();
      return handler(job, context);
    }, options);
    const running = worker.run();
    await begun.happened;
    worker.stop();
    await running;
    return this.queue.get("a");
  }
}
