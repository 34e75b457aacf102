-- Looks at jobs that a scan found wrong, again and all at once, and mends them if told.
-- ARGV  2 '1' to mend, '' to tell only; then per job: id, how many topics, the topics it was seen in
-- Reply per job: 0 if all is well, 1 it is in no set, 2 in several, 3 in that of another topic,
--       4 it has no record, 5 its long body is missing
local mend, reply = ARGV[2] == '1', {}

-- Every set that has the job.
local function places_of(id, topics)
  local places, seen = {}, {}
  for _, topic in ipairs(topics) do
    for _, state in ipairs(seen[topic] and {} or STATES) do
      local score = redis.call('ZSCORE', key(state, topic), id)
      if score then places[#places + 1] = { topic = topic, state = state } end
    end
    seen[topic] = true
  end
  return places
end

-- A job in no set: as long as it may be tried it is ready, for its due time is lost; one that had
-- died is dead, and so is one that cannot be read.
local function put_back(id, job)
  local a, rules = job.attempt, job.rules
  local topic = job.topic or 'damaged'
  if rules and not (a and a.died > 0) then
    place('ready', topic, id, a and a.due or NOW)
  else
    place('dead', topic, id, NOW + (rules and rules.retention or STANDARD.retention))
  end
  return topic
end

local function lacks_body(id, rules)
  return rules and rules.length > INLINE and redis.call('HEXISTS', BODIES, id) == 0
end

-- A job whose long body is missing: dead, unless a consumer holds it. With an empty body in its place every reader
-- sees that the record is damaged; without any, a pop takes the bodies to be on another node.
local function set_aside(id, job, at)
  note('body', id, '')
  if at.state == 'reserved' or at.state == 'dead' then return end
  local _, due = state_of(at.topic, id)
  take(at.state, at.topic, id)
  place('dead', at.topic, id, NOW + job.rules.retention)
  local a = job.attempt
  if a then
    a.due, a.died, a.error, a.reservation, a.rules = due, NOW, DAMAGED, '-', job.rules.text
    note('attempt', id, attempt_text(a))
  end
end

local function examine(id, topics)
  local text = redis.call('HGET', ATTEMPTS, id)
  local job = redis.call('HEXISTS', POOL, id) == 1 and find(id, text) or nil
  if job and job.topic then topics[#topics + 1] = job.topic end
  local places = places_of(id, topics)
  if job and #places == 0 then
    local topic, state = search(id)
    if state then places[1] = { topic = topic, state = state } end
  end
  local own = job and job.rules and job.topic
  local keep
  for _, at in ipairs(places) do
    -- The first in the order of states, reserved before all: a consumer may hold it.
    if not own or at.topic == own then keep = keep or at end
  end
  if job and #places == 1 and keep then
    if not lacks_body(id, job.rules) then return 0 end
    set_aside(id, job, keep)
    return 5
  end
  if not job and #places == 0 and not text and redis.call('HEXISTS', BODIES, id) == 0 then return 0 end
  for _, at in ipairs(places) do
    if at ~= keep or not job then
      take(at.state, at.topic, id)
      leaves(at.topic)
    end
  end
  if not job then
    note('no_attempt', id)
    note('no_body', id)
    return 4
  end
  if not keep then
    name(put_back(id, job))
  end
  return #places == 0 and 1 or #places > 1 and 2 or 3
end

local i = 3
while i <= #ARGV do
  local count = tonumber(ARGV[i + 1])
  reply[#reply + 1] = examine(ARGV[i], { unpack(ARGV, i + 2, i + 1 + count) })
  if mend then commit() else nothing() end
  i = i + 2 + count
end
return reply
