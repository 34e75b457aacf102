-- How long sets and jobs wait that cannot be handled, in ms.
local POSTPONED = 60000

local function remove(ids)
  redis.call('HDEL', ATTEMPTS, '') -- changes nothing, and fails if it is forbidden
  for _, hash in ipairs({ ATTEMPTS, POOL, BODIES }) do
    redis.call('HDEL', hash, unpack(ids))
    has_written = true
  end
  redis.pcall('HDEL', TAG .. 'history', unpack(ids)) -- an error leaves a history that no job has
end

-- Reads the earliest overdue jobs of a set; returns their number, and a function that writes what follows, if anything does.
local function read(set, state, topic, most)
  -- A score may be a fraction above its time.
  local before = '(' .. string.format('%d', NOW + 1)
  local found = redis.call('ZRANGE', set, '-inf', before, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
  local jobs = #found / 2
  if jobs == 0 then return 0 end
  if state == 'reserved' or state == 'expiring' then
    local left, postponed, finished = load_overdue(state, topic, found)
    if #left + #postponed == 0 then return jobs end
    return jobs, function()
      redis.call('ZADD', ENDS, 'XX', 0, '')
      has_written = true
      for _, id in ipairs(postponed) do redis.call('ZADD', set, NOW + POSTPONED, id) end
      if #finished > 0 then
        redis.call('ZADD', ENDS, 'LT', NOW, 'finished:' .. topic)
        redis.call('ZADD', key('finished', topic), unpack(finished))
      end
      if #left > 0 then redis.call('ZREM', set, unpack(left)) end
      forget_if_empty(topic)
    end
  end
  if state == 'delayed' then
    local highest, ready = promote_delayed(topic, found)
    return jobs, function()
      redis.call('ZADD', key('ready', topic), unpack(ready))
      has_written = true
      redis.call('ZREMRANGEBYRANK', set, 0, jobs - 1)
      add_figures(topic, jobs, 0, highest)
    end
  end
  for _, hash in ipairs({ ATTEMPTS, POOL, BODIES }) do redis.call('HEXISTS', hash, '') end
  return jobs, function()
    local ids = {}
    for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
    remove(ids)
    redis.call('ZREMRANGEBYRANK', set, 0, jobs - 1)
    add_figures(topic, 0, state == 'dead' and jobs or 0, 0)
    forget_if_empty(topic)
  end
end

-- Acts on up to `most` jobs of a set that is due, and tells the timer when the set is due next.
local function act(set_name, state, topic, most)
  local set, deadlines = key(state, topic), state == 'delayed' and BUCKET or ENDS
  local sound, jobs, write = pcall(read, set, state, topic, most)
  -- All of them are left to the core: the set stays due until it has acted.
  if sound and jobs > 0 and not write then return spend(state, jobs) end
  -- Needs no memory and changes nothing: see basics.lua.
  redis.call('ZREM', deadlines, '')
  if not sound then
    if string.find(error_text(jobs), '^NOPERM') then error(jobs, 0) end
    -- A key of this topic has the wrong type. Other topics are not affected; this one is tried again in a minute.
    redis.call('ZADD', deadlines, NOW + POSTPONED, set_name)
    return
  end
  if write then
    redis.call('ZREMRANGEBYRANK', set, 1, 0)
    write()
  end
  spend(state, jobs)
  local _, score = unpack(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES'))
  if score then
    if not is_plain_time(score) and is_score(state, score) then score = time_of(state, score) end
    redis.call('ZADD', deadlines, score, set_name)
  else
    redis.call('ZREM', deadlines, set_name)
  end
end
