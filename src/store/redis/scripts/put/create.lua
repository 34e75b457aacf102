-- Jobs with new ids: gathered, then written with one command for each hash and set.

-- The jobs to write: fields of the pool and of the bodies, and by key the sets that they join. Each set has its
-- members, its state and topic, and its earliest due time.
local records, bodies, sets

local function clear_created()
  records, bodies, sets = {}, {}, {}
end

local function add_member(id, state, topic, set, time, score)
  local members = sets[set]
  if not members then
    members = { state = state, topic = topic, earliest = time }
    sets[set] = members
  end
  local last = #members
  members[last + 1], members[last + 2] = score, id
  if time < members.earliest then members.earliest = time end
end

local function create(id, state, topic, set, due, score, record, body)
  local last = #records
  records[last + 1], records[last + 2] = id, record
  if body then bodies[#bodies + 1], bodies[#bodies + 2] = id, body end
  add_member(id, state, topic, set, due, score)
end

-- Has a job expire, counted from its due time; returns the rest of its record with that time.
local function expire(id, topic, due, rest)
  local sizes, policy, name, body = string.match(rest, '^%x%x%x%x%x%x%x%x(%x+ %d+ )(%S*)( %S+)(\n.*)$')
  local expires_at = due + string.match(';' .. policy, ';x=(%d+)')
  local others = string.sub(string.gsub(';' .. policy, ';e=[^;]*', ''), 2)
  local rules = string.format('%s%s;e=%d%s', sizes, others, expires_at, name)
  add_member(id, 'expiring', topic, key('expiring', topic), expires_at, expires_at)
  return string.sub(redis.sha1hex(id .. ' ' .. rules), 1, 8) .. rules .. body
end

-- If the topic had delayed jobs before, the bucket names their set and knows the topic.
local function write_bodies_and_sets()
  if #bodies > 0 then redis.call('HSET', BODIES, unpack(bodies)) end
  for set, members in pairs(sets) do
    local topic, may_be_new = members.topic, 1
    if members.state ~= 'ready' then
      local deadlines = members.state == 'delayed' and BUCKET or ENDS
      may_be_new = redis.call('ZADD', deadlines, 'LT', members.earliest, members.state .. ':' .. topic)
    end
    redis.call('ZADD', set, unpack(members))
    if may_be_new == 1 then redis.pcall('ZADD', TOPICS, 0, topic) end
  end
end

-- A key of another type, or a missing right, may stop this in the middle. Then everything is removed again, as if these
-- jobs had not been put; only a deadline that is too early may remain. If the removal is refused too, the records remain.
local function write_created()
  if #records == 0 then return end
  redis.call('HSET', POOL, unpack(records))
  has_written = true
  local sound, problem = pcall(write_bodies_and_sets)
  if not sound then
    local ids = {}
    for n = 1, #records, 2 do ids[#ids + 1] = records[n] end
    for set in pairs(sets) do redis.pcall('ZREM', set, unpack(ids)) end
    redis.call('HDEL', POOL, unpack(ids))
    redis.pcall('HDEL', BODIES, unpack(ids))
    has_written = false
    error(problem, 0)
  end
end
