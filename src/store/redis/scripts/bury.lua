-- popped -> dead, with an error text.
-- ARGV  for each job: id, reservation ('' acts by id alone), error (see codec.rs)
-- Reply for each job: state, topic, due time, 1 if it died by this call; or refusal, '', 0, 0

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_attempt"

local function bury(id, text, attempt, error)
  local rules = parse_rules(id, attempt.rules) or (find_job(id) or {}).rules
  local topic, state, time = locate_job(id, rules and rules.topic or attempt.topic)
  rules = rules or rules_of_damaged(id, topic)
  local dies = state ~= 'dead'
  end_attempt(id, text, attempt, state, time, 'b', NOW, error)
  leave_set(state, topic, id)
  if dies then attempt.died = NOW end
  -- The record of a reserved or dead job has its due time already.
  if state == 'ready' or state == 'delayed' then attempt.due = time end
  attempt.error, attempt.reservation, attempt.rules = error, '-', rules.text
  save('attempt', id, format_attempt(attempt))
  join_set('dead', topic, id, attempt.died + rules.retention)
  return STATE_CODE.dead, topic, attempt.due, dies and 1 or 0
end

local function transition()
  return each_attempt(3, function(id, attempt, i, text)
    return bury(id, text, attempt, ARGV[i + 2])
  end)
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
