-- Repairs of jobs that are in no set or in a wrong one, or whose long body is missing.

-- Puts a job that is in no set into one, and returns its topic. The job becomes ready, unless its attempt record has a due
-- time that has not come. It becomes dead if it was dead or cannot be read. A finished job stays finished.
local function put_back(id, job)
  local attempt, rules = job.attempt, job.rules
  local topic = job.topic or 'damaged'
  if job.ended then
    join_set('finished', topic, id, NOW + rules.finished_retention)
  elseif rules and not (attempt and attempt.died > 0) then
    local due = attempt and attempt.due or NOW
    join_set(due > NOW and 'delayed' or 'ready', topic, id, due, rules)
  else
    join_set('dead', topic, id, NOW + (rules and rules.retention or DEFAULT_POLICY.retention), rules)
  end
  return topic
end

local function lacks_body(id, rules)
  return rules and rules.length > MAX_INLINE_BODY and redis.call('HEXISTS', BODIES, id) == 0
end

-- The error of a damaged job with its checksum, in the form of attempt records.
local DAMAGED = 'ce00c1e2 its record is damaged'

-- A job whose long body is missing becomes dead unless a consumer holds it. Writes an empty body, so that
-- every reader sees a damaged record; if the body stayed missing, a pop would assume that the bodies are on another node.
local function quarantine(id, job, set)
  save('body', id, '')
  if set.state == 'reserved' or set.state == 'dead' or set.state == 'finished' then return end
  local _, due = state_of(set.topic, id)
  leave_set(set.state, set.topic, id)
  leave_expiring(set.topic, id, job.rules)
  join_set('dead', set.topic, id, NOW + job.rules.retention, job.rules)
  local attempt = job.attempt
  if attempt then
    attempt.due, attempt.died, attempt.error, attempt.reservation = due, NOW, DAMAGED, '-'
    attempt.rules = job.rules.text
    save('attempt', id, format_attempt(attempt))
  end
end

-- Whether the timer does not know when a delayed or ready job expires.
local function lacks_expiry(id, job, set)
  local rules = job.rules
  if not (rules and rules.expires_at) or set.state ~= 'delayed' and set.state ~= 'ready' then return false end
  local score = redis.pcall('ZSCORE', key('expiring', set.topic), id)
  local deadline = redis.call('ZSCORE', ENDS, 'expiring:' .. set.topic)
  return not score or type(score) == 'string' and tonumber(score) > rules.expires_at
    or not deadline or tonumber(deadline) > rules.expires_at
end
