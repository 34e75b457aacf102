/** Base class of the errors that calls of this library end with. */
export class DelayQueueError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A value that the library refuses before it sends anything. The message names it and says what is allowed. */
export class UsageError extends DelayQueueError {}

/** Fields of a refusal, as in the server's answer. */
export interface Refusal {
  status: number;
  code?: string;
  detail?: string;
  field?: string;
  applied?: string;
  state?: string;
  topic?: string;
  requestId?: string;
  retryAfter?: number;
}

/** The server answered that it does not carry out the request. */
export class Refused extends DelayQueueError {
  /** Status of HTTP. */
  readonly status: number;
  /** Stable code of the reason, such as `job_exists`. */
  readonly code: string | undefined;
  /** Sentence for people. */
  readonly detail: string;
  /** Path of the invalid field, such as `backoff.max`. */
  readonly field: string | undefined;
  /** `no` if nothing was changed, `unknown` if the request may have been applied. */
  readonly applied: "no" | "unknown";
  /** State of the job that stands in the way, with `job_exists` and `wrong_state`. */
  readonly state: string | undefined;
  /** Topic of the job that has the id, with `job_exists`. */
  readonly topic: string | undefined;
  readonly requestId: string | undefined;
  /** Seconds until a retry can help, if the server named them. */
  readonly retryAfter: number | undefined;

  constructor(refusal: Refusal) {
    const detail = refusal.detail ?? "the answer gives no reason";
    super(`${detail} (${refusal.status}${refusal.code ? ` ${refusal.code}` : ""})${hint(refusal)}`);
    this.status = refusal.status;
    this.code = refusal.code;
    this.detail = detail;
    this.field = refusal.field;
    this.applied = refusal.applied === "no" ? "no" : "unknown";
    this.state = refusal.state;
    this.topic = refusal.topic;
    this.requestId = refusal.requestId;
    this.retryAfter = refusal.retryAfter;
  }
}

/** Says what to check after a refusal that a wrong setting causes. */
function hint({ status, code }: Refusal): string {
  if (status === 401) return "; set the token to one that `delay-queue token create` has printed";
  if (status === 403) return "; use a token with this scope";
  return code === "route_not_found" ? "; set the url without the path of a route" : "";
}

/** The token is missing or wrong (401), or lacks a scope, which `detail` names (403). */
export class NotAllowed extends Refused {}

/** No answer of the server arrived, even after repetitions. `cause` has the reason. */
export class Unavailable extends DelayQueueError {
  constructor(
    message: string,
    /** `no` if the request was never sent, `unknown` if it may have been applied. */
    readonly applied: "no" | "unknown",
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The answer is not one of a delay-queue server: the URL leads elsewhere. */
export class UnexpectedAnswer extends DelayQueueError {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** A request that claims to be a push was not signed by the server, or is too old. */
export class InvalidSignature extends DelayQueueError {}

/** Reason of a handler's `signal` when the job no longer belongs to this worker. */
export class JobLost extends DelayQueueError {}

/** Reason of a handler's `signal` when the worker stops and the handler has used its grace. */
export class WorkerStopped extends DelayQueueError {}
