-- popped -> dead, with an error text, or ready in another topic: see die.lua.
-- ARGV  for each job: id, reservation ('' acts by id alone), error (see codec.rs). A '!' before the error means that the job
--       is damaged: it does not move.
-- Reply for each job: what each_attempt.lua returns

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_attempt"

local function bury(id, text, attempt, error)
  local rules = parse_rules(id, attempt.rules) or (find_job(id) or {}).rules
  local topic, state, time = locate_job(id, rules and rules.topic or attempt.topic)
  rules = rules or rules_of_damaged(id, topic)
  local dies, is_damaged = state ~= 'dead', string.byte(error) == 33 -- '!'
  if is_damaged then error, rules.dead_to = string.sub(error, 2), nil end
  end_attempt(id, text, attempt, state, time, 'b', NOW, error)
  leave_set(state, topic, id)
  -- The attempt record of a reserved or dead job already has the due time.
  if state == 'ready' or state == 'delayed' then attempt.due = time end
  attempt.error, attempt.reservation, attempt.rules = error, '-', rules.text
  local target
  if dies then
    target = die(id, attempt, rules, topic, NOW)
  else
    join_set('dead', topic, id, attempt.died + rules.retention, rules)
  end
  save('attempt', id, format_attempt(attempt))
  if target then return STATE_CODE.ready, target .. ' ' .. topic, attempt.due, 0, rules.priority end
  return STATE_CODE.dead, topic, attempt.due, dies and 1 or 0, rules.priority
end

local function transition()
  return each_attempt(3, function(id, attempt, i, text)
    return bury(id, text, attempt, ARGV[i + 2])
  end)
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
