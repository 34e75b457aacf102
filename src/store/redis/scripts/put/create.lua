-- Jobs with new ids: gathered, then written with one command for each hash and set.

-- The jobs to write: their ids, fields of the pool and of the bodies, and by topic the members of its sets.
local new_ids, records, bodies, topics
-- Every id that the call has created in this bucket.
local created_ids

local function clear_created()
  new_ids, records, bodies, topics = {}, {}, {}, {}
end

local function begin_creating()
  clear_created()
  created_ids = {}
end

local function is_created(id)
  return created_ids[id]
end

local function create(id, topic, due, state, score, record, body)
  created_ids[id] = true
  local n = #records
  new_ids[#new_ids + 1], records[n + 1], records[n + 2] = id, id, record
  if body then bodies[#bodies + 1], bodies[#bodies + 2] = id, body end
  local sets = topics[topic]
  if not sets then
    sets = { ready = {}, delayed = {}, earliest = math.huge }
    topics[topic] = sets
  end
  local members = sets[state]
  local last = #members
  members[last + 1], members[last + 2] = score, id
  if state == 'delayed' and due < sets.earliest then sets.earliest = due end
end

-- If the topic had delayed jobs before, the bucket names their set and knows the topic.
local function write_sets()
  for topic, sets in pairs(topics) do
    local may_be_new = #sets.ready > 0
    if may_be_new then redis.call('ZADD', key('ready', topic), unpack(sets.ready)) end
    if #sets.delayed > 0 then
      redis.call('ZADD', key('delayed', topic), unpack(sets.delayed))
      local added = redis.call('ZADD', BUCKET, 'LT', sets.earliest, 'delayed:' .. topic)
      may_be_new = added == 1 or may_be_new
    end
    if may_be_new then redis.pcall('ZADD', TOPICS, 0, topic) end
  end
end

-- A key of another type, or a missing right, may stop this in the middle. Then everything is removed again, as if these
-- jobs had not been put. (A deadline that is too early may stay.)
local function write_created()
  if #new_ids == 0 then return end
  redis.call('HSET', POOL, unpack(records))
  local sound, problem = pcall(function()
    if #bodies > 0 then redis.call('HSET', BODIES, unpack(bodies)) end
    write_sets()
  end)
  if not sound then
    for topic, sets in pairs(topics) do
      for _, state in ipairs({ 'delayed', 'ready' }) do
        for n = 2, #sets[state], 2 do redis.pcall('ZREM', key(state, topic), sets[state][n]) end
      end
    end
    redis.call('HDEL', POOL, unpack(new_ids))
    redis.pcall('HDEL', BODIES, unpack(new_ids))
    error(problem, 0)
  end
  clear_created()
end
