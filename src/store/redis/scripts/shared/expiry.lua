-- Jobs that expire. The set `expiring:<topic>` has all delayed and ready ones, ordered by the time at which they expire.
-- Other jobs may stay in it for a while, so the timer checks each job again.

-- The error with its checksum, in the form of attempt records.
local EXPIRED = '194fed4b expired'

-- Whether a job that is due at this time would have expired by then.
local function expires_before(rules, due)
  return rules.expires_at ~= nil and due >= rules.expires_at
end

-- Gathers the writes for a job that has expired. `text` is its attempt record, `due` its due time. Returns the topic to
-- which it moves; nil if it stays dead.
local function expire(id, text, rules, topic, state, due)
  local attempt = parse_attempt(text) or
    { count = 0, mark = may_have_history(text) and 'h' or '', snoozed = '', reservation = '-', ttr = rules.ttr }
  attempt.due, attempt.error, attempt.rules = due, EXPIRED, rules.text
  leave_set(state, topic, id)
  local target = die(id, attempt, rules, topic, rules.expires_at)
  save('attempt', id, format_attempt(attempt))
  return target
end
