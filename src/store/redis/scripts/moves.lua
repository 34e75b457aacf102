-- Writing: gathered while all is read and checked, then done by `commit`.

-- What `commit` is to write, gathered while all is read and checked.
local removed, placed, nearest, left, named, hashes

local function nothing()
  removed, placed, nearest, left, named = {}, {}, {}, {}, {}
  hashes = { no_attempt = {}, no_record = {}, no_body = {}, attempt = {}, record = {}, body = {} }
end
nothing()
forget = nothing

-- What changes in a hash: `what` is one of the names above.
local function note(what, id, text)
  local list = hashes[what]
  list[#list + 1] = id
  if text then list[#list + 1] = text end
end

-- The topic has a job that it perhaps had not.
local function name(topic)
  named[topic] = true
end

-- Jobs of the topic have gone.
local function leaves(topic)
  left[topic] = true
end

-- The job leaves the set it is in; one that then joins the same set stays there.
local function take(state, topic, id)
  if not state then return end
  local of = removed[state .. ':' .. topic]
  if not of then
    of = {}
    removed[state .. ':' .. topic] = of
  end
  of[#of + 1] = id
end

-- The job joins a set. `at`: its due time, or its deadline when reserved or dead.
local function place(state, topic, id, at)
  local set = state .. ':' .. topic
  local of = placed[set]
  if not of then
    of = {}
    placed[set] = of
  end
  of[#of + 1], of[#of + 2] = at, id
  local leaving = removed[set]
  if leaving and leaving[#leaving] == id then leaving[#leaving] = nil end
  if state ~= 'ready' then nearest[set] = math.min(nearest[set] or math.huge, at) end
end

-- Places the job as delayed or, if `due` has come, as ready; answers which.
local function place_due(topic, id, due)
  local state = due <= NOW and 'ready' or 'delayed'
  place(state, topic, id, due)
  return state
end

local function hash(command, of, list)
  if #list > 0 then redis.call(command, of, unpack(list)) end
end

-- Throws, before anything is written, if one of these keys is of another type.
local function prove()
  for set in pairs(placed) do redis.call('ZCARD', TAG .. set) end
  if #hashes.attempt + #hashes.no_attempt > 0 then redis.call('HEXISTS', ATTEMPTS, '') end
  if #hashes.record + #hashes.no_record > 0 then redis.call('HEXISTS', POOL, '') end
  if #hashes.body + #hashes.no_body > 0 then redis.call('HEXISTS', BODIES, '') end
end

-- Throws, before anything is changed, if this user may not write what was gathered. HSET has no form that changes
-- nothing; it is the first to change something.
local function ask_rights()
  if next(removed) or next(placed) then redis.call('ZREM', BUCKET, '') end
  if next(placed) then redis.call('ZADD', BUCKET, 'XX', 0, '') end
  if #hashes.no_attempt + #hashes.no_record + #hashes.no_body > 0 then redis.call('HDEL', ATTEMPTS, '') end
end

-- Writes what was gathered: records, what the timer must know, the sets that jobs join and then those they leave,
-- and last what follows from all that.
local function commit(is_proved)
  if not is_proved then prove() end
  ask_rights()
  hash('HSET', ATTEMPTS, hashes.attempt)
  hash('HSET', POOL, hashes.record)
  hash('HSET', BODIES, hashes.body)
  for set, at in pairs(nearest) do redis.call('ZADD', BUCKET, 'LT', at, set) end
  for set, members in pairs(placed) do redis.call('ZADD', TAG .. set, unpack(members)) end
  for set, ids in pairs(removed) do
    if #ids > 0 then redis.call('ZREM', TAG .. set, unpack(ids)) end
  end
  hash('HDEL', ATTEMPTS, hashes.no_attempt)
  hash('HDEL', POOL, hashes.no_record)
  hash('HDEL', BODIES, hashes.no_body)
  for set in pairs(removed) do
    -- A deadline may lie years ahead; an empty set must not leave its name behind that long.
    if not string.find(set, '^re') and redis.pcall('EXISTS', TAG .. set) == 0 then
      redis.call('ZREM', BUCKET, set)
    end
  end
  for topic in pairs(named) do redis.pcall('ZADD', TOPICS, 0, topic) end
  for topic in pairs(left) do leave(topic) end
  nothing()
end

-- The job goes, with all there is of it.
local function remove(id, state, topic)
  take(state, topic, id)
  note('no_attempt', id)
  note('no_record', id)
  note('no_body', id)
  if topic then leaves(topic) end
end

-- Calls `act(id, its attempt record, index in ARGV)` for each job of the batch, and commits. An id
-- that comes again meets what the first time left.
local function each_job(stride, act)
  local ids, seen = {}, {}
  for i = 2, #ARGV, stride do ids[#ids + 1] = ARGV[i] end
  if #ids == 0 then return end
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    local text = texts[n]
    if seen[id] then
      commit()
      text = redis.call('HGET', ATTEMPTS, id)
    end
    seen[id] = true
    if act(id, text, 2 + (n - 1) * stride) == 'stop' then break end
  end
  commit()
end
