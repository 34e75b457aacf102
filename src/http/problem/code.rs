//! Codes of problems: stable words, part of the API contract, each with its status.

use axum::http::StatusCode;

macro_rules! codes {
    ($($code:ident = $status:ident $name:literal: $when:literal,)+) => {
        /// Stable word for a problem, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $when] $code,)+
        }

        impl Code {
            /// All codes, ordered by status.
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// Returns the word.
            pub fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)+ }
            }

            /// Returns the status of every answer with this code.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$code => StatusCode::$status,)+ }
            }

            /// Returns the reason for this code, for the documentation.
            pub fn when(self) -> &'static str {
                match self { $(Self::$code => $when,)+ }
            }
        }
    };
}

codes! {
    InvalidJson = BAD_REQUEST "invalid_json":
        "the body is not JSON",
    InvalidRequest = BAD_REQUEST "invalid_request":
        "the request is not HTTP, lacks TLS where the server requires it, or its body is incomplete",
    Unauthenticated = UNAUTHORIZED "unauthenticated":
        "the server requires a token, and the request has none or an invalid one",
    Forbidden = FORBIDDEN "forbidden":
        "the token lacks a scope, which `detail` names",
    ForbiddenOrigin = FORBIDDEN "forbidden_origin":
        "a foreign web page or a link may have sent this, or `Host` is not a name of this server",
    JobNotFound = NOT_FOUND "job_not_found":
        "no job has this id: it was never put, or is finished, deleted or past its retention",
    PushNotFound = NOT_FOUND "push_not_found":
        "the topic has no push",
    ScheduleNotFound = NOT_FOUND "schedule_not_found":
        "no schedule has this name",
    TokenNotFound = NOT_FOUND "token_not_found":
        "no token has this name",
    RouteNotFound = NOT_FOUND "route_not_found":
        "there is no such route",
    MethodNotAllowed = METHOD_NOT_ALLOWED "method_not_allowed":
        "the route does not take this method; `Allow` lists the methods that it takes",
    RequestTimeout = REQUEST_TIMEOUT "request_timeout":
        "the head or body did not arrive in time",
    JobExists = CONFLICT "job_exists":
        "a job has this id",
    JobReserved = CONFLICT "job_reserved":
        "a consumer holds the job; retry the request when the job is no longer reserved",
    JobDead = CONFLICT "job_dead":
        "the job is dead; kick it first",
    JobFinished = CONFLICT "job_finished":
        "the job is finished; only a delete or a put that replaces the job can change it",
    WrongState = CONFLICT "wrong_state":
        "the job is in none of the states that the request names; `state` is the job's",
    ReservationLost = CONFLICT "reservation_lost":
        "the reservation is not the current one, or, for a touch, has ended",
    NeverPopped = CONFLICT "never_popped":
        "the call has no reservation, and no consumer has popped the job yet",
    ScheduleExists = CONFLICT "schedule_exists":
        "a schedule of a topic that the token may not manage has this name",
    TokenExists = CONFLICT "token_exists":
        "a token has this name",
    TokenInUse = CONFLICT "token_in_use":
        "the token has set pushes or schedules, which `detail` names; `then` says what happens to them",
    BodyTooLarge = PAYLOAD_TOO_LARGE "body_too_large":
        "the job's body or the request exceeds a limit, which `detail` names",
    ResultTooLarge = PAYLOAD_TOO_LARGE "result_too_large":
        "the result of a job has more than 64 KiB",
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE "unsupported_media_type":
        "the `Content-Type` of the body is not JSON",
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE "unsupported_encoding":
        "the request has a `Content-Encoding`",
    InvalidField = UNPROCESSABLE_ENTITY "invalid_field":
        "`field` and `detail` say what is wrong and what is allowed",
    FirstTokenNeedsAdmin = UNPROCESSABLE_ENTITY "first_token_needs_admin":
        "the first token of a store must have the scope `admin`",
    ReservationRequired = UNPROCESSABLE_ENTITY "reservation_required":
        "`queue.require_reservation` is set, and the call has no reservation",
    ResultNotKept = UNPROCESSABLE_ENTITY "result_not_kept":
        "the job is not kept after its finish (`finished_retention`), so it cannot have a result",
    TooManyRequests = TOO_MANY_REQUESTS "too_many_requests":
        "too many waiting pops, push tests, puts a second, or wrong tokens; `detail` says which",
    TopicFull = TOO_MANY_REQUESTS "topic_full":
        "the topic has `limits.topic_jobs` jobs or `limits.topic_bytes` bytes; try again later",
    TooManySchedules = TOO_MANY_REQUESTS "too_many_schedules":
        "the store has 100,000 schedules",
    HeadersTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE "headers_too_large":
        "the head exceeds its limit",
    JobDamaged = INTERNAL_SERVER_ERROR "job_damaged":
        "the stored data of the job is damaged; the job can only be deleted",
    Internal = INTERNAL_SERVER_ERROR "internal":
        "a defect of the server; its log has the cause under the `request_id`",
    UnsupportedTransferEncoding = NOT_IMPLEMENTED "unsupported_transfer_encoding":
        "the request has a `Transfer-Encoding` other than chunked",
    StoreUnavailable = SERVICE_UNAVAILABLE "store_unavailable":
        "the store does not answer; retry the request after `Retry-After`",
    StoreReplaced = SERVICE_UNAVAILABLE "store_replaced":
        "the store's files or its Redis were emptied or replaced: an operator must act",
    StoreUnsafe = SERVICE_UNAVAILABLE "store_unsafe":
        "the settings of Redis may lose jobs (see the log): puts are refused, all else works",
    Overloaded = SERVICE_UNAVAILABLE "overloaded":
        "`detail` names what is at its limit (memory, requests, reads), or that others change the job",
    ShuttingDown = SERVICE_UNAVAILABLE "shutting_down":
        "the server is shutting down; use another server",
    StoreFull = INSUFFICIENT_STORAGE "store_full":
        "no room, or `limits.store_jobs` or `store_bytes` is reached; finish and delete still work",
}
