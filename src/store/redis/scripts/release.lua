-- popped -> ready, or delayed by the given delay or the job's backoff; dead if its attempts are spent.
-- ARGV  for each job: id, reservation ('' acts by id alone), delay in ms ('' for the backoff's), error (see codec.rs)
-- Reply for each job: state, topic, due time, 1 if it died by this call; or refusal, '', 0, 0

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_attempt"

local function release(id, text, attempt, by_id_alone, delay, error)
  local rules = parse_rules(id, attempt.rules) or (find_job(id) or {}).rules
  local wait = delay or rules and backoff_delay(rules.backoff, attempt.count, id)
  local topic, state, time = locate_job(id, rules and rules.topic or attempt.topic)
  if by_id_alone and state ~= 'reserved' then return NOT_RESERVED, '', 0, 0 end
  -- As after a pop, a job with unreadable rules becomes dead.
  if not rules or not wait then rules, error = rules_of_damaged(id, topic), DAMAGED end
  -- The record of a reserved or dead job has its due time; that of another job is its time in the set.
  if state == 'ready' or state == 'delayed' then attempt.due = time end
  local died = 0
  end_attempt(id, text, attempt, state, time, 'r', NOW, error)
  leave_set(state, topic, id)
  attempt.error, attempt.reservation, attempt.rules = error, '-', rules.text
  if state == 'dead' then
    join_set('dead', topic, id, attempt.died + rules.retention)
  elseif error == DAMAGED or rules.max_attempts > 0 and attempt.count >= rules.max_attempts then
    state, attempt.died, died = 'dead', NOW, 1
    join_set('dead', topic, id, NOW + rules.retention)
  else
    attempt.due = wait == 0 and NOW or NOW_UP + wait
    state = join_by_due_time(topic, id, attempt.due)
  end
  save('attempt', id, format_attempt(attempt))
  return STATE_CODE[state], topic, attempt.due, died
end

local function transition()
  return each_attempt(4, function(id, attempt, i, text)
    return release(id, text, attempt, ARGV[i + 1] == '', tonumber(ARGV[i + 2]), ARGV[i + 3])
  end)
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
