-- Finished jobs whose policy keeps them.

-- Whether Redis has no room: a command that changes nothing and may need memory shows it, until the call writes.
local full
local function is_full()
  if full == nil then full = type(redis.pcall('ZADD', BUCKET, 'XX', 0, '')) == 'table' end
  return full
end

-- Asks before the first bucket of several writes, if any of them has a result to keep.
local function ask_for_room()
  if full ~= nil or FOLLOWING == 0 then return end
  for _, text in ipairs(CALL) do
    if string.find(text, '^%x* ') then return is_full() end
  end
end

-- Whether a policy keeps the finished job.
local function keeps(policy)
  return policy ~= '' and string.find(';' .. policy, ';f=[1-9]') ~= nil
end

-- Gathers the writes that keep a finished job. Returns false if a record is damaged, or names a topic that does not
-- have the job: the job then goes.
local function keep(id, text, topic, result)
  local tools = tools()
  local attempt = tools.parse_attempt(text)
  local rules = attempt and tools.parse_rules(id, attempt.rules)
  local state, time = tools.state_of(topic, id)
  if not (rules and state) then return false end
  if state == 'delayed' or state == 'ready' then attempt.due = time end
  local outcome = 'f'
  if result and is_full() then outcome, result = 'r', nil end
  local job = { rules = rules, count = attempt.count, due = attempt.due, reservation = attempt.reservation }
  if not tools.keep_finished(id, job, state, topic, rules.policy, outcome, result) then return false end
  tools.end_attempt(id, text, attempt, state, time, 'f', NOW, '')
  return true
end

-- The topic of a job that this reservation has finished already: the answer was lost.
local function finished_topic(id, reservation)
  local job = reservation ~= '' and tools().find_job(id, nil)
  return job and job.ended and job.ended.outcome ~= 'd' and job.ended.reservation == reservation and job.topic or nil
end
