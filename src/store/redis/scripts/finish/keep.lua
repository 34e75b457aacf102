-- Finished jobs whose policy keeps them.

-- Whether the job with this policy is in the set of jobs that expire. If the key has another type, the job stays there.
local function expires(policy, topic)
  return policy ~= '' and string.find(policy, 'e=', 1, true) and type(redis.pcall('ZCARD', key('expiring', topic))) == 'number'
end

-- Whether a policy keeps the finished job.
local function keeps(policy)
  return policy ~= '' and string.find(';' .. policy, ';f=[1-9]') ~= nil
end

-- Gathers the writes that keep a finished job. Returns false if a record is damaged or names a topic without the job; the
-- job is then removed.
local function keep(id, text, topic, result)
  local tools = tools()
  local attempt = tools.parse_attempt(text)
  local rules = attempt and tools.parse_rules(id, attempt.rules)
  local state, time = tools.state_of(topic, id)
  if not (rules and state) then return false end
  if state == 'delayed' or state == 'ready' then attempt.due = time end
  local outcome = 'f'
  if result and is_full() then outcome, result = 'r', nil end
  local history, past = tools.finished_history(id, text, attempt, state, time)
  local job = { rules = rules, count = attempt.count, due = attempt.due, reservation = attempt.reservation, past = past }
  if not tools.keep_finished(id, job, state, topic, rules.policy, outcome, result) then return false end
  if history == '' then
    if tools.may_have_history(text) then tools.erase('history', id) end
  elseif history then
    tools.save('history', id, history)
  end
  return true
end

-- The topic of a job that this reservation has finished already, for a client that repeats a finish after a lost answer.
local function finished_topic(id, reservation)
  local job = reservation ~= '' and tools().find_job(id, nil)
  return job and job.ended and job.ended.outcome ~= 'd' and job.ended.reservation == reservation and job.topic or nil
end
