-- popped -> ready, or delayed by the given delay or the job's backoff; dead if its attempts are spent or it would expire
-- before its next attempt, or ready in another topic then: see die.lua.
-- ARGV  for each job: id, reservation ('' acts by id alone), delay in ms ('' for the backoff's), error (see codec.rs).
--       After the delay, a 'u' means that the attempt does not count, and ' <checksum> <JSON>' is a new body.
-- Reply for each job: the reply of each_attempt.lua

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/room"
--- @include "shared/each_attempt"

-- The wait before the next attempt if the release gives no delay; nil if the policy is damaged. After an attempt that
-- does not count, the wait is the same as after the attempt before it.
local function default_wait(id, attempt, rules, is_counted)
  local count = is_counted and attempt.count or attempt.count - 1
  return count > 0 and backoff_delay(rules.backoff, count, id) or 0
end

-- Gathers the write of a new body. Returns the new rules; nil if the record is damaged.
local function replace_body(id, rules, crc, body)
  local record = redis.call('HGET', POOL, id)
  local new_record, long_body, text = rewrite(id, record or '', rules, rules.policy, crc, body)
  if not new_record then return nil end
  save_rewritten(id, new_record, long_body, rules, true)
  return parse_rules(id, text)
end

-- Gathers the writes for a job that dies or is dead. Returns 1 if it died now, else 0, and the topic to which it moves;
-- nil if it gets another attempt.
local function died(id, attempt, rules, topic, state, due, is_spent)
  if state == 'dead' then
    join_set('dead', topic, id, attempt.died + rules.retention, rules)
    return 0
  end
  if not is_spent and not expires_before(rules, due) then return nil end
  if not is_spent then attempt.error = EXPIRED end
  return 1, die(id, attempt, rules, topic, NOW)
end

local function release(id, text, attempt, given, error)
  local rules = parse_rules(id, attempt.rules) or (find_job(id) or {}).rules
  local wait = given.delay or rules and default_wait(id, attempt, rules, given.is_counted)
  local topic, state, time = locate_job(id, rules and rules.topic or attempt.topic)
  if given.by_id_alone and state ~= 'reserved' then return NOT_RESERVED end
  if given.crc and is_full() then return NO_ROOM end
  -- As after a pop, a job with unreadable rules becomes dead.
  if not rules or not wait then rules, error = rules_of_damaged(id, topic), DAMAGED end
  if given.crc and error ~= DAMAGED then
    local replaced = replace_body(id, rules, given.crc, given.body)
    if not replaced then return UNREADABLE end
    rules = replaced
  end
  -- The attempt record of a reserved or dead job has the due time. For other jobs, the set has it.
  if state == 'ready' or state == 'delayed' then attempt.due = time end
  end_attempt(id, text, attempt, state, time, given.is_counted and 'r' or 'u', NOW, error)
  leave_set(state, topic, id)
  attempt.error, attempt.reservation, attempt.rules = error, '-', rules.text
  local due = wait and (wait == 0 and NOW or NOW_UP + wait)
  local is_spent = error == DAMAGED or
    given.is_counted and rules.max_attempts > 0 and attempt.count >= rules.max_attempts
  if not given.is_counted then
    attempt.count = attempt.count - 1
    if attempt.count == 0 then attempt.snoozed = 's' end
  end
  local dies, target = died(id, attempt, rules, topic, state, due, is_spent)
  if target then
    state, topic, dies = 'ready', target .. ' ' .. topic, 0
  elseif dies then
    state = 'dead'
  else
    attempt.due = due
    state = join_by_due_time(topic, id, due, rules)
  end
  save('attempt', id, format_attempt(attempt))
  return STATE_CODE[state], topic, attempt.due, dies or 0, rules.priority
end

-- Parses the arguments of a release, except its error.
local function read_request(reservation, text)
  local delay, uncounted, rest = string.match(text, '^(%d*)(u?)(.*)$')
  local crc, body = string.match(rest, '^ (%x+) (.*)$')
  return {
    by_id_alone = reservation == '', delay = tonumber(delay), is_counted = uncounted == '', crc = crc, body = body
  }
end

local function transition()
  ask_for_room('^%d*u? %x+ ') -- a new body
  return each_attempt(4, function(id, attempt, i, text)
    return release(id, text, attempt, read_request(ARGV[i + 1], ARGV[i + 2]), ARGV[i + 3])
  end)
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
